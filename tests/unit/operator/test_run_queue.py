"""Namespaces take turns, the oldest run of each first, and never more run than the slots."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.suite.labels import POSITION_ANNOTATION
from inferometer_operator.reconcile.observed import QueuePosition
from inferometer_operator.reconcile.queue_position import (
    QueuedRun,
    band,
    describe_position,
    queue_order,
    queued_run,
)
from inferometer_operator.wiring.run_queue import RunQueue


def _run(name: str, created: str = "1", **members: Any) -> dict[str, Any]:
    metadata = {"uid": name, "name": name, "namespace": "ns", "creationTimestamp": created}
    return {"metadata": metadata, **members}


def _begun(name: str, *conditions: dict[str, str]) -> dict[str, Any]:
    return _run(name, status={"startTime": "0", "conditions": list(conditions)})


def _in(namespace: str, name: str, created: str = "1", **members: Any) -> dict[str, Any]:
    run = _run(name, created, **members)
    run["metadata"]["namespace"] = namespace
    return run


class _Woken:
    """A queue, its time, and who was woken in how long."""

    def __init__(self, slots: int = 1) -> None:
        self.now = 0.0
        self.calls: list[tuple[str, float]] = []
        self.queue = RunQueue(
            slots, lambda uid, after: self.calls.append((uid, after)), lambda: self.now
        )

    def add(self, *runs: dict[str, Any]) -> None:
        """Let runs arrive, and report each one's position."""
        for run in runs:
            self.queue.update(run)
        for run in runs:
            self.queue.position(run["metadata"]["uid"])
        self.now += 100.0

    def woken(self) -> list[str]:
        """Return who is woken now."""
        self.calls = []
        self.queue.wake_moved()
        return sorted(uid for uid, _ in self.calls)


_FINISHED = {"type": "Finished", "status": "True"}
_PENDING = {"type": "Finished", "status": "False", "reason": "ResultPending"}


@pytest.mark.parametrize(
    ("run", "state"),
    [
        (_run("new"), "waiting"),
        (_run("null", spec=None, status=None), "waiting"),
        (_run("invalid", spec={"sepc": 1}), "waiting"),
        (_run("suspended", spec={"suspend": True}), "inactive"),
        (_begun("begun"), "admitted"),
        (_begun("ending", {"type": "Finished", "status": "False"}), "admitted"),
        (_begun("result", _PENDING), "collecting"),
        (_begun("finished", _FINISHED), "inactive"),
        (_run("no nodes", status={"waitingForNodes": {"retryTime": "1"}}), "backing-off"),
        (_run("may retry", status={"waitingForNodes": {"attempts": 1}}), "waiting"),
        (
            _run("held", spec={"suspend": True}, status={"waitingForNodes": {"retryTime": "1"}}),
            "inactive",
        ),
        (
            _run("back", status={"startTime": "0", "waitingForNodes": {"retryTime": "1"}}),
            "admitted",
        ),
        (_run("refused", status={"conditions": [_FINISHED]}), "inactive"),
    ],
)
def test_the_queue_state_of_a_run_comes_from_the_cluster(run: dict[str, Any], state: str) -> None:
    """A run waits, holds a turn, or wants none: because of its status and spec alone."""
    assert queued_run(run).state == state


def test_a_run_has_waited_for_nodes_as_often_as_its_status_says() -> None:
    """One that never did has not waited at all."""
    assert queued_run(_run("a")).attempts == 0
    assert queued_run(_run("a", status={"waitingForNodes": {"attempts": 3}})).attempts == 3


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
    queue = RunQueue(1, lambda *_: None)
    for each in (_begun("0"), _run("c"), _run("b"), _run("a", "0")):
        queue.update(each)
    assert {name: queue.position(name) for name in "0abc"} == {
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
    states: list[str], slots: int
) -> None:
    """As many are admitted as there are free slots, and positions count from 1 without gaps."""
    made: dict[str, Callable[[str], dict[str, Any]]] = {"waiting": _run, "admitted": _begun}
    queue = RunQueue(slots, lambda *_: None)
    for number, state in enumerate(states):
        queue.update(made[state](f"r{number:02}") if state in made else _begun("x", _FINISHED))
    waiting = [
        queue.position(f"r{number:02}") for number, state in enumerate(states) if state == "waiting"
    ]
    admitted = sum(turn.admitted for turn in waiting)
    assert admitted == min(len(waiting), max(0, slots - states.count("admitted")))
    assert [turn.admitted for turn in waiting] == [True] * admitted + [False] * (
        len(waiting) - admitted
    )
    assert [turn.position for turn in waiting[admitted:]] == list(
        range(1, len(waiting) - admitted + 1)
    )


