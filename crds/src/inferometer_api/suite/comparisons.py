"""The figures that the gate of a suite compares: of a cell, and of its baseline."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inferometer_api.judgement import FEWEST_RUNS
from inferometer_api.ranking import MEASURE_ACCURACY, Computation, may_rank_all
from inferometer_api.suite.anchor import class_of_node
from inferometer_api.suite.figures import (
    CellKey,
    MeasuredRun,
    StepKey,
    cell_key,
    measured_run,
    planned_computation,
    scenario_specs,
)
from inferometer_api.suite.obstacles import obstacle_of_figure, obstacle_of_nodes
from inferometer_api.suite.plan_suite import Block, Cell, PlannedRun, SuitePlan
from inferometer_api.suite.progress import RunOutcome
from inferometer_api.suite.spec import SuiteSpec

_FORGOTTEN = (
    "VALID runs of {} were deleted, and the operator that knew their figures was restarted, before "
    "the suite was over. Raise retention.ttlSecondsAfterFinished of the template."
)
Equivalence = Callable[[CellKey, CellKey], bool]
Counted = Mapping[CellKey, Mapping[int, MeasuredRun]]
"""The runs that count, by cell and system, then by repeat."""


@dataclass(frozen=True, slots=True)
class BaselineCell:
    """The VALID runs of a cell in an earlier execution."""

    runs: list[MeasuredRun] = field(default_factory=list)
    computations: set[Computation] = field(default_factory=set)
    """What computed the outputs of these runs."""


@dataclass(frozen=True, slots=True)
class CellComparison:
    """A figure of a cell and of its baseline."""

    label: str
    scenario: str
    step: str
    """Empty if the scenario has one step, and of a peak."""
    figure: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    is_paired: bool
    obstacle: str = ""
    """Why it cannot be judged, as a sentence; empty: it can, with enough values."""
    node_classes: frozenset[str] = frozenset()
    """Those of the nodes on which the cell's runs were."""


@dataclass(frozen=True, slots=True)
class ComparedCells:
    """The cells of a suite next to their baseline."""

    comparisons: list[CellComparison] = field(default_factory=list)
    unranked: list[str] = field(default_factory=list)
    """A sentence for each cell whose outputs may differ from those of the baseline."""
    unmeasured: list[str] = field(default_factory=list)
    """A sentence for each cell that has no VALID runs to compare, here or in the baseline."""
    has_counterparts: bool = False
    """Whether the baseline has any of the cells."""


def baseline_cells(
    runs: Iterable[tuple[CellKey, RunOutcome, Computation, Mapping[str, str]]],
) -> dict[CellKey, BaselineCell]:
    """Return the VALID runs of an earlier execution, by cell and system.

    The last of the four is that of `scenario_specs`.
    """
    found: dict[CellKey, BaselineCell] = defaultdict(BaselineCell)
    for key, outcome, computation, specs in runs:
        if outcome.state == "V" and outcome.scenarios:
            found[key].runs.append(measured_run(outcome.scenarios, specs, outcome.node))
            found[key].computations.add(computation)
    return found


def by_block(
    plan: SuitePlan, outcomes: Sequence[RunOutcome], drifted: Sequence[Block]
) -> dict[CellKey, dict[int, MeasuredRun]]:
    """Return the VALID runs that count, by cell and system, then by repeat."""
    left_out = {(block.repeat, block.system.name) for block in drifted}
    found: dict[CellKey, dict[int, MeasuredRun]] = defaultdict(dict)
    for run, outcome in zip(plan.runs, outcomes, strict=True):
        counts = (run.block.repeat, run.block.system.name) not in left_out
        if run.role == "cell" and outcome.state == "V" and counts and outcome.scenarios:
            specs = scenario_specs(run.data["spec"])
            found[cell_key(run)][run.block.repeat] = measured_run(
                outcome.scenarios, specs, outcome.node
            )
    return found


