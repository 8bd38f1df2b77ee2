"""The gate of a suite: outcomes, arming, drift, and how often it cries wolf."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from inferometer_api.ranking import MEASURE_ACCURACY, Computation
from inferometer_api.spec.scenario import Scenario, SingleStream
from inferometer_api.suite.anchor import ARMING_PAIRS, add_pairs, merge_pairs
from inferometer_api.suite.comparisons import BaselineCell, baseline_cells
from inferometer_api.suite.figures import (
    CellKey,
    MeasuredRun,
    planned_computation,
    scenario_specs,
    specs_by_name,
)
from inferometer_api.suite.gate import judge_suite
from inferometer_api.suite.plan_suite import PlannedRun, SuitePlan, System
from inferometer_api.suite.progress import RunOutcome
from inferometer_api.suite.status import AnchorPairs, GateStatus
from inferometer_api.suite.wording import gate_sentence, gate_sentences
from support.suites import NODE, a_suite, an_axis, an_outcome, outcomes, parsed, planned

_AXIS: dict[str, Any] = {"baseline": {"axis": "stack", "value": "old"}, "gate": {}}
ARMED = [
    AnchorPairs(
        node_class=NODE,
        ratios_parts_per_million=[1_000_000 + 4000 * (at % 7 - 3) for at in range(30)],
    )
]


def judged(
    data: dict[str, Any],
    found: list[RunOutcome],
    history: list[AnchorPairs] | None = None,
    **arguments: Any,
) -> GateStatus:
    """Return what the gate says."""
    suite, plan = parsed(data), planned(data)
    past = of_anchor(plan, ARMED if history is None else history)
    return judge_suite(suite.spec, plan, found, past, **arguments)


def of_anchor(plan: SuitePlan, history: list[AnchorPairs]) -> list[AnchorPairs]:
    """Return pairs as those of the anchor of a plan."""
    assert plan.anchor is not None
    return [each.model_copy(update={"cell": plan.anchor.key}) for each in history]


def noisy(seed: int, slower: float = 1.0, spread: float = 0.01) -> Callable[[PlannedRun], float]:
    """Return the latency of each run: `new` is slower by a factor."""
    chance = random.Random(seed)  # noqa: S311 - no secret

    def latency(run: PlannedRun) -> float:
        factor = slower if dict(run.cell.values)["stack"] == "new" else 1.0
        return 10_000 * factor * math.exp(chance.gauss(0, spread))

    return latency


def measured_before(plan: SuitePlan, found: list[RunOutcome]) -> dict[CellKey, BaselineCell]:
    """Return the runs of cells as those of an earlier execution."""
    return baseline_cells(
        (
            (run.cell.key, ""),
            each,
            planned_computation(run, each.scenarios),
            scenario_specs(run.data["spec"]),
        )
        for run, each in zip(plan.runs, found, strict=True)
        if run.role == "cell"
    )


@pytest.mark.parametrize(
    ("slower", "outcome"), [(1.0, "PASS"), (1.15, "FAIL"), (0.85, "PASS"), (1.045, "INCONCLUSIVE")]
)
def test_the_gate_judges_interleaved_pairs_of_an_axis(slower: float, outcome: str) -> None:
    """A slow-down beyond the percentage fails; a change at it is not decided."""
    data = a_suite(repeats=8, **_AXIS)
    gate = judged(data, outcomes(planned(data), noisy(1, slower)))
    assert (gate.outcome, gate.armed, gate.judged) == (outcome, True, 2)
    if outcome == "FAIL":
        worst = gate.slower[0]
        assert worst.cell == "new"
        assert any(each.figure == "p50" for each in gate.slower)
        assert all(abs(each.ratio_parts_per_million - 1e6) > 50_000 for each in gate.slower)
        assert any(sentence.startswith("new, latency: ") for sentence in gate_sentences(gate))
    assert gate.detectable_parts_per_million is not None
    assert "is found with a probability of 80 %" in gate_sentence(gate)
    if outcome != "INCONCLUSIVE":
        assert "of the headline step of each scenario" in gate_sentence(gate)


def test_an_earlier_execution_is_the_baseline_of_equal_cells() -> None:
    """Cells match by their values."""
    data = a_suite(repeats=8, baseline={"suite": "nightly"}, gate={})
    plan = planned(data)
    before = outcomes(plan, noisy(1))
    baseline = measured_before(plan, before)
    assert judged(data, outcomes(plan, noisy(2)), baseline=baseline).outcome == "PASS"
    assert judged(data, outcomes(plan, noisy(2, 1.2)), baseline=baseline).outcome == "FAIL"
    gate = judged(data, before, baseline=None)
    assert gate.outcome == "CouldNotRun"
    assert gate.reasons == ["There is no complete execution of the baseline yet."]


def test_a_cell_of_which_no_run_is_valid_is_no_pass() -> None:
    """One value is INVALID throughout: its cells are named, whichever baseline there is."""
    axes = [an_axis("model", "a", "b", path="spec.load.seed"), an_axis("stack", "old", "new")]
    data = a_suite(repeats=8, axes=axes, **_AXIS)
    plan = planned(data)
    good = outcomes(plan, noisy(1))
    found = [
        an_outcome(state="I") if ("model", "b") in run.cell.values and run.role == "cell" else each
        for run, each in zip(plan.runs, good, strict=True)
    ]
    gate = judged(data, found)
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 2)
    assert gate.reasons == [
        "b, new: not judged. In no block that counts are both its run and the run of b, old VALID."
    ]
    data["spec"] |= {"baseline": {"suite": "nightly"}}
    after = judged(data, found, baseline=measured_before(plan, good))
    before = judged(data, good, baseline=measured_before(plan, found))
    assert {after.outcome, before.outcome} == {"INCONCLUSIVE"}
    assert "b, old: not judged. No run of this cell is VALID and counts." in after.reasons
    assert "b, new: not judged. The baseline has no VALID run of this cell." in before.reasons


def test_an_earlier_execution_of_another_engine_is_no_baseline() -> None:
    """Its cells are not judged: the outputs may differ."""
    data = a_suite(repeats=8, baseline={"suite": "nightly"}, gate={})
    plan = planned(data)
    baseline = measured_before(plan, outcomes(plan, noisy(1)))
    for each in baseline.values():
        each.computations.clear()
        each.computations.add(Computation(("OpenVino", "Default", "", "", "", "")))
    gate = judged(data, outcomes(plan, noisy(2, 1.5)), baseline=baseline)
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 0)
    assert gate.reasons == [f"{cell}: not judged. {MEASURE_ACCURACY}" for cell in ("old", "new")]


def test_executions_that_resemble_their_neighbours_fail_seldom() -> None:
    """Runs in a row resemble each other (0.6), scatter 5 %: at most 1 % of equal ones fail."""
    data = a_suite(repeats=8, axes=[an_axis("stack", "new")], baseline={"suite": "n"}, gate={})
    spec, plan = parsed(data).spec, planned(data)
    chance = random.Random(17)  # noqa: S311 - no secret

    def execution() -> list[RunOutcome]:
        state = chance.gauss(0, 0.05)

        def latency(_: PlannedRun) -> float:
            nonlocal state
            state = 0.6 * state + 0.8 * chance.gauss(0, 0.05)
            return 10_000 * math.exp(state)

        return outcomes(plan, latency)

    suites = 300
    gates = [
        judge_suite(spec, plan, execution(), (), measured_before(plan, execution()))
        for _ in range(suites)
    ]
    assert sum(each.outcome == "FAIL" for each in gates) <= suites // 100


def test_figures_of_different_steps_are_not_compared() -> None:
    """The fastest of several steps may be another one: four clients are no slow-down of one."""
    data = a_suite(repeats=8, **_AXIS)
    plan = planned(data)
    before = outcomes(plan, noisy(1, 1.3))

    def with_step(run: PlannedRun, found: RunOutcome) -> RunOutcome:
        step = "clients 4" if dict(run.cell.values)["stack"] == "new" else "clients 1"
        scenarios = [each.model_copy(update={"step": step}) for each in found.scenarios]
        return replace(found, scenarios=tuple(scenarios))

    found = [with_step(run, each) for run, each in zip(plan.runs, before, strict=True)]
    gate = judged(data, found)
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 0)
    (reason,) = gate.reasons
    assert reason == (
        "new, latency: not judged. Its headline step differs (clients 1; clients 4). Give the "
        "scenario one step."
    )
    data["spec"] |= {"baseline": {"suite": "nightly"}}
    old = measured_before(plan, before)
    gate = judged(data, found, baseline=old)
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 0)
    assert gate.reasons[0].startswith("old, latency: not judged. Its headline step differs (;")


def test_scenarios_that_are_specified_differently_are_not_compared() -> None:
    """Another rate is no slow-down, between values of an axis and between two executions."""
    rates = {"old": 10, "new": 200}
    values = [
        {"name": name, "set": {"spec.scenarios[0].server.targetQps": rate}}
        for name, rate in rates.items()
    ]
    server = {"targetQps": 1, "latencyBoundMicroseconds": 100_000}
    template = {
        "spec": {
            "model": {"uri": "zoo://classification/resnet50"},
            "scenarios": [{"name": "latency", "server": server}],
        }
    }
    axes = [{"name": "stack", "values": values}]
    data = a_suite(repeats=8, template=template, axes=axes, **_AXIS)
    gate = judged(data, outcomes(planned(data), noisy(1, 1.3)))
    differs = "not judged. The scenario's specification differs from that of the baseline."
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 0)
    assert gate.reasons == [f"new, latency: {differs}"]
    data["spec"] |= {"baseline": {"suite": "nightly"}}
    plan = planned(data)
    before = measured_before(plan, outcomes(plan, noisy(1)))
    server["latencyBoundMicroseconds"] = 50_000
    gate = judged(data, outcomes(planned(data), noisy(2, 1.3)), baseline=before)
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 0)
    assert gate.reasons == [f"{cell}, latency: {differs}" for cell in ("old", "new")]


def on_nodes(plan: SuitePlan, seed: int, nodes: dict[str, str]) -> list[RunOutcome]:
    """Return outcomes of which those of each stack, and else the anchor's, ran on a node."""
    return [
        replace(each, node=nodes[dict(run.cell.values)["stack"]] if run.role == "cell" else NODE)
        for run, each in zip(plan.runs, outcomes(plan, noisy(seed, 1.3)), strict=True)
    ]


