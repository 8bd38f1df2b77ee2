"""The gate of a suite: whether a cell is slower than the baseline.

Each figure of each step is judged as `inferometer compare` judges: interleaved pairs against a
value of an axis, groups of repeats against an earlier execution. The probability that equal
variants fail the suite is at most 1 % over all its figures (Bonferroni). The gate is armed by A/A
pairs of the anchor: two runs of one cell that begin and end a block. A block whose pair lies
outside the interval of the other pairs has drifted, and does not count.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from inferometer_api.judgement import (
    FEWEST_RUNS,
    GROUPED_STANDARD_ERRORS,
    Judgement,
    MarginRule,
    judge_groups,
    judge_pairs,
)
from inferometer_api.suite.anchor import anchor_pairs, find_drift
from inferometer_api.suite.comparisons import (
    BaselineCell,
    CellComparison,
    ComparedCells,
    Equivalence,
    by_block,
    compare_with_axis,
    compare_with_execution,
)
from inferometer_api.suite.figures import (
    MORE_IS_BETTER,
    CellKey,
)
from inferometer_api.suite.plan_suite import SuitePlan
from inferometer_api.suite.progress import RunOutcome
from inferometer_api.suite.spec import SuiteSpec
from inferometer_api.suite.status import AnchorPairs, GateOutcome, GateStatus, JudgedCell

FALSE_ALARMS = 0.01
"""The probability that a suite of equal variants shows a difference in any figure."""
_MILLION = 1_000_000
_MOST_REASONS = 10
_MOST_SLOWER = 20
_MOST_BLOCKS = 50


def judge_suite(
    spec: SuiteSpec,
    plan: SuitePlan,
    outcomes: Sequence[RunOutcome],
    history: Sequence[AnchorPairs],
    baseline: Mapping[CellKey, BaselineCell] | None = None,
    are_equivalent: Equivalence = lambda _, __: False,
) -> GateStatus:
    """Return what the gate of a suite decides.

    `history` has the pairs of earlier executions, without this one's. `baseline` has the runs of
    the earlier execution that `baseline.suite` names, None if there is none. `are_equivalent`
    returns whether the outputs of two cells are known to be equivalent.
    """
    pairs = anchor_pairs(plan, outcomes)
    armed, drifted = find_drift(plan, pairs, history)
    reasons = [*_missing_runs(plan, outcomes)]
    compared = ComparedCells()
    counted = by_block(plan, outcomes, drifted)
    if spec.baseline is not None and spec.baseline.axis is not None:
        compared = compare_with_axis(spec, plan, outcomes, counted, are_equivalent)
    elif baseline:
        compared = compare_with_execution(plan, outcomes, counted, baseline)
    else:
        reasons.append("There is no complete execution of the baseline yet.")
    if not compared.has_counterparts and not reasons:
        reasons.append("No cell has a counterpart in the baseline.")
    percent = 5 if spec.gate is None else spec.gate.fail_if_slower_percent
    rule = MarginRule(percent / 100, FALSE_ALARMS, max(1, len(compared.comparisons)))
    found = _decision(compared, rule, reasons, armed, spec.repeats)
    blocks = _shortened([block.name[:253] for block in drifted], _MOST_BLOCKS)
    return found.model_copy(update={"invalid_blocks": blocks})


def _decision(
    compared: ComparedCells,
    rule: MarginRule,
    reasons: list[str],
    armed: frozenset[str],
    repeats: int,
) -> GateStatus:
    """Return the outcome, without drift.

    `reasons` say why the suite could not run; `armed` has the classes of nodes with enough pairs.
    """
    could_not_run = bool(reasons)
    reasons += [*compared.unranked, *compared.unmeasured]
    judged: list[tuple[CellComparison, Judgement]] = []
    for each in compared.comparisons:
        if each.obstacle:
            reasons.append(f"{each.label}, {each.scenario}: not judged. {each.obstacle}")
        elif (found := _judge(each, rule)) is None:
            reasons.append(_too_few(each, repeats))
        else:
            judged.append((each, found))
    slower = [(each, found) for each, found in judged if found.outcome == "worse"]
    reasons += [
        f"{_place(each)}: these runs show only changes of {found.detectable:.1%} or more. Raise "
        "repeats."
        for each, found in judged
        if found.outcome != "worse" and not found.is_no_worse
    ]
    detectable = max((found.detectable for _, found in judged), default=None)
    return GateStatus(
        outcome=_outcome(
            slower=bool(slower),
            reasons=bool(reasons),
            lacks=could_not_run,
        ),
        armed=bool(armed) and all(each.node_classes <= armed for each, _ in judged),
        judged=len(judged),
        detectable_parts_per_million=None if detectable is None else _parts(detectable),
        slower=_worst_first(slower),
        slower_count=len(slower),
        reasons=_shortened([text[:1024] for text in dict.fromkeys(reasons)], _MOST_REASONS),
    )


def _too_few(each: CellComparison, repeats: int) -> str:
    """Return why a cell has too few runs to compare, and what to do."""
    few = min(len(each.before), len(each.after))
    text = f"{each.label}: measured {few} times next to the baseline, and {FEWEST_RUNS} are needed."
    if repeats < FEWEST_RUNS:
        return f"{text} Raise repeats."
    if len(each.after) >= FEWEST_RUNS:
        return f"{text} The baseline has no more VALID runs: raise its repeats."
    return (
        f"{text} Other runs are INVALID, or their blocks do not count. Remove the cause, or raise "
        "repeats."
    )


def _shortened(texts: Sequence[str], most: int) -> list[str]:
    """Return at most so many texts; the last one counts those that are left out."""
    if len(texts) <= most:
        return [*texts]
    return [*texts[: most - 1], f"and {len(texts) - most + 1} more"]


def _place(each: CellComparison) -> str:
    """Return the name of a figure: "new, latency, clients 4, p50"."""
    return ", ".join(filter(None, (each.label, each.scenario, each.step, each.figure)))


def _outcome(*, slower: bool, reasons: bool, lacks: bool) -> GateOutcome:
    if slower:
        return "FAIL"
    if lacks:
        return "CouldNotRun"
    return "INCONCLUSIVE" if reasons else "PASS"


def _worst_first(slower: Sequence[tuple[CellComparison, Judgement]]) -> list[JudgedCell]:
    def slowdown(each: tuple[CellComparison, Judgement]) -> float:
        return abs(math.log(each[1].ratio))

    return [
        JudgedCell(
            cell=each.label[:253],
            scenario=each.scenario,
            step=each.step,
            figure=each.figure,
            ratio_parts_per_million=_parts(found.ratio),
            low_parts_per_million=_parts(found.low),
            high_parts_per_million=_parts(found.high),
        )
        for each, found in sorted(slower, key=slowdown, reverse=True)[:_MOST_SLOWER]
    ]


def _parts(ratio: float) -> int:
    return min(round(ratio * _MILLION), 2**31 - 1)


def _judge(each: CellComparison, rule: MarginRule) -> Judgement | None:
    if min(len(each.before), len(each.after)) < FEWEST_RUNS:
        return None
    more_is_better = MORE_IS_BETTER[each.figure]
    if each.is_paired:
        return judge_pairs(each.before, each.after, rule, more_is_better=more_is_better)
    rule = replace(rule, least_standard_errors=GROUPED_STANDARD_ERRORS)
    return judge_groups(each.before, each.after, rule, more_is_better=more_is_better)


def _missing_runs(plan: SuitePlan, outcomes: Sequence[RunOutcome]) -> Iterator[str]:
    """Yield a sentence for the runs without figures; they make the suite one that could not run."""
    words = {"F": "failed", "D": "was deleted", "S": "was not started", ".": "was not started"}
    lost = [
        (run, words[outcome.state])
        for run, outcome in zip(plan.runs, outcomes, strict=True)
        if run.role == "cell" and outcome.state in words
    ]
    reused = sum(outcome.state == "R" for outcome in outcomes)
    if reused:
        yield (
            f"{reused} runs reuse stored results, and the gate judges what this execution "
            "measures: set reuse to false."
        )
    if lost:
        run, word = lost[0]
        more = f", and {len(lost) - 1} more runs have no figures" if len(lost) > 1 else ""
        yield f"{run.label}: the run {run.name} {word}{more}."
