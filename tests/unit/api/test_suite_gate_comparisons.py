"""The gate of a suite: what it compares, and what it does not."""

from dataclasses import replace

from inferometer_api.ranking import MEASURE_ACCURACY, Computation
from inferometer_api.spec.scenario import Scenario, SingleStream
from inferometer_api.suite.comparisons import BaselineCell
from inferometer_api.suite.figures import (
    MeasuredRun,
    scenario_specs,
    specs_by_name,
)
from inferometer_api.suite.gate import judge_suite
from inferometer_api.suite.plan_suite import PlannedRun, SuitePlan, System
from inferometer_api.suite.progress import RunOutcome
from support.suite_gates import AXIS, judged, measured_before, noisy
from support.suites import NODE, a_suite, an_axis, an_outcome, outcomes, parsed, planned, sweeps


def test_a_cell_of_which_no_run_is_valid_is_no_pass() -> None:
    """One value is INVALID throughout: its cells are named, whichever baseline there is."""
    axes = [an_axis("model", "a", "b", path="spec.load.seed"), an_axis("stack", "old", "new")]
    data = a_suite(repeats=8, axes=axes, **AXIS)
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


def test_a_cell_whose_figures_are_no_longer_known_is_no_pass() -> None:
    """Its runs were VALID and are deleted, and the operator was restarted."""
    axes = [an_axis("model", "a", "b", path="spec.load.seed"), an_axis("stack", "old", "new")]
    data = a_suite(repeats=8, axes=axes, **AXIS)
    plan = planned(data)
    good = outcomes(plan, noisy(1))
    found = [
        RunOutcome("V") if ("model", "b") in run.cell.values and run.role == "cell" else each
        for run, each in zip(plan.runs, good, strict=True)
    ]
    gate = judged(data, found)
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 2)
    (reason,) = gate.reasons
    assert reason.startswith("b, new: not judged. VALID runs of b, new were deleted")
    data["spec"] |= {"baseline": {"suite": "nightly"}}
    gate = judged(data, found, baseline=measured_before(plan, good))
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 4)
    assert {each.partition(":")[0] for each in gate.reasons} == {"b, old", "b, new"}
    gate = judged(data, good, baseline=measured_before(plan, found))
    assert gate.outcome == "INCONCLUSIVE"
    assert "b, new: not judged. The baseline has no VALID run of this cell." in gate.reasons


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


def test_steps_that_a_status_leaves_out_are_not_judged() -> None:
    """Not by the headline step in their place, on one side or on both."""
    data = a_suite(repeats=8, **AXIS)
    plan = planned(data)
    whole = sweeps(plan, lambda run, _: noisy(1, 1.3)(run), [1, 4])

    def without_steps(found: RunOutcome) -> RunOutcome:
        cut = [each.model_copy(update={"steps": []}) for each in found.scenarios]
        return replace(found, scenarios=tuple(cut))

    bare = [without_steps(each) for each in whole]
    new_bare = [
        some if ("stack", "new") in run.cell.values else all_steps
        for run, some, all_steps in zip(plan.runs, bare, whole, strict=True)
    ]
    unknown = "latency: not judged. The status of a run has no figures of its steps"
    for found in (bare, new_bare):
        gate = judged(data, found)
        assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 0)
        (reason,) = gate.reasons
        assert reason.startswith(f"new, {unknown}")
    data["spec"] |= {"baseline": {"suite": "nightly"}}
    gate = judged(data, whole, baseline=measured_before(plan, bare))
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 0)
    assert gate.reasons[0].startswith(f"old, {unknown}")


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
    data = a_suite(repeats=8, template=template, axes=axes, **AXIS)
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
    data = a_suite(repeats=8, **AXIS)
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
    data = a_suite(repeats=8, **AXIS)
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
    data = a_suite(repeats=8, **AXIS)
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
    data = a_suite(repeats=8, include=include, **AXIS)
    plan = planned(data)

    def latency(run: PlannedRun) -> float:
        return 30_000.0 if run.cell.included else 10_000.0 + run.block.repeat

    gate = judged(data, outcomes(plan, latency))
    assert gate.slower == []
    assert gate.judged == 2


def test_a_baseline_without_the_cells_is_named() -> None:
    """An outcome always has a reason."""
    data = a_suite(repeats=5, baseline={"suite": "other"}, gate={})
    found = outcomes(planned(data), noisy(1))
    other = BaselineCell([MeasuredRun({("latency", ""): {"p50": 1.0}})])
    gate = judged(data, found, baseline={("another-cell", ""): other})
    assert gate.outcome == "CouldNotRun"
    assert gate.reasons == [
        "No cell has a counterpart in the baseline.",
        "old: not judged. The baseline has no VALID run of this cell.",
        "new: not judged. The baseline has no VALID run of this cell.",
    ]


_ENGINES = {
    "name": "stack",
    "values": [
        {"name": "old", "set": {"spec.server.runtime": "OnnxRuntime"}},
        {"name": "new", "set": {"spec.server.runtime": "OpenVino"}},
    ],
}


def test_cells_of_another_engine_are_not_judged_unless_their_outputs_are_equivalent() -> None:
    """As `compare` does: speed is no reason to pass what may compute something else."""
    data = a_suite(repeats=8, axes=[_ENGINES], **AXIS)
    found = outcomes(planned(data), noisy(1, 1.15))
    gate = judged(data, found)
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 0)
    assert gate.reasons == [f"new: not judged. {MEASURE_ACCURACY}"]
    known = judged(data, found, are_equivalent=lambda one, other: one != other)
    assert (known.outcome, known.judged) == ("FAIL", 2)
