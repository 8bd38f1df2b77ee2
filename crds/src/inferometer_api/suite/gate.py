"""The gate of a suite: whether a cell is slower than the baseline.

Each figure is judged as `inferometer compare` judges: interleaved pairs against a value of an axis,
groups of repeats against an earlier execution. The probability that equal variants fail the suite
is at most 1 % over all its figures (Bonferroni). The gate is armed by A/A pairs of the anchor: two
runs of one cell that begin and end a block. A block whose pair lies outside the interval of the
other pairs has drifted, and does not count.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from inferometer_api.judgement import (
    FEWEST_RUNS,
    Judgement,
    MarginRule,
    judge_groups,
    judge_pairs,
)
from inferometer_api.ranking import MEASURE_ACCURACY, Computation, may_rank_all
from inferometer_api.suite.anchor import anchor_pairs, find_drift
from inferometer_api.suite.figures import (
    MORE_IS_BETTER,
    CellKey,
    Figures,
    cell_key,
    figures_of,
    planned_computation,
)
from inferometer_api.suite.plan_suite import Block, Cell, PlannedRun, SuitePlan
from inferometer_api.suite.progress import RunOutcome
from inferometer_api.suite.spec import SuiteSpec
from inferometer_api.suite.status import AnchorPairs, GateOutcome, GateStatus, JudgedCell

Equivalence = Callable[[CellKey, CellKey], bool]
FALSE_ALARMS = 0.01
"""The probability that a suite of equal variants shows a difference in any figure."""
_MILLION = 1_000_000
_MOST_REASONS = 10
_MOST_SLOWER = 20
_MOST_BLOCKS = 50


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A figure of a cell and of its baseline."""

    label: str
    scenario: str
    figure: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    is_paired: bool


def baseline_figures(
    runs: Iterable[tuple[CellKey, RunOutcome]],
) -> dict[CellKey, list[Figures]]:
    """Return the figures of the VALID runs of an earlier execution, by cell and system."""
    found: dict[CellKey, list[Figures]] = defaultdict(list)
    for key, outcome in runs:
        if outcome.state == "V":
            found[key].append(figures_of(outcome.scenarios))
    return found


def judge_suite(
    spec: SuiteSpec,
    plan: SuitePlan,
    outcomes: Sequence[RunOutcome],
    history: Sequence[AnchorPairs],
    baseline: Mapping[CellKey, Sequence[Figures]] | None = None,
    are_equivalent: Equivalence = lambda _, __: False,
) -> GateStatus:
    """Return what the gate of a suite decides.

    `history` has the pairs of earlier executions, without this one's. `baseline` has the figures of
    the earlier execution that `baseline.suite` names, None if there is none. `are_equivalent`
    returns whether the outputs of two cells are known to be equivalent.
    """
    pairs = anchor_pairs(plan, outcomes)
    armed, drifted = find_drift(plan, pairs, history)
    reasons = [*_missing_runs(plan, outcomes)]
    unranked: dict[CellKey, str] = {}
    comparisons: list[_Comparison] = []
    counted = _by_block(plan, outcomes, drifted)
    if spec.baseline is not None and spec.baseline.axis is not None:
        cells = [*_pairs_of_cells(spec, plan)]
        unranked = _unranked(cells, _computations(plan, outcomes), are_equivalent)
        comparisons = [*_against_axis(cells, unranked, counted)]
    elif baseline:
        comparisons = [*_against_execution(plan, counted, baseline)]
    else:
        reasons.append("There is no complete execution of the baseline yet.")
    if not comparisons and not reasons and not unranked:
        reasons.append("No cell that was measured has a counterpart in the baseline.")
    percent = 5 if spec.gate is None else spec.gate.fail_if_slower_percent
    rule = MarginRule(percent / 100, FALSE_ALARMS, max(1, len(comparisons)))
    found = _decision(comparisons, rule, reasons, [*unranked.values()])
    blocks = [block.name[:253] for block in drifted[:_MOST_BLOCKS]]
    return found.model_copy(update={"armed": armed, "invalid_blocks": blocks})