_NAMESPACES = st.sampled_from(["a", "b", "c", "d"])


@given(st.lists(st.tuples(_NAMESPACES, st.integers(0, 9)), max_size=40))
def test_namespaces_take_turns_and_each_keeps_its_own_order(runs: list[tuple[str, int]]) -> None:
    """Between two runs of one namespace each other one that waits has one, or none left."""
    waiting = [
        QueuedRun(str(number), str(created), namespace, f"{number:02}", "waiting")
        for number, (namespace, created) in enumerate(runs)
    ]
    order = queue_order(waiting, {})
    assert {run.uid for run in order} == {run.uid for run in waiting}
    for namespace in "abcd":
        own = [place for place, run in enumerate(order) if run.namespace == namespace]
        ages = [(order[place].created, order[place].name) for place in own]
        assert ages == sorted(ages)
        for first, second in pairwise(own):
            between = [run.namespace for run in order[first + 1 : second]]
            assert len(between) == len(set(between))
            assert {run.namespace for run in order[second:]} - {namespace} <= set(between)


def test_runs_that_a_suite_created_in_one_second_go_in_the_order_of_its_plan() -> None:
    """Times of the API server are whole seconds; the name of a cell decides nothing."""
    names = ["b1", "c1", "a1", "b2", "a2"]
    runs = [
        {
            "metadata": {
                "uid": name,
                "name": name,
                "namespace": "bench",
                "creationTimestamp": "2026-06-01T03:00:00Z",
                "annotations": {POSITION_ANNOTATION: f"{position:06}"},
            }
        }
        for position, name in enumerate(names)
    ]
    order = queue_order([queued_run(run) for run in reversed(runs)], {})
    assert [run.name for run in order] == names


def test_a_full_namespace_delays_the_first_run_of_another_by_one_at_most() -> None:
    """However many it has, and though all of them are older; then they alternate."""
    queue = RunQueue(1, lambda *_: None)
    for number in range(500):
        queue.update(_in("full", f"f{number:03}", "1"))
    begun: list[str] = []
    for _ in range(6):
        name = next(uid for uid in (*_names("f", 500), *_names("o", 3)) if _admitted(queue, uid))
        begun.append(name)
        namespace = "other" if name.startswith("o") else "full"
        status = {"startTime": f"{len(begun)}"}
        queue.update(_in(namespace, name, status=status))
        if len(begun) == 1:
            for number in range(3):
                queue.update(_in("other", f"o{number:03}", "2"))
        queue.update(_in(namespace, name, status={**status, "conditions": [_FINISHED]}))
    assert begun == ["f000", "o000", "f001", "o001", "f002", "o002"]


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{number:03}" for number in range(count)]


def _admitted(queue: RunQueue, uid: str) -> bool:
    return uid in queue and queue.position(uid).admitted


@given(st.integers(1, 10**6))
def test_a_band_holds_its_positions_and_touches_the_next(position: int) -> None:
    """The first ten are exact; a further band ends below ten times its first position."""
    first, last = band(position)
    assert first <= position <= last
    assert band(first) == band(last) == (first, last)
    assert band(last + 1)[0] == last + 1
    assert (first == last) == (position <= 10)
    assert last < 10 * first or position <= 10


@pytest.mark.parametrize(
    ("position", "words"),
    [
        (10, "Position 10 in the queue; ns/a is ahead"),
        (11, "Position 11 to 100 in the queue"),
        (100, "Position 11 to 100 in the queue"),
        (101, "Position 101 to 1000 in the queue"),
        (500, "Position 101 to 1000 in the queue"),
    ],
)
def test_a_far_position_is_reported_in_bands(position: int, words: str) -> None:
    """A run far behind reports bands of positions, and not the run ahead."""
    assert (
        describe_position(QueuePosition(admitted=False, position=position, ahead="ns/a")) == words
    )


def test_two_never_begin_at_once() -> None:
    """An admission counts before any status shows it."""
    queue = RunQueue(1, lambda *_: None)
    for name in ("a", "b"):
        queue.update(_run(name))
    assert queue.position("a").admitted
    assert not queue.position("b").admitted
    # The older one comes late: the turn is given already.
    queue.update(_run("0", "0"))
    assert not queue.position("0").admitted