def test_runs_on_two_nodes_are_not_compared() -> None:
    """A slower node is no regression, neither in a pair nor between executions."""
    data = a_suite(repeats=8, **_AXIS)
    plan = planned(data)
    gate = judged(data, on_nodes(plan, 1, {"old": NODE, "new": "node-b"}))
    where = "not judged. The runs were on several nodes (node-a; node-b)."
    assert (gate.outcome, gate.armed, gate.judged) == ("INCONCLUSIVE", True, 0)
    assert gate.reasons[0].startswith(f"new, latency: {where}")
    one_node = judged(data, on_nodes(plan, 1, {"old": "node-b", "new": "node-b"}))
    assert one_node.outcome == "FAIL"
    data["spec"] |= {"baseline": {"suite": "nightly"}}
    before = measured_before(plan, outcomes(plan, noisy(1)))
    gate = judged(data, on_nodes(plan, 2, {"old": NODE, "new": "node-b"}), baseline=before)
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 2)
    assert gate.reasons[0].startswith(f"new, latency: {where}")


def test_pairs_on_one_node_decide_without_the_others() -> None:
    """Three pairs are enough; a pair on two nodes counts as little as one that is INVALID."""
    data = a_suite(repeats=8, **_AXIS)
    plan = planned(data)
    found = outcomes(plan, noisy(1, 1.3))
    for at, run in enumerate(plan.runs):
        if run.role == "cell" and run.block.repeat > 4 and ("stack", "new") in run.cell.values:
            found[at] = replace(found[at], node="node-b")
    gate = judged(data, found)
    assert (gate.outcome, gate.judged) == ("FAIL", 2)