def _decision(
    comparisons: Sequence[_Comparison],
    rule: MarginRule,
    reasons: list[str],
    unranked: Sequence[str],
) -> GateStatus:
    """Return the outcome, without anchors; `unranked` says which cells cannot be judged."""
    could_not_run = bool(reasons)
    reasons += unranked
    judged: list[tuple[_Comparison, Judgement]] = []
    for each in comparisons:
        if (found := _judge(each, rule)) is None:
            few = min(len(each.before), len(each.after))
            reasons.append(
                f"{each.label}, {each.scenario}, {each.figure}: measured {few} times next to the "
                f"baseline, and {FEWEST_RUNS} are needed. Raise repeats."
            )
        else:
            judged.append((each, found))
    slower = [(each, found) for each, found in judged if found.outcome == "worse"]
    reasons += [
        f"{each.label}, {each.scenario}, {each.figure}: these runs show only changes of "
        f"{found.detectable:.1%} or more. Raise repeats."
        for each, found in judged
        if found.outcome != "worse" and not found.is_no_worse
    ]
    detectable = max((found.detectable for _, found in judged), default=None)
    return GateStatus(
        outcome=_outcome(
            slower=bool(slower),
            reasons=bool(reasons),
            lacks=could_not_run or not (judged or unranked),
        ),
        armed=False,
        judged=len(judged),
        detectable_parts_per_million=None if detectable is None else _parts(detectable),
        slower=_worst_first(slower),
        reasons=[text[:1024] for text in reasons[:_MOST_REASONS]],
    )


def _outcome(*, slower: bool, reasons: bool, lacks: bool) -> GateOutcome:
    if slower:
        return "FAIL"
    if lacks:
        return "CouldNotRun"
    return "INCONCLUSIVE" if reasons else "PASS"


def _worst_first(slower: Sequence[tuple[_Comparison, Judgement]]) -> list[JudgedCell]:
    def slowdown(each: tuple[_Comparison, Judgement]) -> float:
        return abs(math.log(each[1].ratio))

    return [
        JudgedCell(
            cell=each.label[:253],
            scenario=each.scenario,
            figure=each.figure,
            ratio_parts_per_million=_parts(found.ratio),
            low_parts_per_million=_parts(found.low),
            high_parts_per_million=_parts(found.high),
        )
        for each, found in sorted(slower, key=slowdown, reverse=True)[:_MOST_SLOWER]
    ]


def _parts(ratio: float) -> int:
    return min(round(ratio * _MILLION), 2**31 - 1)


def _judge(each: _Comparison, rule: MarginRule) -> Judgement | None:
    if min(len(each.before), len(each.after)) < FEWEST_RUNS:
        return None
    judge = judge_pairs if each.is_paired else judge_groups
    return judge(each.before, each.after, rule, more_is_better=MORE_IS_BETTER[each.figure])


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


def _by_block(
    plan: SuitePlan, outcomes: Sequence[RunOutcome], drifted: Sequence[Block]
) -> dict[CellKey, dict[int, Figures]]:
    """Return the figures of the VALID runs that count, by cell and system, then by repeat."""
    left_out = {(block.repeat, block.system.name) for block in drifted}
    found: dict[CellKey, dict[int, Figures]] = defaultdict(dict)
    for run, outcome in zip(plan.runs, outcomes, strict=True):
        counts = (run.block.repeat, run.block.system.name) not in left_out
        if run.role == "cell" and outcome.state == "V" and counts:
            found[cell_key(run)][run.block.repeat] = figures_of(outcome.scenarios)
    return found


def _pairs_of_cells(spec: SuiteSpec, plan: SuitePlan) -> Iterator[tuple[PlannedRun, Cell]]:
    """Yield a run of each cell, and the cell with the baseline's value in its place."""
    baseline = spec.baseline
    if baseline is None or baseline.axis is None or baseline.value is None:
        return
    by_values = {cell.values: cell for cell in plan.cells if not cell.included}
    for run in _first_of_each(plan):
        values = dict(run.cell.values)
        if values.get(baseline.axis, baseline.value) == baseline.value:
            continue
        base = tuple(
            (axis, baseline.value if axis == baseline.axis else value)
            for axis, value in run.cell.values
        )
        if (other := by_values.get(base)) is not None:
            yield run, other


