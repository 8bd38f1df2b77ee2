"""The gate of a suite: outcomes, arming, drift, and how often it cries wolf."""

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from inferometer_api.suite.anchor import ARMING_PAIRS, add_pairs, merge_pairs
from inferometer_api.suite.gate import judge_suite
from inferometer_api.suite.plan_suite import PlannedRun
from inferometer_api.suite.progress import RunOutcome
from inferometer_api.suite.status import AnchorPairs
from inferometer_api.suite.wording import gate_sentence, gate_sentences
from support.suite_gates import ARMED, AXIS, judged, measured_before, noisy, of_anchor
from support.suites import NODE, a_suite, an_axis, an_outcome, outcomes, parsed, planned, sweeps


@pytest.mark.parametrize(
    ("slower", "outcome"), [(1.0, "PASS"), (1.15, "FAIL"), (0.85, "PASS"), (1.045, "INCONCLUSIVE")]
)
def test_the_gate_judges_interleaved_pairs_of_an_axis(slower: float, outcome: str) -> None:
    """A slow-down beyond the percentage fails; a change at it is not decided."""
    data = a_suite(repeats=8, **AXIS)
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
        assert "of each step of each scenario" in gate_sentence(gate)


@pytest.mark.parametrize("before", [{"axis": "stack", "value": "old"}, {"suite": "nightly"}])
def test_a_step_that_is_slower_alone_fails_the_suite(before: dict[str, str]) -> None:
    """One client is slower, four are not, and stay the headline; the step is named."""
    data = a_suite(repeats=8, baseline=before, gate={})
    plan = planned(data)

    def found(seed: int, slower: float) -> list[RunOutcome]:
        single, many = noisy(seed, slower), noisy(seed + 100)
        return sweeps(plan, lambda run, clients: (single if clients == 1 else many)(run), [1, 4])

    earlier = measured_before(plan, found(1, 1.0))
    gate = judged(data, found(2, 1.3), baseline=earlier)
    assert (gate.outcome, gate.judged) == ("FAIL", 4 if "axis" in before else 8)
    assert {(each.cell, each.step) for each in gate.slower} == {("new", "clients 1")}
    assert any(each.startswith("new, latency, clients 1: ") for each in gate_sentences(gate))
    assert judged(data, found(2, 1.0), baseline=earlier).outcome == "PASS"


def test_the_detectable_slow_down_covers_every_step() -> None:
    """More comparisons are each judged more strictly, and the noisiest step sets the figure."""
    data = a_suite(repeats=8, **AXIS)
    plan = planned(data)
    one = judged(data, outcomes(plan, noisy(1)))
    by_clients = {clients: noisy(clients) for clients in (1, 2, 4, 8)}
    many = judged(data, sweeps(plan, lambda run, clients: by_clients[clients](run), [*by_clients]))
    assert one.detectable_parts_per_million is not None
    assert many.detectable_parts_per_million is not None
    assert many.judged == 4 * one.judged
    assert many.detectable_parts_per_million > one.detectable_parts_per_million


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
    data = a_suite(repeats=3, **AXIS)
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


def test_pairs_of_an_older_spec_of_the_anchor_do_not_arm_the_gate() -> None:
    """Its values have the same names; a default that is written out changes nothing."""
    data = a_suite(repeats=3, **AXIS)
    plan = planned(data)
    history = of_anchor(plan, ARMED)
    spec = data["spec"]["template"]["spec"]
    for load, armed in (({"protocol": "HTTP"}, True), ({"protocol": "GRPC"}, False)):
        spec["load"] = load
        changed = planned(data)
        found = outcomes(changed, noisy(1))
        assert changed.anchor == plan.anchor
        assert judge_suite(parsed(data).spec, changed, found, history).armed == armed
        kept = add_pairs(history, changed, found)
        assert len(kept) == (1 if armed else 2)


def test_the_gate_arms_where_the_judged_cells_ran() -> None:
    """Pairs on the nodes of the anchors show nothing about another node."""
    data = a_suite(repeats=8, **AXIS)
    plan = planned(data)
    found = [
        replace(each, node="node-b") if run.role == "cell" else each
        for run, each in zip(plan.runs, outcomes(plan, noisy(1, 1.3)), strict=True)
    ]
    gate = judged(data, found)
    assert (gate.outcome, gate.armed) == ("FAIL", False)
    there = [each.model_copy(update={"node_class": "node-b"}) for each in ARMED]
    gate = judged(data, found, [*ARMED, *there])
    assert (gate.outcome, gate.armed) == ("FAIL", True)


