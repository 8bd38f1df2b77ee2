"""Cold starts next to the figures of a model, for the page of the model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from inferometer_api.results.result import ResultDocument
from inferometer_api.scenarios.table import COLD_STARTS
from inferometer_results.cold_start import cold_starts, phase_rows
from inferometer_results.explore.eligibility import why_not_ranked
from inferometer_results.explore.model import MeasuredGroup
from inferometer_results.store.scenario_rows import stack

Row = Mapping[str, Any]
_MOST_DOCUMENTS = 50


@dataclass(frozen=True, slots=True)
class ColdStartFigure:
    """A cold start of a stack on a node, over its repeats."""

    result_id: str
    state: str
    """What the node held before each start."""
    median_nanoseconds: float
    lowest_nanoseconds: int
    highest_nanoseconds: int
    longest_phase: str


def cold_start_figures(
    groups: Sequence[MeasuredGroup], rows: Sequence[Row], read: Callable[[str], ResultDocument]
) -> list[ColdStartFigure | None]:
    """Return the cold start that stands next to each group, None if there is none.

    A group of cold starts has its own, so that its state is that of the row; another one has the
    newest of its stack and node among `rows`, all measurements of the model, the newest first.
    Those that do not rank have none. `read` returns the document of a result; at most 50 are read.
    """
    newest: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row["kind"] in COLD_STARTS and not why_not_ranked(row):
            newest.setdefault((stack(dict(row)), row["node"]), row)
    known: dict[tuple[str, str], ColdStartFigure | None] = {}
    found: list[ColdStartFigure | None] = []
    for group in groups:
        if group.newest["kind"] not in COLD_STARTS:
            chosen = newest.get((group.stack, group.node))
        else:
            chosen = None if group.excluded else group.newest
        if chosen is None:
            found.append(None)
            continue
        at = (chosen["id"], chosen["scenario"])
        if at not in known and len(known) < _MOST_DOCUMENTS:
            known[at] = _figure(chosen, read(chosen["id"]))
        found.append(known.get(at))
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
