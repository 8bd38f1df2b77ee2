"""The matrix of a suite as people see it: heat maps, failed cells, and the best of each row."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from inferometer_api.ranking import NOT_RANKED
from inferometer_api.suite.figures import MORE_IS_BETTER, Figures
from inferometer_api.suite.status import GateStatus
from inferometer_results.quantity import DASH, duration, significant
from inferometer_results.suites.best_cells import CellValues, best_cells

_INCLUDED = "cell"
"""In the place of an axis, the name of an included cell; no axis can have this name."""
HEAT_LEVELS = 5
"""Shades of a heat map: 5 is the best figure of the map."""
STATE_WORDS = {
    ".": "waiting",
    "a": "running",
    "V": "VALID",
    "I": "INVALID",
    "F": "failed",
    "D": "deleted",
    "S": "skipped",
    "R": "reused",
}
_WITH_FIGURES = frozenset({"V", "R"})
_HEADINGS = {"qps": "queries per second", "p50": "median latency"}


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """One run of a suite, as far as it is known."""

    name: str
    values: tuple[tuple[str, str], ...]
    """Names of axes and values."""
    system: str
    repeat: int
    role: str
    """cell, opening or closing."""
    state: str
    """A letter of a suite's status: V is VALID."""
    reason: str = ""
    """Why it failed, or is INVALID."""
    figures: Figures | None = None
    link: str = ""
    """Address of its report."""
    engine: str = ""
    """What computed its outputs. Runs with equal texts rank with each other."""