def test_a_turn_that_was_not_used_goes_to_the_next() -> None:
    """A run that is not accepted gives its turn back, and the next one is woken at once."""
    played = _Woken()
    played.add(_run("a"), _run("b"))
    assert played.woken() == []
    played.queue.update(_run("a", status={"conditions": [_FINISHED]}))
    assert played.woken() == ["b"]
    assert played.calls == [("b", 0.0)]
    assert played.queue.position("b").admitted


def test_a_run_that_failed_to_begin_is_not_woken_by_the_queue() -> None:
    """Its worker pauses after a failure; it takes part again once it requests its position."""
    played = _Woken()
    played.add(_begun("a"), _run("b", "2"), _run("c", "3"))
    played.queue.remove("a")
    assert played.queue.position("b").admitted
    assert "b" not in played.woken(), "It is at work."
    played.queue.defer("b")
    assert played.woken() == ["c"]
    played.queue.update(_run("d", "4"))
    played.now += 100.0
    assert "b" not in played.woken()
    assert played.queue.position("b").admitted
    played.queue.release_claim("b")
    assert "b" in played.woken()


def test_a_waiting_run_is_woken_only_when_its_position_changes() -> None:
    """The end of a run moves all waiting runs; other events move none."""
    played = _Woken()
    played.add(_begun("a"), _run("b", "2"), _run("c", "3"))
    played.queue.update(_begun("a", {"type": "Complete", "status": "True"}))
    played.queue.update(_run("d", "4"))
    played.now += 100.0
    assert played.woken() == []
    played.queue.remove("a")
    assert played.woken() == ["b", "c"]


def test_a_waiting_run_that_is_deleted_leaves_no_position() -> None:
    """The runs behind it move up and are woken, and the queue goes on."""
    played = _Woken()
    played.add(_begun("a"), _run("b", "2"), _run("c", "3"))
    assert [played.queue.position(name).position for name in ("b", "c")] == [1, 2]
    played.queue.remove("b")
    played.now += 2.0
    assert played.woken() == ["c"]
    assert played.queue.position("c").position == 1
    played.queue.remove("a")
    assert played.woken() == ["c"]
    assert played.queue.position("c").admitted


def test_positions_are_told_once_no_more_runs_come() -> None:
    """500 that are applied in one command do not report 500 positions."""
    played = _Woken()
    played.add(_begun("a"), _run("m", "5"))
    for number in range(5):
        played.queue.update(_run(f"b{number}", "2"))
        assert played.woken() == []
        played.now += 1.0
    assert played.queue.wake_moved() == pytest.approx(1.0)
    played.now += 1.0
    assert played.woken() == ["m"]
    for number in range(50):
        played.queue.update(_run(f"c{number}", "2"))
        played.now += 1.0
        if played.woken():
            break
    # They have come for so long that positions are reported in any case.
    assert number == 19


def test_positions_are_reported_once_no_more_waiting_runs_go() -> None:
    """500 that are deleted in one command do not use up what may be written in a minute."""
    played = _Woken()
    played.add(_begun("a"), *(_run(f"b{number}", "2") for number in range(5)), _run("m", "5"))
    for number in range(5):
        played.queue.remove(f"b{number}")
        assert played.woken() == []
        played.now += 1.0
    assert played.queue.wake_moved() == pytest.approx(1.0)
    played.now += 1.0
    assert played.woken() == ["m"]


def test_a_position_is_written_at_most_twice_a_minute() -> None:
    """However fast those ahead of it end; where it may begin, it begins."""
    played = _Woken()
    runs = [_run(f"r{number}", str(number)) for number in range(10)]
    played.add(_begun("a"), *runs)
    told_at = []
    for number in range(9):
        played.queue.remove("a" if number == 0 else f"r{number - 1}")
        played.queue.update(_begun(f"r{number}"))
        played.calls = []
        played.queue.wake_moved()
        (after,) = [after for uid, after in played.calls if uid == "r9"]
        if after == 0.0:
            told_at.append(played.now)
            played.queue.position("r9")
        played.now += 10.0
    assert [at - told_at[0] for at in told_at] == [0.0, 10.0, 80.0]
    played.queue.remove("r8")
    played.calls = []
    played.queue.wake_moved()
    assert played.calls == [("r9", 0.0)]


