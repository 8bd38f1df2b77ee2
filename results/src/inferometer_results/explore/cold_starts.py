"""Cold starts of a model's stacks on their nodes, for the page of the model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from inferometer_api.results.result import ResultDocument
from inferometer_api.scenarios.table import COLD_STARTS
from inferometer_results.cold_start import cold_starts, phase_rows
from inferometer_results.explore.eligibility import why_not_ranked
from inferometer_results.store.scenario_rows import stack

Row = Mapping[str, Any]
_MOST_DOCUMENTS = 50


@dataclass(frozen=True, slots=True)
class ColdStartFigure:
    """The newest cold start of a stack on a node that ranks, over its repeats."""

    result_id: str
    state: str
    """What the node held before each start."""
    median_nanoseconds: float
    lowest_nanoseconds: int
    highest_nanoseconds: int
    longest_phase: str


def cold_start_figures(
    rows: Sequence[Row], read: Callable[[str], ResultDocument]
) -> dict[tuple[str, str], ColdStartFigure]:
    """Return the cold starts among measurements, which come newest first, by stack and node.

    `read` returns the document of a result; at most 50 are read.
    """
    newest: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row["kind"] in COLD_STARTS and not why_not_ranked(row):
            newest.setdefault((stack(dict(row)), row["node"]), row)
    found = {}
    for place, row in list(newest.items())[:_MOST_DOCUMENTS]:
        figure = _figure(row, read(row["id"]))
        if figure is not None:
            found[place] = figure
    return found


def _figure(row: Row, document: ResultDocument) -> ColdStartFigure | None:
    starts = cold_starts(document, row["scenario"])
    if not starts:
        return None
    totals = [each.total_nanoseconds for each in starts]
    phases = [each for each in phase_rows(starts) if not each.name.startswith(" ")]
    return ColdStartFigure(
        row["id"],
        starts[0].state,
        median(totals),
        min(totals),
        max(totals),
        max(phases, key=lambda each: each.median_ns).name,
    )