def test_nodes_of_one_class_are_alike() -> None:
    """`systems.each: Label` says so: the label's value is the class."""
    system = System("m5", "m5", {"type": "m5"})
    data = a_suite(repeats=8, **_AXIS)
    plan = planned(data, (system,))
    found = on_nodes(plan, 1, {"old": NODE, "new": "node-b"})
    assert judge_suite(parsed(data).spec, plan, found, ()).outcome == "FAIL"


def test_defaults_that_are_written_out_change_no_scenario() -> None:
    """The API server, or a result, has them; a file need not."""
    written = Scenario(name="latency", single_stream=SingleStream())
    spec = {"scenarios": [{"name": "latency", "singleStream": {}}]}
    assert scenario_specs(spec) == specs_by_name([written])
    full = {"scenarios": [written.model_dump(mode="json", by_alias=True)]}
    assert scenario_specs(full) == scenario_specs(spec)


def test_an_included_cell_of_its_own_spec_has_no_baseline() -> None:
    """It differs from the cells of the axes by more than the value of the baseline's axis."""
    include = [
        {"name": "big", "values": {"stack": "new"}, "set": {"spec.server.threads": 2}},
    ]
    data = a_suite(repeats=8, include=include, **_AXIS)
    plan = planned(data)

    def latency(run: PlannedRun) -> float:
        return 30_000.0 if run.cell.included else 10_000.0 + run.block.repeat

    gate = judged(data, outcomes(plan, latency))
    assert gate.slower == []
    assert gate.judged == 2