def test_looks_at_a_waiting_run_write_its_position_no_more_often() -> None:
    """Its own events come in between; the position follows once a write is due."""
    played = _Woken()
    runs = [_run(f"r{number}", str(number)) for number in range(9)]
    played.add(_begun("a"), *runs)
    played.now = 0.0
    written = [played.queue.position("r8")]
    for number in range(7):
        played.queue.remove("a" if number == 0 else f"r{number - 1}")
        played.queue.update(_begun(f"r{number}"))
        played.now += 4.0
        written.append(played.queue.position("r8"))
    assert [each.position for each in written] == [9, 8, 8, 8, 8, 8, 8, 8]
    assert "r8" in played.woken()
    played.now += dict(played.calls)["r8"]
    assert played.queue.position("r8").position == 2


def _pausing(name: str, created: str = "1", attempts: int = 1) -> dict[str, Any]:
    wait = {"attempts": attempts, "retryTime": "9"}
    return _run(name, created, status={"waitingForNodes": wait})


def test_a_run_that_found_no_nodes_frees_its_slot() -> None:
    """The next run begins, and the one that pauses takes no position of the others."""
    played = _Woken()
    played.add(_begun("a"), _run("b", "2"), _run("c", "3"))
    played.queue.update(_pausing("a", "0"))
    assert played.woken() == ["b", "c"]
    assert played.queue.position("b").admitted
    assert played.queue.position("c") == QueuePosition(admitted=False, position=1, ahead="ns/b")
    assert played.queue.position("a") == QueuePosition(admitted=False)
    # After its pause it queues by its age.
    played.queue.update(_run("a", "0", status={"waitingForNodes": {"attempts": 1}}))
    assert played.queue.position("a") == QueuePosition(admitted=False, position=1, ahead="ns/b")


def test_the_end_of_a_run_wakes_the_first_that_pauses() -> None:
    """One alone, because the nodes of one run are free; and not one that only gave up its turn."""
    played = _Woken(slots=3)
    played.add(_begun("a"), _begun("b"), _begun("c"))
    for name, created in (("x", "3"), ("y", "2")):
        played.queue.update(_pausing(name, created))
    played.queue.update(_pausing("c"))
    played.queue.update(_run("waits"))
    played.queue.remove("waits")
    assert played.calls == []
    played.queue.remove("a")
    assert played.calls == [("c", 0.0)]
    played.queue.update(_pausing("c"))
    assert played.queue.position("c").nodes_freed
    assert not played.queue.position("y").nodes_freed
    played.queue.update(_begun("b", _FINISHED))
    assert played.calls == [("c", 0.0), ("y", 0.0)]
    # A run that finds no nodes again pauses again.
    played.queue.update(_begun("c"))
    played.queue.update(_pausing("c"))
    assert not played.queue.position("c").nodes_freed


def test_a_run_that_goes_back_to_the_queue_wakes_one_with_fewer_attempts() -> None:
    """Its pods held nodes; two that no node suits do not wake each other for ever."""
    played = _Woken(slots=3)
    played.add(_begun("a"), _pausing("x", attempts=2), _pausing("y", attempts=1))
    played.queue.update(_pausing("a", attempts=2))
    assert played.calls == [("y", 0.0)]
    assert not played.queue.position("a").nodes_freed
    played.queue.update(_begun("y"))
    played.queue.update(_pausing("y", attempts=2))
    assert played.calls == [("y", 0.0)]
    # A run that is resumed before it has begun again pauses for no nodes.
    played.queue.update(_begun("b"))
    played.queue.update(_run("b"))
    assert len(played.calls) == 2


def test_no_run_is_admitted_while_the_server_of_another_is_replaced() -> None:
    """The node of that server is free meanwhile; a server that finds none holds others for 90 s."""
    played = _Woken(slots=2)
    played.add(_begun("a"), _run("b", "2"))
    played.queue.release_claim("b")
    played.queue.note_replacement("a", is_awaited=True)
    assert not played.queue.position("b").admitted
    assert played.woken() == []
    assert played.queue.wake_moved() == pytest.approx(90.0)
    played.queue.note_replacement("a", is_awaited=False)
    assert played.woken() == ["b"]
    played.queue.note_replacement("a", is_awaited=True)
    assert not played.queue.position("b").admitted
    played.now += 90.0
    assert played.woken() == ["b"]
    assert played.queue.position("b").admitted


