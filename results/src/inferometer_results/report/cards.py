"""Cards of the report: the main figure of each scenario, with its bounds."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from inferometer_api.results.accuracy import AccuracyResult
from inferometer_api.results.peak_words import rate_text
from inferometer_api.results.result import ResultDocument, ScenarioResult, Step, percentile_of
from inferometer_api.results.search import Peak, RepeatFigure, RepeatSummary
from inferometer_api.scenarios.table import SCENARIOS, is_evaluation
from inferometer_results.compare.figures import samples_rate
from inferometer_results.compare.interval import Estimate
from inferometer_results.quantity import DASH, duration, energy, percent, significant, time_unit
from inferometer_results.report.latency_charts import LatencyBound
from inferometer_results.report.summary import anchor, bounded
from inferometer_results.report.wording import bound_of, setting
from inferometer_results.wording.accuracy import bounds_text, value_text
from inferometer_results.wording.search import figure_value, peak_rate, repeated_of

NO_BOUNDS = "measured too briefly for bounds"
_WITHIN = "95 % within this window"

Details = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MainFigure:
    """What a scenario is read for, in words."""

    figure: str
    unit: str
    label: str
    bounds: str = ""
    covers: str = ""
    """What the bounds hold for."""
    details: Details = ()
    name: str = ""
    """Name of the figure in summaries of repeats; empty if they lack it."""
    step: str = ""
    """Step of the figure; empty if the scenario has one step."""


@dataclass(frozen=True, slots=True)
class Card:
    """The main figure of a scenario, over all its repeats."""

    name: str
    anchor: str
    state: str
    setting: str
    main: MainFigure


def cards(document: ResultDocument) -> list[Card]:
    """Return a card for each scenario, in order."""
    firsts: dict[str, int] = {}
    for index, result in enumerate(document.scenarios):
        firsts.setdefault(result.name, index)
    return [_card(document, index) for index in firsts.values()]


def _card(document: ResultDocument, index: int) -> Card:
    first = document.scenarios[index]
    repeats = [each for each in document.scenarios if each.name == first.name]
    is_invalid = any(each.verdict.state == "INVALID" for each in repeats)
    main = _main_figure(document, first)
    if len(repeats) > 1:
        main = _over_repeats(main, repeated_of(document, first.name), len(repeats))
    return Card(
        name=first.name,
        anchor=anchor(index),
        state="INVALID" if is_invalid else "VALID",
        setting=setting(document.run, first.name, first.kind),
        main=main,
    )


def _main_figure(document: ResultDocument, result: ScenarioResult) -> MainFigure:
    """Return the accuracy or throughput of a scenario, or the latency under its load."""
    if result.peak is not None:
        return _peak(result.peak)
    kind = SCENARIOS.get(result.kind)
    if is_evaluation(result.kind) and result.accuracy is not None:
        return _accuracy(result.accuracy)
    steps = result.steps
    if result.knee is not None:
        steps = [step for step in steps if step.label == result.knee.step] or steps
    best = max(steps, key=lambda step: step.achieved_samples_per_second, default=None)
    if best is None:
        return MainFigure(DASH, "", "nothing was measured")
    if len(result.steps) > 1:
        what = "knee" if result.knee is not None else "highest throughput"
        count = ("steps", str(len(result.steps)))
        main = _throughput(best, f"{what}, at {best.label}", ("p99 at this step", 99.0), count)
    elif kind is not None and kind.headline == "throughput":
        main = _throughput(best, "throughput", ("p99", 99.0), ("rate", _rate(best)))
    else:
        main = _latency(best, bound_of(document.run, result.name))
    return replace(main, details=(*main.details, *_energy(best), *_measures(result.accuracy)))


def _throughput(
    step: Step, label: str, percentile: tuple[str, float], other: tuple[str, str]
) -> MainFigure:
    name, at = percentile
    rate = samples_rate(step)
    return MainFigure(
        figure=significant(rate.value),
        unit="samples/s",
        label=label,
        bounds=_rate_bounds(rate) or NO_BOUNDS,
        covers=_WITHIN if _rate_bounds(rate) else "",
        details=((name, _bounded(step, at)), other),
        name="achievedSamplesPerSecond",
        step=step.label,
    )


def _rate_bounds(rate: Estimate) -> str:
    """Return the bounds of a rate; empty if there are none."""
    if rate.low is None or rate.high is None:
        return ""
    return f"{significant(max(0.0, rate.low))}{DASH}{significant(rate.high)} samples/s"


def _latency(step: Step, goal: LatencyBound | None) -> MainFigure:
    percentile = goal.percentile if goal else _read_by(step)
    value = percentile_of(step.latency, percentile)
    unit = time_unit([value.nanoseconds if value else None])
    label = "median latency" if percentile == 50 else f"p{percentile:g} latency"
    others = [other for other in (50.0, 99.0) if other != percentile]
    details = [*((f"p{other:g}", _named(step, other)) for other in others), ("rate", _rate(step))]
    if step.counts.samples != step.counts.succeeded:
        rate = f"{significant(step.achieved_samples_per_second)} samples/s"
        details.append(("throughput", rate))
    return MainFigure(
        figure=unit.text(value.nanoseconds) if value else DASH,
        unit=unit.name,
        label=f"{label} (bound {duration(goal.nanoseconds)})" if goal else label,
        bounds=f"{bounded(value, unit).bounds} {unit.name}" if value else "",
        covers=_WITHIN if value else "",
        details=tuple(details),
        name=f"p{percentile:g}Nanoseconds".replace(".", ""),
    )


def _accuracy(accuracy: AccuracyResult) -> MainFigure:
    """Return the first measure, with its bounds over the samples; details have the others."""
    first = next(iter(accuracy.figures), None)
    counted = f"{accuracy.processed:,} of {accuracy.requested:,}"
    details: Details = (*_measures(accuracy)[1:], ("samples", counted))
    if accuracy.failed:
        details = (*details, ("failed", f"{accuracy.failed:,}"))
    if first is None:
        return MainFigure(DASH, "", "no sample was processed", details=details)
    number, _, unit = value_text(first).partition(" ")
    bounds = bounds_text(first)
    covers = "95 % over the samples" if bounds else ""
    return MainFigure(number, unit, first.metric, bounds, covers, details)


def _measures(accuracy: AccuracyResult | None) -> Details:
    figures = [] if accuracy is None else accuracy.figures
    return tuple((each.metric, value_text(each)) for each in figures)


def _peak(peak: Peak) -> MainFigure:
    bound = f"p{peak.percentile:g} within {duration(peak.latency_bound_nanoseconds)}"
    details: Details = (("probes", str(len(peak.probes))),)
    if peak.confidence is None or peak.low_qps is None or peak.high_qps is None:
        low, high = peak.low_qps, peak.high_qps
        if peak.qps is not None:
            details = (("probes lead to", f"{peak_rate(peak)} queries/s"), *details)
        return MainFigure(
            figure=DASH if low is None else f"at least {rate_text(low)}",
            unit="" if low is None else "queries/s",
            label=f"no peak confirmed with {bound}",
            bounds="" if high is None else f"not confirmed above {rate_text(high)} queries/s",
            details=details,
            name="peakQps",
        )
    return MainFigure(
        figure=peak_rate(peak),
        unit="queries/s",
        label=f"peak, {bound}",
        bounds=f"{significant(peak.low_qps, 4)}{DASH}{significant(peak.high_qps, 4)} queries/s",
        covers=f"{peak.confidence:.0%} bracket",
        details=details,
        name="peakQps",
    )


def _over_repeats(main: MainFigure, summary: RepeatSummary | None, repeats: int) -> MainFigure:
    """Return the mean over the repeats with its interval, or the first repeat's figure."""
    figure = None if summary is None else _summarized(summary, main)
    if figure is None:
        return replace(main, label=f"{main.label}, first of {repeats} repeats")
    variation = figure.coefficient_of_variation
    number, _, unit = figure_value(figure, figure.mean).partition(" ")
    low, high = figure_value(figure, figure.low), figure_value(figure, figure.high)
    return replace(
        main,
        figure=number,
        unit=unit or main.unit,
        label=f"{main.label}, mean of {len(figure.values)} repeats",
        bounds=f"{low} to {high}",
        covers="95 % of geometric means",
        details=(("variation", DASH if variation is None else percent(variation)),),
    )