def test_all_slower_figures_are_counted() -> None:
    """The status lists the worst 20 of them, or fewer."""
    models = an_axis("model", *(f"m{at}" for at in range(10)), path="spec.load.seed")
    data = a_suite(repeats=8, axes=[models, an_axis("stack", "old", "new")], **AXIS)
    latency = noisy(1, 1.5)
    gate = judged(data, sweeps(planned(data), lambda run, _: latency(run), [1, 4, 16]))
    assert (len(gate.slower), gate.slower_count) == (20, 60)
    assert gate_sentence(gate).startswith("60 of 60 figures are slower than the baseline.")
    assert "And 40 more figures are slower." in gate_sentences(gate)
    short = gate.model_copy(update={"slower": gate.slower[:5]})
    assert gate_sentence(short).startswith("60 of 60 figures")
    assert "And 55 more figures are slower." in gate_sentences(short)
    older = gate.model_copy(update={"slower_count": None})
    assert gate_sentence(older).startswith("20 of 60 figures")


def test_what_is_left_out_of_the_lists_is_counted() -> None:
    """Of 12 reasons the status has 9, of 99 blocks 49."""
    models = an_axis("model", *(f"m{at}" for at in range(12)), path="spec.load.seed")
    data = a_suite(repeats=8, axes=[models, an_axis("stack", "old", "new")], **AXIS)
    plan = planned(data)
    found = [
        an_outcome(state="I") if run.role == "cell" else each
        for run, each in zip(plan.runs, outcomes(plan, noisy(1)), strict=True)
    ]
    gate = judged(data, found)
    assert len(gate.reasons) == 10
    assert gate.reasons[-1] == "and 3 more"
    data = a_suite(repeats=100, **AXIS)
    plan = planned(data)
    found = [
        an_outcome(state="I") if run.role == "closing" and run.block.repeat > 1 else each
        for run, each in zip(plan.runs, outcomes(plan, noisy(1)), strict=True)
    ]
    gate = judged(data, found)
    assert len(gate.invalid_blocks) == 50
    assert gate.invalid_blocks[-1] == "and 50 more"


def test_a_block_whose_anchors_drift_does_not_count() -> None:
    """A regression that is a drift of the node fails nothing: the block is left out and named."""
    data = a_suite(repeats=6, **AXIS)
    plan = planned(data)

    def latency(run: PlannedRun) -> float:
        throttled = run.block.repeat == 4 and run.role != "opening"
        return noisy(run.block.repeat)(run) * (1.3 if throttled else 1.0)

    gate = judged(data, outcomes(plan, latency))
    assert gate.invalid_blocks == ["4"]
    assert judged(data, outcomes(plan, noisy(1))).invalid_blocks == []


def test_an_armed_gate_leaves_out_a_block_without_a_pair() -> None:
    """An anchor that is INVALID, or ran on another node, shows nothing."""
    data = a_suite(repeats=5, **AXIS)
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
    data = a_suite(repeats=5, **AXIS)
    plan = planned(data)
    found = outcomes(plan, noisy(1))
    index = next(at for at, run in enumerate(plan.runs) if run.role == "cell")
    found[index] = RunOutcome(state)
    gate = judged(data, found)
    assert gate.outcome == "CouldNotRun"
    assert gate.reasons == [f"{plan.runs[index].label}: the run {plan.runs[index].name} {word}."]


def test_two_repeats_are_too_few() -> None:
    """As for `compare` and `ab`. The reason says how many there were and what to raise."""
    data = a_suite(repeats=2, **AXIS)
    gate = judged(data, outcomes(planned(data), noisy(1)))
    assert gate.outcome == "INCONCLUSIVE"
    assert (
        "measured 2 times next to the baseline, and 3 are needed. Raise repeats." in gate.reasons[0]
    )


@pytest.mark.parametrize("drifted", [1, 3])
def test_too_few_blocks_without_drift_are_inconclusive(drifted: int) -> None:
    """All runs have figures, so the gate could run; the exit code is 5, not 1."""
    data = a_suite(repeats=3, **AXIS)
    plan = planned(data)
    found = outcomes(plan, noisy(1))
    for at, run in enumerate(plan.runs):
        if run.role == "closing" and run.block.repeat <= drifted:
            found[at] = an_outcome(20_000)
    gate = judged(data, found)
    assert gate.invalid_blocks == ["1", "2", "3"][:drifted]
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 0)
    assert gate.reasons


def test_pairs_of_an_execution_are_added_to_those_before() -> None:
    """The newest 64 of each class stay."""
    data = a_suite(repeats=2, **AXIS)
    plan = planned(data)

    def latency(run: PlannedRun) -> float:
        return 1100 if run.role == "closing" else 1000

    found = add_pairs(
        of_anchor(plan, [AnchorPairs(node_class=NODE, ratios_parts_per_million=[1] * 64)]),
        plan,
        outcomes(plan, latency),
    )
    assert found[0].ratios_parts_per_million == [*([1] * 62), 1_100_000, 1_100_000]