def _against_axis(
    cells: Iterable[tuple[PlannedRun, Cell]],
    unranked: Collection[CellKey],
    counted: Mapping[CellKey, Mapping[int, Figures]],
) -> Iterator[_Comparison]:
    """Yield each figure of a cell and that of the cell with the baseline's value."""
    for run, other in cells:
        if cell_key(run) not in unranked:
            yield from _paired(run, other, counted)


def _computations(
    plan: SuitePlan, outcomes: Sequence[RunOutcome]
) -> dict[CellKey, set[Computation]]:
    """Return what computes the outputs of each cell's VALID runs."""
    found: dict[CellKey, set[Computation]] = defaultdict(set)
    for run, outcome in zip(plan.runs, outcomes, strict=True):
        if run.role == "cell" and outcome.state == "V":
            found[cell_key(run)].add(planned_computation(run, outcome.scenarios))
    return found


def _unranked(
    pairs: Iterable[tuple[PlannedRun, Cell]],
    known: Mapping[CellKey, set[Computation]],
    are_equivalent: Equivalence,
) -> dict[CellKey, str]:
    """Return why cells cannot be judged next to their baseline: a sentence for each."""
    found = {}
    for run, other in pairs:
        both = (cell_key(run), (other.key, run.block.system.name))
        computations = known.get(both[0], set()) | known.get(both[1], set())
        if not may_rank_all(computations) and not are_equivalent(*both):
            found[both[0]] = f"{run.label}: not judged. {MEASURE_ACCURACY}"
    return found


def _paired(
    run: PlannedRun, other: Cell, counted: Mapping[CellKey, Mapping[int, Figures]]
) -> Iterator[_Comparison]:
    system = run.block.system.name
    before, after = counted.get((other.key, system), {}), counted.get(cell_key(run), {})
    both = sorted(before.keys() & after.keys())
    for scenario, figure in _names([*before.values(), *after.values()]):
        known = [
            (before[at][scenario][figure], after[at][scenario][figure])
            for at in both
            if figure in before[at].get(scenario, {}) and figure in after[at].get(scenario, {})
        ]
        yield _Comparison(
            run.label,
            scenario,
            figure,
            tuple(one for one, _ in known),
            tuple(two for _, two in known),
            is_paired=True,
        )


def _against_execution(
    plan: SuitePlan,
    counted: Mapping[CellKey, Mapping[int, Figures]],
    baseline: Mapping[CellKey, Sequence[Figures]],
) -> Iterator[_Comparison]:
    """Yield each figure of a cell and that of the same cell in an earlier execution."""
    for run in _first_of_each(plan):
        before = baseline.get(cell_key(run))
        if before is None:
            continue  # The cell is new.
        after = list(counted.get(cell_key(run), {}).values())
        for scenario, figure in _names([*before, *after]):
            yield _Comparison(
                run.label,
                scenario,
                figure,
                _values(before, scenario, figure),
                _values(after, scenario, figure),
                is_paired=False,
            )


def _values(runs: Sequence[Figures], scenario: str, figure: str) -> tuple[float, ...]:
    return tuple(run[scenario][figure] for run in runs if figure in run.get(scenario, {}))


def _first_of_each(plan: SuitePlan) -> Iterator[PlannedRun]:
    """Yield one run of each cell on each system."""
    seen: set[CellKey] = set()
    for run in plan.runs:
        if run.role == "cell" and cell_key(run) not in seen:
            seen.add(cell_key(run))
            yield run


def _names(runs: Sequence[Figures]) -> list[tuple[str, str]]:
    """Return every scenario and figure that any of the runs knows."""
    return list(
        dict.fromkeys(
            (scenario, name) for run in runs for scenario, some in run.items() for name in some
        )
    )
