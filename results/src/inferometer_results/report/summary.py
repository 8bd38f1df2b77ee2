"""The summary table of the report."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from inferometer_api.results.result import (
    Distribution,
    PercentileValue,
    ResultDocument,
    ScenarioResult,
    Step,
    percentile_of,
)
from inferometer_api.status.run_status import Attribution
from inferometer_results.explore.prices import PriceList, nodes_of
from inferometer_results.findings import entry_name
from inferometer_results.quantity import (
    DASH,
    PERCENTILES,
    Unit,
    energy,
    significant,
    time_unit,
)
from inferometer_results.wording.search import steps_shown


@dataclass(frozen=True, slots=True)
class FigureCell:
    """A figure as text, with its confidence bounds in small letters below."""

    text: str
    bounds: str = ""


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One step in the summary table."""

    step: str
    queries: str
    failed: str
    errors: tuple[str, ...]
    rate: str
    scheduled: str
    samples_per_second: str
    percentiles: tuple[FigureCell, ...]
    largest: str
    energy: str
    """Gross, per inference."""
    net: str
    covers: Attribution
    cost: str
    """Of a million inferences."""


@dataclass(frozen=True, slots=True)
class ScenarioEntry:
    """One scenario in the summary table, with a row for each of its steps."""

    name: str
    anchor: str
    state: str
    rows: tuple[SummaryRow, ...]


@dataclass(frozen=True, slots=True)
class NoEnergy:
    """Why energy is unavailable."""

    places: str
    """The scenarios and steps; empty if it is all of them."""
    reason: str
    """A sentence without a period, or empty."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary table, with all latencies in one unit."""

    unit: str
    entries: tuple[ScenarioEntry, ...]
    energy_notes: tuple[NoEnergy, ...]
    """Why energy is unavailable, each reason once."""
    shows_energy: bool
    shows_cost: bool
    shown: str
    """A sentence about which scenarios and steps the table has."""


def anchor(index: int) -> str:
    """Return the id of a scenario's section."""
    return f"scenario-{index + 1}"


def summarise(document: ResultDocument, prices: PriceList | None = None) -> Summary:
    """Return the summary table of a result."""
    nodes = nodes_of(document)

    def cost(step: Step) -> str:
        if prices is None:
            return ""
        return prices.text(prices.per_million(nodes, step.achieved_samples_per_second))

    steps = [step for result in document.scenarios for step in steps_shown(result)]
    unit = time_unit(value for step in steps for value in _times(step.latency))
    entries = tuple(
        ScenarioEntry(
            entry_name(result),
            anchor(index),
            result.verdict.state,
            tuple(_rows(result, unit, cost)),
        )
        for index, result in enumerate(document.scenarios)
    )
    return Summary(
        unit=unit.name,
        entries=entries,
        energy_notes=tuple(_without_energy(document)),
        shows_energy=any(step.energy.microjoules_per_inference is not None for step in steps),
        shows_cost=prices is not None and prices.per_hour(nodes) is not None,
        shown=_shown(document),
    )


def _shown(document: ResultDocument) -> str:
    """Return which steps the table has: only one of each search."""
    has_search = any(result.peak is not None for result in document.scenarios)
    search = " A search has one row: the probe by which it is judged." if has_search else ""
    return f"Every scenario and step.{search}"


def _without_energy(document: ResultDocument) -> Iterator[NoEnergy]:
    places: dict[str, list[str]] = {}
    total = 0
    for result in document.scenarios:
        for step in steps_shown(result):
            total += 1
            if step.energy.attribution == "unavailable":
                name = " ".join(part for part in (entry_name(result), step.label) if part)
                places.setdefault(step.energy.reason.strip().rstrip("."), []).append(name)
    for reason, names in places.items():
        yield NoEnergy("" if len(names) == total else ", ".join(names), reason)


def bounded(value: PercentileValue | None, unit: Unit) -> FigureCell:
    """Return a percentile with its bounds; an unknown bound is a question mark."""
    if value is None:
        return FigureCell(DASH)
    low = "?" if value.low_nanoseconds is None else unit.text(value.low_nanoseconds)
    high = "?" if value.high_nanoseconds is None else unit.text(value.high_nanoseconds)
    return FigureCell(unit.text(value.nanoseconds), f"{low}{DASH}{high}")


def _rows(result: ScenarioResult, unit: Unit, cost: Callable[[Step], str]) -> Iterator[SummaryRow]:
    for step in steps_shown(result):
        counts = step.counts
        kinds = tuple(f"{count:,} {kind}" for kind, count in sorted(counts.errors.items()))
        yield SummaryRow(
            step=step.label,
            queries=f"{counts.queries:,}",
            failed=f"{counts.failed:,}",
            errors=kinds,
            rate=significant(step.achieved_qps),
            scheduled="" if step.scheduled_qps is None else significant(step.scheduled_qps),
            samples_per_second=significant(step.achieved_samples_per_second),
            percentiles=tuple(
                bounded(percentile_of(step.latency, percentile), unit) for percentile in PERCENTILES
            ),
            largest=unit.text(step.latency.max_nanoseconds if step.latency else None),
            energy=energy(step.energy.microjoules_per_inference),
            net=_net(step),
            covers=step.energy.attribution,
            cost=cost(step),
        )


def _net(step: Step) -> str:
    net = step.energy.net_microjoules_per_inference
    return "" if net is None else energy(net)


def _times(distribution: Distribution | None) -> Iterator[int]:
    if distribution is not None:
        shown = (percentile_of(distribution, percentile) for percentile in PERCENTILES)
        yield from (value.nanoseconds for value in shown if value is not None)
        yield distribution.max_nanoseconds