def compare_with_axis(
    spec: SuiteSpec,
    plan: SuitePlan,
    outcomes: Sequence[RunOutcome],
    counted: Counted,
    are_equivalent: Equivalence,
) -> ComparedCells:
    """Compare cells with those of the baseline's value; `counted` is that of `by_block`."""
    cells = [*_pairs_of_cells(spec, plan)]
    unranked = _unranked(cells, _computations(plan, outcomes), are_equivalent)
    return ComparedCells(
        [*_against_axis(cells, unranked, counted)],
        [*unranked.values()],
        [*_unpaired(cells, unranked, counted, _forgotten(plan, outcomes))],
        bool(cells),
    )


def compare_with_execution(
    plan: SuitePlan,
    outcomes: Sequence[RunOutcome],
    counted: Counted,
    baseline: Mapping[CellKey, BaselineCell],
) -> ComparedCells:
    """Compare cells with those of an earlier execution."""
    unranked = _computed_otherwise(plan, _computations(plan, outcomes), baseline)
    return ComparedCells(
        [*_against_execution(plan, unranked, counted, baseline)],
        [*unranked.values()],
        [*_without_baseline(plan, counted, baseline, _forgotten(plan, outcomes))],
        any(cell_key(run) in baseline for run in plan.runs),
    )


def _pairs_of_cells(spec: SuiteSpec, plan: SuitePlan) -> Iterator[tuple[PlannedRun, Cell]]:
    """Yield a run of each cell, and the cell with the baseline's value in its place."""
    baseline = spec.baseline
    if baseline is None or baseline.axis is None or baseline.value is None:
        return
    by_values = {cell.values: cell for cell in plan.cells if not cell.included}
    differing = {each.name for each in spec.include if each.settings}
    for run in _first_of_each(plan):
        values = dict(run.cell.values)
        if run.cell.included in differing:
            continue  # It differs from the cells of the axes by more than the baseline's value.
        if values.get(baseline.axis, baseline.value) == baseline.value:
            continue
        base = tuple(
            (axis, baseline.value if axis == baseline.axis else value)
            for axis, value in run.cell.values
        )
        if (other := by_values.get(base)) is not None:
            yield run, other


def _unpaired(
    cells: Iterable[tuple[PlannedRun, Cell]],
    unranked: Collection[CellKey],
    counted: Counted,
    forgotten: Collection[CellKey],
) -> Iterator[str]:
    """Yield a sentence for each cell of which no block has a VALID pair."""
    for run, other in cells:
        keys = cell_key(run), (other.key, run.block.system.name)
        both = [counted.get(key, {}) for key in keys]
        if cell_key(run) in unranked or both[0].keys() & both[1].keys():
            continue
        if lost := [each for each in keys if each in forgotten]:
            label = run.label if keys[0] in lost else other.label
            yield f"{run.label}: not judged. {_FORGOTTEN.format(label)}"
        else:
            yield (
                f"{run.label}: not judged. In no block that counts are both its run and the run of "
                f"{other.label} VALID."
            )


def _against_axis(
    cells: Iterable[tuple[PlannedRun, Cell]],
    unranked: Collection[CellKey],
    counted: Counted,
) -> Iterator[CellComparison]:
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


def _paired(run: PlannedRun, other: Cell, counted: Counted) -> Iterator[CellComparison]:
    """Yield each figure of the pairs of a cell; nothing without pairs, see `_unpaired`."""
    system = run.block.system
    before, after = counted.get((other.key, system.name), {}), counted.get(cell_key(run), {})
    pairs = [(before[at], after[at]) for at in sorted(before.keys() & after.keys())]
    obstacles = [obstacle_of_nodes(pair, system) for pair in pairs]
    alike = [pair for pair, why in zip(pairs, obstacles, strict=True) if not why]
    apart = "" if len(alike) >= FEWEST_RUNS else next(filter(None, obstacles), "")
    for key, figure in _names([each for pair in pairs for each in pair]):
        obstacle = apart or obstacle_of_figure(key, figure, [run for pair in alike for run in pair])
        yield _comparison(
            run,
            (key, figure),
            [one for one, _ in alike],
            [two for _, two in alike],
            is_paired=True,
            obstacle=obstacle,
        )