def test_a_server_is_not_replaced_while_runs_that_were_admitted_wait_for_nodes() -> None:
    """Until each has its nodes or is back in the queue, for 45 s at most."""
    played = _Woken(slots=3)
    played.add(_begun("a"), _begun("b"), _run("claimed", "3"))
    queue = played.queue
    queue.note_placement("a", is_placed=True)
    assert queue.others_await_nodes("a"), "Neither b nor the one that begins has its nodes."
    queue.note_placement("b", is_placed=True)
    assert queue.others_await_nodes("a")
    queue.update(_begun("claimed"))
    assert queue.others_await_nodes("a"), "Its pods are still to be created."
    queue.update(_pausing("claimed", "3"))
    assert not queue.others_await_nodes("a")
    queue.update(_begun("claimed"))
    queue.note_placement("claimed", is_placed=True)
    assert not queue.others_await_nodes("a")
    queue.note_placement("claimed", is_placed=False)
    queue.note_replacement("a", is_awaited=True)
    played.now += 44.0
    assert queue.others_await_nodes("a")
    played.now += 1.0
    assert not queue.others_await_nodes("a")


def test_a_run_that_comes_back_has_no_nodes_of_its_last_attempt() -> None:
    """What was noted of an attempt ends with it, and with the run."""
    played = _Woken(slots=2)
    played.add(_begun("a"), _begun("b"))
    queue = played.queue
    for uid in ("a", "b"):
        queue.note_placement(uid, is_placed=True)
    assert not queue.others_await_nodes("a")
    queue.update(_pausing("b", "2"))
    queue.update(_begun("b"))
    assert queue.others_await_nodes("a")
    queue.remove("b")
    assert not queue.others_await_nodes("a")


def test_a_run_whose_result_is_awaited_frees_its_slot_and_keeps_its_nodes() -> None:
    """The next run may begin on other nodes; one that found none is woken once these are free."""
    played = _Woken()
    played.add(_begun("a"), _pausing("x", "2"), _run("next", "3"))
    played.queue.update(_begun("a", _PENDING))
    assert played.woken() == ["next"]
    assert played.queue.position("next").admitted
    played.queue.update(_begun("next"))
    assert not played.queue.is_admitted("a")
    assert not played.queue.position("x").nodes_freed
    played.calls = []
    played.queue.update(_begun("a", _FINISHED))
    assert played.calls == [("x", 0.0)]
    assert played.queue.position("x").nodes_freed


def test_the_run_with_the_fewest_attempts_is_woken_first() -> None:
    """One that no node will ever suit does not take the turn of each run that ends."""
    played = _Woken(slots=2)
    played.add(_begun("a"), _begun("b"))
    played.queue.update(_pausing("impossible", "1", attempts=3))
    played.queue.update(_pausing("younger", "2", attempts=2))
    played.queue.update(_begun("a", _FINISHED))
    assert played.calls == [("younger", 0.0)]
    played.queue.update(_begun("b", _FINISHED))
    assert played.calls == [("younger", 0.0), ("impossible", 0.0)]


def test_what_is_known_of_namespaces_is_bounded() -> None:
    """The queue remembers when a namespace had its last turn, for the last 1,000 of them."""
    queue = RunQueue(1, lambda *_: None)
    for number in range(1200):
        queue.update(
            _in(f"n{number}", f"r{number}", status={"startTime": f"{number:04}"}) | {"spec": {}}
        )
        queue.remove(f"r{number}")
    assert len(queue._served) == 1000
    queue.update(_in("n1199", "late", "0"))
    queue.update(_in("n0", "first", "1"))
    assert queue.position("first").admitted
    assert queue.position("late").ahead == "n0/first"


def test_the_order_is_found_once_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """500 positions take one sort."""
    found: list[int] = []

    def noted(*arguments: Any) -> list[QueuedRun]:
        found.append(1)
        return queue_order(*arguments)

    monkeypatch.setattr("inferometer_operator.wiring.run_queue.queue_order", noted)
    queue = RunQueue(1, lambda *_: None)
    queue.update(_begun("a"))
    for name in _names("r", 500):
        queue.update(_run(name))
    positions = [queue.position(name).position for name in _names("r", 500)]
    queue.wake_moved()
    assert positions == list(range(1, 501))
    assert len(found) == 1


@pytest.mark.parametrize("reason", ["AdmissionPending", "Inadmissible"])
def test_a_run_that_waits_for_kueue_has_no_position(reason: str) -> None:
    """It takes neither slot nor place, and joins the queue once its condition is another one."""
    waits = _run("a", status={"conditions": [{"type": "Accepted", "reason": reason}]})
    assert queued_run(waits).state == "inactive"
    joined = _run("a", status={"conditions": [{"type": "Accepted", "reason": "Queued"}]})
    assert queued_run(joined).state == "waiting"
