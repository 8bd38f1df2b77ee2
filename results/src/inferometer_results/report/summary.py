"""The cards and the summary table of the report."""

from collections.abc import Iterator
from dataclasses import dataclass

from inferometer_api.results.result import (
    Distribution,
    PercentileValue,
    ResultDocument,
    ScenarioResult,
    Step,
    percentile_of,
)
from inferometer_api.results.search import Peak
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_api.status.run_status import Attribution
from inferometer_results.findings import entry_name
from inferometer_results.quantity import (
    DASH,
    PERCENTILES,
    Unit,
    duration,
    energy,
    significant,
    time_unit,
)
from inferometer_results.report.wording import bound_of, setting
from inferometer_results.wording.search import peak_rate, steps_shown


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


@dataclass(frozen=True, slots=True)
class Entry:
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
    entries: tuple[Entry, ...]
    energy_notes: tuple[NoEnergy, ...]
    """Why energy is unavailable, each reason once."""
    shows_energy: bool
    shown: str
    """A sentence about which scenarios and steps the table has."""


@dataclass(frozen=True, slots=True)
class Card:
    """The main figures of a scenario."""

    name: str
    anchor: str
    state: str
    setting: str
    figure: str
    unit: str
    label: str
    details: tuple[tuple[str, str], ...]


def anchor(index: int) -> str:
    """Return the id of a scenario's section."""
    return f"scenario-{index + 1}"


def summarise(document: ResultDocument) -> Summary:
    """Return the summary table of a result."""
    steps = [step for result in document.scenarios for step in steps_shown(result)]
    unit = time_unit(value for step in steps for value in _times(step.latency))
    entries = tuple(
        Entry(entry_name(result), anchor(index), result.verdict.state, tuple(_rows(result, unit)))
        for index, result in enumerate(document.scenarios)
    )
    return Summary(
        unit=unit.name,
        entries=entries,
        energy_notes=tuple(_without_energy(document)),
        shows_energy=any(step.energy.microjoules_per_inference is not None for step in steps),
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


def card(document: ResultDocument, index: int) -> Card:
    """Return the main figures of a scenario: throughput, or latency under its load."""
    result = document.scenarios[index]
    details: tuple[tuple[str, str], ...] = ()
    best = max(result.steps, key=lambda step: step.achieved_samples_per_second, default=None)
    goal = bound_of(document.run, result.name)
    kind = SCENARIOS.get(result.kind)
    is_throughput = kind is not None and kind.headline == "throughput"
    if result.peak is not None:
        return _peak_card(document, index, result.peak)
    if result.knee is not None:
        best = next(step for step in result.steps if step.label == result.knee.step)
    if best is None:
        figure, unit, label = DASH, "", "nothing was measured"
    elif len(result.steps) > 1:
        figure, unit = significant(best.achieved_samples_per_second), "samples/s"
        what = "knee" if result.knee is not None else "highest throughput"
        label = f"{what}, at {best.label}"
        details = (("p99 at this step", _named(best, 99.0)), ("steps", str(len(result.steps))))
    elif is_throughput:
        figure, unit = significant(best.achieved_samples_per_second), "samples/s"
        label = "throughput"
        details = (("p99", _named(best, 99.0)), ("rate", _rate(best)))
    else:
        percentile = goal.percentile if goal else _read_by(best)
        value = percentile_of(best.latency, percentile)
        scale = time_unit([value.nanoseconds if value else None])
        figure = scale.text(value.nanoseconds) if value else DASH
        unit = scale.name
        label = "median latency" if percentile == 50 else f"p{percentile:g} latency"
        if goal:
            label += f" (bound {duration(goal.nanoseconds)})"
        others = [other for other in (50.0, 99.0) if other != percentile]
        details = tuple((f"p{other:g}", _named(best, other)) for other in others)
        details = (*details, ("rate", _rate(best)))
        if best.counts.samples != best.counts.succeeded:
            throughput = f"{significant(best.achieved_samples_per_second)} samples/s"
            details = (*details, ("throughput", throughput))
    if best is not None and best.energy.microjoules_per_inference is not None:
        spent = energy(best.energy.microjoules_per_inference)
        details = (*details, ("energy per inference", f"{spent} ({best.energy.attribution})"))
    return Card(
        name=entry_name(result),
        anchor=anchor(index),
        state=result.verdict.state,
        setting=setting(document.run, result.name, result.kind),
        figure=figure,
        unit=unit,
        label=label,
        details=details,
    )


def _read_by(step: Step) -> float:
    """Return the percentile by which MLPerf judges such a step, else 99."""
    return 99.0 if step.early_stopping is None else step.early_stopping.percentile


def _peak_card(document: ResultDocument, index: int, peak: Peak) -> Card:
    result = document.scenarios[index]
    bound = f"p{peak.percentile:g} within {duration(peak.latency_bound_nanoseconds)}"
    details = [("probes", str(len(peak.probes)))]
    if peak.qps is not None and peak.confidence is None:
        details.insert(0, ("bracket", "unknown"))
    if peak.confidence is not None and peak.low_qps is not None and peak.high_qps is not None:
        ends = f"{significant(peak.low_qps, 4)}{DASH}{significant(peak.high_qps, 4)}"
        details.insert(0, (f"{peak.confidence:.0%} bracket", ends))
    return Card(
        name=entry_name(result),
        anchor=anchor(index),
        state=result.verdict.state,
        setting=setting(document.run, result.name, result.kind),
        figure=peak_rate(peak),
        unit="" if peak.qps is None else "queries/s",
        label=f"peak, {bound}" if peak.qps is not None else f"no peak found with {bound}",
        details=tuple(details),
    )


def bounded(value: PercentileValue | None, unit: Unit) -> FigureCell:
    """Return a percentile with its bounds; an unknown bound is a question mark."""
    if value is None:
        return FigureCell(DASH)
    low = "?" if value.low_nanoseconds is None else unit.text(value.low_nanoseconds)
    high = "?" if value.high_nanoseconds is None else unit.text(value.high_nanoseconds)
    return FigureCell(unit.text(value.nanoseconds), f"{low}{DASH}{high}")


def _rows(result: ScenarioResult, unit: Unit) -> Iterator[SummaryRow]:
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
        )


def _net(step: Step) -> str:
    net = step.energy.net_microjoules_per_inference
    return "" if net is None else energy(net)


def _times(distribution: Distribution | None) -> Iterator[int]:
    if distribution is not None:
        shown = (percentile_of(distribution, percentile) for percentile in PERCENTILES)
        yield from (value.nanoseconds for value in shown if value is not None)
        yield distribution.max_nanoseconds


def _named(step: Step, percentile: float) -> str:
    value = percentile_of(step.latency, percentile)
    return duration(value.nanoseconds) if value else DASH


def _rate(step: Step) -> str:
    if step.scheduled_qps is None:
        return f"{significant(step.achieved_qps)} queries/s"
    return f"{significant(step.achieved_qps)} of {significant(step.scheduled_qps)} queries/s"