def _summarized(summary: RepeatSummary, main: MainFigure) -> RepeatFigure | None:
    found = (each for each in summary.figures if each.step in {"", main.step})
    return next((each for each in found if each.name == main.name), None)


def _read_by(step: Step) -> float:
    """Return the percentile by which MLPerf judges such a step, else 99."""
    return 99.0 if step.early_stopping is None else step.early_stopping.percentile


def _named(step: Step, percentile: float) -> str:
    value = percentile_of(step.latency, percentile)
    return duration(value.nanoseconds) if value else DASH


def _bounded(step: Step, percentile: float) -> str:
    value = percentile_of(step.latency, percentile)
    if value is None or value.low_nanoseconds is value.high_nanoseconds is None:
        return _named(step, percentile)
    unit = time_unit([value.nanoseconds])
    return f"{duration(value.nanoseconds)} ({bounded(value, unit).bounds})"


def _rate(step: Step) -> str:
    if step.scheduled_qps is None:
        return f"{significant(step.achieved_qps)} queries/s"
    return f"{significant(step.achieved_qps)} of {significant(step.scheduled_qps)} queries/s"


def _energy(step: Step) -> Iterator[tuple[str, str]]:
    if step.energy.microjoules_per_inference is not None:
        spent = energy(step.energy.microjoules_per_inference)
        yield "energy per inference", f"{spent} ({step.energy.attribution})"