def _comparison(
    run: PlannedRun,
    name: tuple[StepKey, str],
    before: Sequence[MeasuredRun],
    after: Sequence[MeasuredRun],
    *,
    is_paired: bool,
    obstacle: str,
) -> CellComparison:
    """Return a figure of runs of both sides; without values if it has an obstacle."""
    (scenario, step), figure = name
    return CellComparison(
        run.label,
        scenario,
        step,
        figure,
        () if obstacle else tuple(each.figures[scenario, step][figure] for each in before),
        () if obstacle else tuple(each.figures[scenario, step][figure] for each in after),
        is_paired,
        obstacle,
        frozenset(class_of_node(run.block.system, each.node) for each in after),
    )


def _computed_otherwise(
    plan: SuitePlan,
    known: Mapping[CellKey, set[Computation]],
    baseline: Mapping[CellKey, BaselineCell],
) -> dict[CellKey, str]:
    """Return why cells cannot be judged next to an earlier execution: a sentence for each."""
    return {
        cell_key(run): f"{run.label}: not judged. {MEASURE_ACCURACY}"
        for run in _first_of_each(plan)
        if cell_key(run) in baseline
        and not may_rank_all(known.get(cell_key(run), set()) | baseline[cell_key(run)].computations)
    }


def _without_baseline(
    plan: SuitePlan,
    counted: Counted,
    baseline: Mapping[CellKey, BaselineCell],
    forgotten: Collection[CellKey],
) -> Iterator[str]:
    """Yield a sentence for each cell that is VALID in one of both executions at most."""
    for run in _first_of_each(plan):
        if cell_key(run) not in baseline:
            yield f"{run.label}: not judged. The baseline has no VALID run of this cell."
        elif not counted.get(cell_key(run)) and cell_key(run) in forgotten:
            yield f"{run.label}: not judged. {_FORGOTTEN.format(run.label)}"
        elif not counted.get(cell_key(run)):
            yield f"{run.label}: not judged. No run of this cell is VALID and counts."


def _against_execution(
    plan: SuitePlan,
    unranked: Collection[CellKey],
    counted: Counted,
    baseline: Mapping[CellKey, BaselineCell],
) -> Iterator[CellComparison]:
    """Yield each figure of a cell and that of the same cell in an earlier execution."""
    for run in _first_of_each(plan):
        after = list(counted.get(cell_key(run), {}).values())
        if cell_key(run) not in baseline or cell_key(run) in unranked or not after:
            continue
        before = baseline[cell_key(run)].runs
        both = [*before, *after]
        apart = obstacle_of_nodes(both, run.block.system)
        for key, figure in _names(both):
            yield _comparison(
                run,
                (key, figure),
                before,
                after,
                is_paired=False,
                obstacle=apart or obstacle_of_figure(key, figure, both),
            )


def _forgotten(plan: SuitePlan, outcomes: Sequence[RunOutcome]) -> set[CellKey]:
    """Return the cells with a VALID run whose figures are no longer known."""
    return {
        cell_key(run)
        for run, outcome in zip(plan.runs, outcomes, strict=True)
        if run.role == "cell" and outcome.state == "V" and not outcome.scenarios
    }


def _first_of_each(plan: SuitePlan) -> Iterator[PlannedRun]:
    """Yield one run of each cell on each system."""
    seen: set[CellKey] = set()
    for run in plan.runs:
        if run.role == "cell" and cell_key(run) not in seen:
            seen.add(cell_key(run))
            yield run


def _names(runs: Sequence[MeasuredRun]) -> list[tuple[StepKey, str]]:
    """Return every step and figure that any of the runs knows.

    Of a step without figures, and of a scenario without steps, one name stands for all.
    """
    known = dict.fromkeys(
        (key, name) for run in runs for key, some in run.figures.items() for name in some or ("",)
    )
    with_figures = {key for key, name in known if name}
    scenarios = {scenario for (scenario, _), _ in known}
    unknown = {name for run in runs for name in (*run.specs, *run.without_steps)} - scenarios
    return [
        *((key, name) for key, name in known if name or key not in with_figures),
        *(((name, ""), "") for name in sorted(unknown)),
    ]
