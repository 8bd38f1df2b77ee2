"""Chart and table of cold starts: one bar for each repeat, its phases where they lie in time."""

from collections.abc import Sequence

import numpy as np

from inferometer_api.results.cold_start import ColdStartRecord, StartPhase
from inferometer_results.cold_start import cold_start_sentences, phase_cells, phase_rows
from inferometer_results.quantity import duration, time_unit
from inferometer_results.report.axis import category_axis, linear_axis
from inferometer_results.report.chart import Bars, Chart, Mark, finite
from inferometer_results.report.facts import Table
from inferometer_results.report.summary import FigureCell

_GROUPS: dict[str, tuple[str, int]] = {
    "scheduled": ("node", 5),
    "volumes": ("node", 5),
    "imagePulled": ("node", 5),
    "fetcherStarted": ("node", 5),
    "containerStarted": ("node", 5),
    "modelFetched": ("model", 1),
    "modelRead": ("model", 1),
    "processStarted": ("program", 2),
    "imported": ("program", 2),
    "listening": ("program", 2),
    "engineImported": ("program", 2),
    "serverStarted": ("program", 2),
    "sessionCreated": ("session", 3),
}
"""The colour of a phase, by its name."""
_INFERENCE = ("inference", 4)


def cold_start_chart(starts: Sequence[ColdStartRecord]) -> Chart | None:
    """Return the phases of each start, stacked where they lie in time; None without starts."""
    if not starts:
        return None
    totals = [each.total_nanoseconds for each in starts]
    unit = time_unit(totals)
    names = dict.fromkeys(phase.name for each in starts for phase in each.phases)
    marks: list[Mark] = []
    for name in names:
        phases = [_phase(each, name) for each in starts]
        group, series = _GROUPS.get(name, _INFERENCE)
        marks.append(
            Bars(
                heights=finite([_of(each, unit.size, "duration") for each in phases]),
                series=series,
                values=tuple(
                    "" if each is None else f"{name}: {unit.named(each.duration_nanoseconds)}"
                    for each in phases
                ),
                written=False,
                base=finite([_of(each, unit.size, "start") for each in phases]),
                name=group,
            )
        )
    return Chart(
        key="cold-start",
        title="Start of the server by phase",
        caption="From the creation of the server to its first answer, a bar for each repeat. White "
        "within a bar is time that no phase covers.",
        summary=" ".join(cold_start_sentences(starts)),
        x=category_axis("Repeat", [str(number + 1) for number in range(len(starts))]),
        y=linear_axis(f"Time ({unit.name})", [unit.of(each) for each in totals]),
        marks=marks,
    )


def cold_start_table(starts: Sequence[ColdStartRecord]) -> Table:
    """Return the median of each phase; no rows without starts."""
    if not starts:
        return Table((), ())
    rows = tuple(
        tuple(FigureCell(cell) for cell in (*phase_cells(row), row.evidence))
        for row in phase_rows(starts)
    )
    total = duration(float(np.median([each.total_nanoseconds for each in starts])))
    last = tuple(FigureCell(cell) for cell in ("total", total, "", "", ""))
    return Table(("Phase", "Median", "Share", "Rate", "Seen by"), (*rows, last))


def _phase(start: ColdStartRecord, name: str) -> StartPhase | None:
    return next((each for each in start.phases if each.name == name), None)


def _of(phase: StartPhase | None, size: float, what: str) -> float | None:
    if phase is None:
        return None
    value = phase.start_nanoseconds if what == "start" else phase.duration_nanoseconds
    return value / size