Caveat = Callable[[SuiteRun, SuiteRun], str]
"""Returns why two runs of different engines cannot be ranked by speed, empty if they can."""


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A cell of a heat map."""

    text: str
    level: int
    """From 1, the worst of the map, to `HEAT_LEVELS`; 0 without a figure."""
    note: str
    """Its state, if it has no figure; otherwise over how many runs it is."""
    is_best: bool
    """Whether it is one of the best of its row (see `best_cells`), and the row may be ranked."""
    link: str


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A row of a heat map."""

    label: str
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One figure of one scenario over all cells."""

    scenario: str
    heading: str
    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    note: str = ""
    """Why some row has no best cell; empty if all may be ranked."""


@dataclass(frozen=True, slots=True)
class SuiteView:
    """What the page of a suite shows."""

    name: str
    execution: str
    done: int
    planned: int
    counts: tuple[tuple[str, int], ...]
    """States in words, and how many runs are in each."""
    maps: tuple[HeatMap, ...]
    problems: tuple[tuple[str, SuiteRun, str], ...]
    """The state in words, the run, and its cell."""
    gate: GateStatus | None = None
    note: str = ""

    @property
    def has_reused(self) -> bool:
        """Whether earlier results stand for some runs."""
        return any(word == STATE_WORDS["R"] for word, _ in self.counts)


def suite_view(
    name: str,
    execution: str,
    runs: Sequence[SuiteRun],
    *,
    gate: GateStatus | None = None,
    note: str = "",
    caveat: Caveat = lambda _, __: NOT_RANKED,
) -> SuiteView:
    """Return what the page of an execution of a suite shows.

    The last axis makes the columns, the others and the systems the rows. Runs of the anchor count
    as runs, and their figures are in no cell. `caveat` decides which rows have a best cell.
    """
    cells = [run for run in runs if run.role == "cell"]
    states = [run.state for run in runs]
    return SuiteView(
        name,
        execution,
        sum(state not in ".a" for state in states),
        len(runs),
        tuple(
            (word, states.count(letter)) for letter, word in STATE_WORDS.items() if letter in states
        ),
        tuple(_maps(cells, caveat)),
        tuple(
            (STATE_WORDS.get(run.state, run.state), run, label_of(run))
            for run in runs
            if run.state in "IFDS"
        ),
        gate,
        note,
    )


def label_of(run: SuiteRun) -> str:
    """Return the cell of a run as people read it: "resnet50, grpc on node-a"."""
    cell = ", ".join(value for _, value in run.values) or "the template"
    return f"{cell} on {run.system}" if run.system else cell


def _maps(cells: Sequence[SuiteRun], caveat: Caveat) -> Iterator[HeatMap]:
    names = dict.fromkeys(
        (scenario, figure)
        for run in cells
        for scenario, figures in (run.figures or {}).items()
        for figure in figures
    )
    for scenario, figure in names:
        yield _map(cells, scenario, figure, caveat)


def _map(cells: Sequence[SuiteRun], scenario: str, figure: str, caveat: Caveat) -> HeatMap:
    axis = _last_axis(cells)
    columns = list(dict.fromkeys(_column(run, axis) for run in cells))
    by_place: dict[tuple[str, str], list[SuiteRun]] = {}
    for run in cells:
        by_place.setdefault((_row(run, axis), _column(run, axis)), []).append(run)
    known = {
        place: values
        for place, some in by_place.items()
        if (values := _values(some, scenario, figure)) is not None
    }
    means = {place: values.mean for place, values in known.items()}
    rows, note = [], ""
    for row in dict.fromkeys(place[0] for place in by_place):
        in_row = {column: known[row, column] for column in columns if (row, column) in known}
        best = best_cells(in_row, more_is_better=MORE_IS_BETTER[figure])
        runs = {column: by_place[row, column] for column in in_row}
        if best and not _may_rank(in_row, runs, figure, caveat):
            best, note = frozenset(), NOT_RANKED
        cells_of_row = (
            _heat_cell(
                by_place.get((row, column), ()),
                means.get((row, column)),
                figure,
                _level(means.get((row, column)), means.values(), figure),
                is_best=column in best,
            )
            for column in columns
        )
        rows.append(HeatRow(row, tuple(cells_of_row)))
    return HeatMap(scenario, _HEADINGS[figure], tuple(columns), tuple(rows), note)


def _may_rank(
    in_row: Mapping[str, CellValues],
    runs: Mapping[str, Sequence[SuiteRun]],
    figure: str,
    caveat: Caveat,
) -> bool:
    """Return whether the best cell of a row may be ranked with each other one."""
    choose = max if MORE_IS_BETTER[figure] else min
    first = _valid_run(runs[choose(in_row, key=lambda column: in_row[column].mean)])
    others = {run.engine: run for run in map(_valid_run, runs.values())}
    return not any(
        caveat(first, other) for engine, other in others.items() if engine != first.engine
    )


def _valid_run(runs: Iterable[SuiteRun]) -> SuiteRun:
    return next(run for run in runs if run.state in _WITH_FIGURES)


def _last_axis(cells: Iterable[SuiteRun]) -> str:
    """Return the last axis; empty without axes. Included cells may lack values of some axes."""
    axes = max(
        ([at for at, _ in run.values if at != _INCLUDED] for run in cells), key=len, default=[]
    )
    return axes[-1] if axes else ""


def _column(run: SuiteRun, axis: str) -> str:
    return dict(run.values).get(axis, "the template") if axis else "figure"


def _row(run: SuiteRun, axis: str) -> str:
    names = [value for name, value in run.values if name != axis]
    return ", ".join([*names, *([run.system] if run.system else [])]) or "all"


def _values(runs: Iterable[SuiteRun], scenario: str, figure: str) -> CellValues | None:
    """Return a figure in the VALID runs of a cell; a reused run belongs to no block."""
    found = [
        (run, (run.figures or {})[scenario][figure])
        for run in runs
        if run.state in _WITH_FIGURES and figure in (run.figures or {}).get(scenario, {})
    ]
    if not found:
        return None
    by_block = {run.repeat: value for run, value in found if run.state == "V"}
    return CellValues(tuple(value for _, value in found), by_block)


def _text(value: float, figure: str) -> str:
    return significant(value) if figure == "qps" else duration(value * 1e9)


def _level(value: float | None, all_values: Iterable[float], figure: str) -> int:
    """Return the shade of a figure: equal steps of the logarithm between worst and best."""
    if value is None:
        return 0
    logs = [math.log(each) for each in all_values]
    low, high = min(logs), max(logs)
    if high - low < 1e-9:
        return HEAT_LEVELS
    share = (math.log(value) - low) / (high - low)
    if not MORE_IS_BETTER[figure]:
        share = 1 - share
    return 1 + round(share * (HEAT_LEVELS - 1))


def _heat_cell(
    runs: Sequence[SuiteRun], mean: float | None, figure: str, level: int, *, is_best: bool
) -> HeatCell:
    link = next((run.link for run in reversed(runs) if run.link), "")
    if mean is None:
        words = dict.fromkeys(STATE_WORDS.get(run.state, run.state) for run in runs)
        return HeatCell(DASH, 0, ", ".join(words) or "excluded", is_best=False, link=link)
    text = _text(mean, figure)
    valid = sum(run.state in _WITH_FIGURES for run in runs)
    notes = [] if len(runs) == 1 else [f"{valid} of {len(runs)} runs"]
    if reused := sum(run.state == "R" for run in runs):
        notes.append("reused" if reused == valid else f"{reused} reused")
    return HeatCell(text, level, ", ".join(notes), is_best, link)