def test_each_of_a_hundred_classes_of_nodes_keeps_enough_pairs() -> None:
    """A suite has at most 100 systems, and each may be a class of its own."""
    history = [
        AnchorPairs(node_class=f"n{at}", ratios_parts_per_million=[10**6] * 12) for at in range(100)
    ]
    kept = merge_pairs(history, history)
    assert len(kept) == 100
    assert {len(each.ratios_parts_per_million) for each in kept} == {24}
    assert (
        min(len(each.ratios_parts_per_million) for each in merge_pairs(kept, kept)) > ARMING_PAIRS
    )


def test_the_gate_is_advisory_until_twenty_pairs_exist() -> None:
    """Pairs of this execution count: 19 earlier ones and one block are enough."""
    data = a_suite(repeats=3, **_AXIS)
    found = outcomes(planned(data), noisy(1))
    for earlier, armed in ((0, False), (ARMING_PAIRS - 4, False), (ARMING_PAIRS - 3, True)):
        history = [
            AnchorPairs(
                node_class=NODE,
                ratios_parts_per_million=ARMED[0].ratios_parts_per_million[:earlier],
            )
        ]
        gate = judged(data, found, history)
        assert gate.armed == armed
        advisory = any("The gate is advisory" in each for each in gate_sentences(gate))
        assert advisory == (not armed)
    assert not judged(
        data, found, [AnchorPairs(node_class="other", ratios_parts_per_million=[10**6] * 30)]
    ).armed
    # Pairs of another anchor show nothing about this one.
    assert not judge_suite(parsed(data).spec, planned(data), found, ARMED).armed


def test_a_block_whose_anchors_drift_does_not_count() -> None:
    """A regression that is a drift of the node fails nothing: the block is left out and named."""
    data = a_suite(repeats=6, **_AXIS)
    plan = planned(data)

    def latency(run: PlannedRun) -> float:
        throttled = run.block.repeat == 4 and run.role != "opening"
        return noisy(run.block.repeat)(run) * (1.3 if throttled else 1.0)

    gate = judged(data, outcomes(plan, latency))
    assert gate.invalid_blocks == ["4"]
    assert judged(data, outcomes(plan, noisy(1))).invalid_blocks == []


def test_an_armed_gate_leaves_out_a_block_without_a_pair() -> None:
    """An anchor that is INVALID, or ran on another node, shows nothing."""
    data = a_suite(repeats=5, **_AXIS)
    plan = planned(data)
    found = outcomes(plan, noisy(1))
    closing = [at for at, run in enumerate(plan.runs) if run.role == "closing"]
    found[closing[0]] = an_outcome(state="I")
    found[closing[1]] = an_outcome(10_000, node="another")
    assert judged(data, found).invalid_blocks == ["1", "2"]


