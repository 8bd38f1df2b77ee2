"""Runs are admitted by age, and never more than the slots."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_operator.reconcile.observed import QueuePosition
from inferometer_operator.reconcile.queue_position import QueuedRun, queue_position, queued_run
from inferometer_operator.wiring.run_queue import RunQueue


def _run(name: str, created: str = "1", **members: Any) -> dict[str, Any]:
    metadata = {"uid": name, "name": name, "namespace": "ns", "creationTimestamp": created}
    return {"metadata": metadata, **members}


def _begun(name: str, *conditions: dict[str, str]) -> dict[str, Any]:
    return _run(name, status={"startTime": "0", "conditions": list(conditions)})


_FINISHED = {"type": "Finished", "status": "True"}


@pytest.mark.parametrize(
    ("run", "state"),
    [
        (_run("new"), "waiting"),
        (_run("null", spec=None, status=None), "waiting"),
        (_run("invalid", spec={"sepc": 1}), "waiting"),
        (_run("suspended", spec={"suspend": True}), "inactive"),
        (_begun("begun"), "admitted"),
        (_begun("ending", {"type": "Finished", "status": "False"}), "admitted"),
        (_begun("finished", _FINISHED), "inactive"),
        (_run("refused", status={"conditions": [_FINISHED]}), "inactive"),
    ],
)
def test_the_queue_state_of_a_run_comes_from_the_cluster(run: dict[str, Any], state: str) -> None:
    """A run waits, holds a turn, or wants none: because of its status and spec alone."""
    assert queued_run(run).state == state


def test_a_suspended_run_that_has_begun_holds_its_turn() -> None:
    """Its pods still run until it is finished."""
    run = {**_begun("a"), "spec": {"suspend": True}}
    assert queued_run(run).state == "admitted"


def test_a_run_that_is_being_deleted_waits_no_more() -> None:
    """Others do not queue behind it."""
    run = _run("a")
    run["metadata"]["deletionTimestamp"] = "2"
    assert queued_run(run).state == "inactive"


def test_the_oldest_waits_least() -> None:
    """Turns are given by age, then by namespace and name."""
    runs = [queued_run(each) for each in (_begun("0"), _run("c"), _run("b"), _run("a", "0"))]
    turns = {each.name: queue_position(each, runs, 1) for each in runs}
    assert turns == {
        "0": QueuePosition(admitted=True),
        "a": QueuePosition(admitted=False, position=1, ahead="ns/0"),
        "b": QueuePosition(admitted=False, position=2, ahead="ns/a"),
        "c": QueuePosition(admitted=False, position=3, ahead="ns/b"),
    }


@given(
    states=st.lists(st.sampled_from(["waiting", "admitted", "inactive"]), max_size=12),
    slots=st.integers(1, 4),
)
def test_never_more_than_the_slots_and_never_fewer_than_could(
    states: list[Any], slots: int
) -> None:
    """As many are admitted as there are free slots, and positions count from 1 without gaps."""
    runs = [QueuedRun(str(i), f"{i:03}", "ns", f"r{i}", state) for i, state in enumerate(states)]
    waiting = [queue_position(each, runs, slots) for each in runs if each.state == "waiting"]
    admitted = sum(turn.admitted for turn in waiting)
    assert admitted == min(len(waiting), max(0, slots - states.count("admitted")))
    assert [turn.admitted for turn in waiting] == [True] * admitted + [False] * (
        len(waiting) - admitted
    )
    assert [turn.position for turn in waiting[admitted:]] == list(
        range(1, len(waiting) - admitted + 1)
    )


def test_two_never_begin_at_once() -> None:
    """An admission counts before any status shows it."""
    queue = RunQueue(1, lambda _: None)
    for name in ("a", "b"):
        queue.update(_run(name))
    assert queue.position("a").admitted
    assert not queue.position("b").admitted
    # The older one comes late: the turn is given already.
    queue.update(_run("0", "0"))
    assert not queue.position("0").admitted


def test_an_unused_slot_goes_to_the_next_run() -> None:
    """A run that is not accepted gives its turn back, and the next one is woken."""
    woken: list[str] = []
    queue = RunQueue(1, woken.append)
    for name in ("a", "b"):
        queue.update(_run(name))
    assert queue.position("a").admitted
    assert not queue.position("b").admitted
    queue.update(_run("a", status={"conditions": [_FINISHED]}))
    assert woken == ["b"]
    assert queue.position("b").admitted


def test_a_waiting_run_is_woken_only_when_its_position_changes() -> None:
    """The end of a run moves all waiting runs; other events move none."""
    woken: list[str] = []
    queue = RunQueue(1, woken.append)
    for run in (_begun("a"), _run("b", "2"), _run("c", "3")):
        queue.update(run)
    for name in ("b", "c"):
        queue.position(name)
    queue.update(_begun("a", {"type": "Complete", "status": "True"}))
    queue.update(_run("d", "4"))
    assert woken == []
    queue.remove("a")
    assert sorted(woken) == ["b", "c"]


def test_a_waiting_run_that_is_deleted_leaves_no_position() -> None:
    """The runs behind it move up and are woken, and the queue goes on."""
    woken: list[str] = []
    queue = RunQueue(1, woken.append)
    for run in (_begun("a"), _run("b", "2"), _run("c", "3")):
        queue.update(run)
    assert [queue.position(name).position for name in ("b", "c")] == [1, 2]
    queue.remove("b")
    assert woken == ["c"]
    assert queue.position("c").position == 1
    queue.remove("a")
    assert woken == ["c", "c"]
    assert queue.position("c").admitted
