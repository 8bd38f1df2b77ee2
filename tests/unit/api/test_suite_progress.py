"""Which runs of a suite start next."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.suite.plan_suite import SuitePlan, System
from inferometer_api.suite.progress import State, next_runs
from support.suites import a_suite, an_axis, planned

_ANCHORED: dict[str, Any] = {"baseline": {"axis": "stack", "value": "old"}, "gate": {}}
_NODES = [System("a", takes_turns=True), System("b", takes_turns=True)]


@pytest.mark.parametrize(
    ("states", "at_once", "expected"),
    [
        ("........", 1, [0]),
        ("........", 4, [0]),  # cells wait for the anchor, and the second block for the first
        ("a.......", 4, []),
        ("V.......", 4, [1, 2]),
        ("F.......", 1, [1]),
        ("Va......", 1, []),
        ("Va......", 2, [2]),
        ("VVa.....", 4, []),
        ("VVV.....", 4, [3]),
        ("VVVa....", 4, []),
        ("VVVD....", 4, [4]),
        ("VVVVVVVV", 4, []),
    ],
)
def test_the_anchor_runs_alone_at_both_ends_of_a_block(
    states: str, at_once: int, expected: list[int]
) -> None:
    """Opening, then the cells as many at a time as are allowed, then closing, then the next."""
    plan = planned(a_suite(repeats=2, **_ANCHORED))
    assert next_runs(plan, _letters(states), max_concurrent=at_once) == expected


def test_runs_on_one_node_take_turns() -> None:
    """Two nodes measure at the same time, each one run."""
    plan = planned(a_suite(), _NODES)
    assert [
        plan.runs[at].block.system.name for at in next_runs(plan, ["."] * 4, max_concurrent=4)
    ] == ["a", "b"]
    assert len(next_runs(plan, ["."] * 4, max_concurrent=1)) == 1


def test_without_an_anchor_runs_start_in_the_order_of_the_plan() -> None:
    """As many at a time as are allowed, over the ends of blocks."""
    plan = planned(a_suite(repeats=2))
    assert next_runs(plan, _letters("...."), max_concurrent=3) == [0, 1, 2]
    assert next_runs(plan, _letters("Va.."), max_concurrent=3) == [2, 3]


@given(
    anchored=st.booleans(),
    nodes=st.booleans(),
    at_once=st.integers(1, 5),
    data=st.data(),
)
def test_every_suite_comes_to_its_end_with_each_run_started_once(
    *, anchored: bool, nodes: bool, at_once: int, data: st.DataObject
) -> None:
    """Whichever run ends next, and however."""
    spec: dict[str, Any] = _ANCHORED if anchored else {}
    suite = a_suite(repeats=3, axes=[an_axis("stack", "old", "new", "newer")], **spec)
    plan: SuitePlan = planned(suite, _NODES) if nodes else planned(suite)
    states: list[State] = ["."] * len(plan.runs)
    started: list[int] = []
    while "." in states or "a" in states:
        for index in next_runs(plan, states, max_concurrent=at_once):
            assert states[index] == "."
            states[index] = "a"
            started.append(index)
        active = [at for at, state in enumerate(states) if state == "a"]
        assert 0 < len(active) <= at_once
        states[data.draw(st.sampled_from(active))] = data.draw(
            st.sampled_from(["V", "I", "F", "D"])
        )
    assert sorted(started) == list(range(len(plan.runs)))


def _letters(text: str) -> list[State]:
    return [letter for letter in text if letter in {".", "a", "V", "I", "F", "D", "S"}]  # type: ignore[misc]  # the letters of a status