@pytest.mark.parametrize(
    ("state", "word"), [("F", "failed"), ("D", "was deleted"), ("S", "was not started")]
)
def test_a_run_without_figures_makes_a_suite_that_could_not_run(state: Any, word: str) -> None:
    """Not a regression, and no PASS."""
    data = a_suite(repeats=5, **_AXIS)
    plan = planned(data)
    found = outcomes(plan, noisy(1))
    index = next(at for at, run in enumerate(plan.runs) if run.role == "cell")
    found[index] = RunOutcome(state)
    gate = judged(data, found)
    assert gate.outcome == "CouldNotRun"
    assert gate.reasons == [f"{plan.runs[index].label}: the run {plan.runs[index].name} {word}."]


def test_two_repeats_are_too_few() -> None:
    """The reason says how many there were and what to raise."""
    data = a_suite(repeats=2, **_AXIS)
    gate = judged(data, outcomes(planned(data), noisy(1)))
    assert gate.outcome == "CouldNotRun"
    assert (
        "measured 2 times next to the baseline, and 3 are needed. Raise repeats." in gate.reasons[0]
    )


def test_a_baseline_without_the_cells_is_named() -> None:
    """An outcome always has a reason."""
    data = a_suite(repeats=5, baseline={"suite": "other"}, gate={})
    found = outcomes(planned(data), noisy(1))
    other = BaselineCell([MeasuredRun({"latency": {"p50": 1.0}})])
    gate = judged(data, found, baseline={("another-cell", ""): other})
    assert gate.outcome == "CouldNotRun"
    assert gate.reasons == [
        "No cell that was measured has a counterpart in the baseline.",
        "old: not judged. The baseline has no VALID run of this cell.",
        "new: not judged. The baseline has no VALID run of this cell.",
    ]


def test_pairs_of_an_execution_are_added_to_those_before() -> None:
    """The newest 64 of each class stay."""
    data = a_suite(repeats=2, **_AXIS)
    plan = planned(data)

    def latency(run: PlannedRun) -> float:
        return 1100 if run.role == "closing" else 1000

    found = add_pairs(
        of_anchor(plan, [AnchorPairs(node_class=NODE, ratios_parts_per_million=[1] * 64)]),
        plan,
        outcomes(plan, latency),
    )
    assert found[0].ratios_parts_per_million == [*([1] * 62), 1_100_000, 1_100_000]


def test_equal_variants_fail_at_most_one_suite_in_a_hundred() -> None:
    """500 A/A suites of 20 cells against an axis: at most 5 fail, and none because of its size."""
    data = a_suite(
        repeats=5,
        axes=[an_axis("stack", "old", "new"), an_axis("a", *"abcdefghij", path="spec.load.seed")],
        **_AXIS,
    )
    plan: SuitePlan = planned(data)
    suite, armed = parsed(data), of_anchor(plan, ARMED)
    failed = sum(
        judge_suite(suite.spec, plan, outcomes(plan, noisy(seed, spread=0.04)), armed).outcome
        == "FAIL"
        for seed in range(500)
    )
    assert failed <= 5


_ENGINES = {
    "name": "stack",
    "values": [
        {"name": "old", "set": {"spec.server.runtime": "OnnxRuntime"}},
        {"name": "new", "set": {"spec.server.runtime": "OpenVino"}},
    ],
}


def test_cells_of_another_engine_are_not_judged_unless_their_outputs_are_equivalent() -> None:
    """As `compare` does: speed is no reason to pass what may compute something else."""
    data = a_suite(repeats=8, axes=[_ENGINES], **_AXIS)
    found = outcomes(planned(data), noisy(1, 1.15))
    gate = judged(data, found)
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 0)
    assert gate.reasons == [f"new: not judged. {MEASURE_ACCURACY}"]
    known = judged(data, found, are_equivalent=lambda one, other: one != other)
    assert (known.outcome, known.judged) == ("FAIL", 2)
