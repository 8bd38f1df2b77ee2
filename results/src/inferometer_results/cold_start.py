"""Figures of a scenario's cold starts, over its repeats."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from inferometer_api.results.cold_start import ColdStartRecord, StartPhase
from inferometer_api.results.result import ResultDocument
from inferometer_results.quantity import byte_unit, duration, percent

_STEADY = 1.1
"""A query counts as steady up to this multiple of the steady median."""
GAP = "no phase"


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """One phase, by its median over the repeats."""

    name: str
    median_ns: float
    share: float
    """Of the median total."""
    bytes_per_second: float | None
    resolution_ns: int
    evidence: str


def cold_starts(document: ResultDocument, name: str) -> list[ColdStartRecord]:
    """Return the records of a scenario in the order of its repeats."""
    return [
        each.cold_start
        for each in document.scenarios
        if each.name == name and each.cold_start is not None
    ]


def phase_rows(starts: Sequence[ColdStartRecord]) -> Iterator[PhaseRow]:
    """Yield a row for each phase of any start, in the order of the longest one, and for the gap.

    A start without a phase, such as the pull of an image that was there, spent no time in it.
    """
    total = median(each.total_nanoseconds for each in starts) or 1
    phases: dict[str, StartPhase] = {}
    for start in sorted(starts, key=lambda each: -len(each.phases)):
        for phase in start.phases:
            phases.setdefault(phase.name, phase)
    for first in phases.values():
        same = [phase for start in starts for phase in start.phases if phase.name == first.name]
        absent = [0] * (len(starts) - len(same))
        middle = median([*(phase.duration_nanoseconds for phase in same), *absent])
        rates = [phase.bytes_per_second for phase in same if phase.bytes_per_second is not None]
        yield PhaseRow(
            first.name,
            middle,
            middle / total,
            median(rates) if rates else None,
            first.resolution_nanoseconds,
            first.evidence,
        )
        for part in first.parts:
            known = [phase.parts[part] for phase in same if part in phase.parts]
            yield PhaseRow(
                f"  {part}", median(known), median(known) / total, None, 1000, "the engine"
            )
    gap = median(each.gap_nanoseconds for each in starts)
    yield PhaseRow(GAP, gap, gap / total, None, 1000, "")


def phase_cells(row: PhaseRow) -> tuple[str, str, str, str]:
    """Return a row in words: name, median, share of the total, rate."""
    rate = row.bytes_per_second
    words = "" if rate is None else f"{byte_unit([round(rate)]).named(round(rate))}/s"
    return row.name, duration(row.median_ns), percent(row.share), words


def cold_start_sentences(starts: Sequence[ColdStartRecord]) -> Iterator[str]:
    """Yield what the starts amount to: the total, the first queries, and what is unknown."""
    totals = [each.total_nanoseconds for each in starts]
    yield (
        f"From its creation to its first answer the server takes {duration(median(totals))} "
        f"(median of {len(totals)}; {duration(min(totals))} to {duration(max(totals))})."
    )
    first = [each.first_queries_nanoseconds[0] for each in starts if each.first_queries_nanoseconds]
    steady = [
        each.steady_median_nanoseconds
        for each in starts
        if each.steady_median_nanoseconds is not None
    ]
    if first and steady:
        yield (
            f"The first query takes {duration(median(first))}, the steady median is "
            f"{duration(median(steady))}. {_settled(starts)}"
        )
    for name, why in {
        name: why for start in starts for name, why in start.unavailable.items()
    }.items():
        yield f"Not known: {name} ({why})."


def queries_until_steady(start: ColdStartRecord) -> int | None:
    """Return how many first queries come before the first within 10 % of the steady median.

    None if none of them is.
    """
    if start.steady_median_nanoseconds is None:
        return None
    limit = _STEADY * start.steady_median_nanoseconds
    return next(
        (index for index, each in enumerate(start.first_queries_nanoseconds) if each <= limit), None
    )


def _settled(starts: Sequence[ColdStartRecord]) -> str:
    found = [queries_until_steady(each) for each in starts]
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        many = len(starts[0].first_queries_nanoseconds)
        return f"The first {many} queries do not always reach it within 10 %."
    return f"Query {round(median(known)) + 1} is the first within 10 % of it."
