"""Which runs of a suite start next, and which cells are the best."""

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.ranking import NOT_RANKED
from inferometer_api.status.run_status import ScenarioSummary
from inferometer_api.suite.plan_suite import SuitePlan, System
from inferometer_api.suite.progress import RunOutcome, State, next_runs, scenario_ranges
from support.suites import a_suite, an_axis, an_outcome, planned

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


def _engines(*settings: dict[str, Any]) -> dict[str, Any]:
    values = [{"name": f"v{at}", "set": each} for at, each in enumerate(settings)]
    return {"name": "stack", "values": values}


@pytest.mark.parametrize(
    ("axis", "is_ranked"),
    [
        (an_axis("stack", "old", "new"), True),
        (_engines({}, {"spec.server.runtime": "OpenVino"}), False),
        (_engines({}, {"spec.server.precision": "FP32"}), False),
        (_engines({}, {"spec.server.runtime": "OnnxRuntime"}), True),
    ],
    ids=["connections", "engines", "precisions", "the default"],
)
def test_no_cell_is_the_best_across_engines_or_precisions(
    axis: dict[str, Any], *, is_ranked: bool
) -> None:
    """The status ranks what `compare` ranks, and says why it does not."""
    plan = planned(a_suite(axes=[axis]))
    (found,) = scenario_ranges(plan, [an_outcome(2000), an_outcome(1000)])
    assert (found.best is not None, found.worst is not None) == (is_ranked, is_ranked)
    assert found.unranked == ("" if is_ranked else NOT_RANKED)
    if found.best is not None:
        assert found.best.p50_microseconds == 1000


@pytest.mark.parametrize(
    "load", [{"accuracy": ...}, {"singleStream": {}, "sampledAccuracy": ...}], ids=len
)
def test_a_valid_accuracy_of_both_lets_engines_be_ranked(load: dict[str, Any]) -> None:
    """An INVALID one does not; one that is sampled under load counts as well."""
    data = a_suite(axes=[_engines({}, {"spec.server.runtime": "OpenVino"})])
    profile = {"dataset": {"uri": "builtin://digits"}, "metrics": ["Top1"]}
    evaluated = {kind: profile if each is ... else each for kind, each in load.items()}
    data["spec"]["template"]["spec"]["scenarios"].append({"name": "right"} | evaluated)
    plan = planned(data)

    def with_accuracy(verdict: Literal["VALID", "INVALID"]) -> RunOutcome:
        known = an_outcome()
        accuracy = ScenarioSummary(name="right", verdict=verdict)
        return RunOutcome("V", "Complete", (*known.scenarios, accuracy), known.node)

    def best(*outcomes: RunOutcome) -> bool:
        return scenario_ranges(plan, outcomes)[0].best is not None

    assert best(with_accuracy("VALID"), with_accuracy("VALID"))
    assert not best(with_accuracy("VALID"), with_accuracy("INVALID"))


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
