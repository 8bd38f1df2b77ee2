"""Statistics over the repeats of one scenario.

They are the geometric mean of each figure with its 95 % interval, its coefficient of variation,
and the number of repeats for an interval within 5 % of the mean.
"""

from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from inferometer_api.results.result import ScenarioResult, Step, nanoseconds_at
from inferometer_api.results.search import RepeatFigure, RepeatScope, RepeatSummary
from inferometer_api.statistics import geometric_mean, half_width

WITHIN = 0.05
"""Half width of a sufficiently narrow interval, as a share of the mean."""
MOST_REPEATS = 100
"""Limit of the API."""

_Figure = Callable[[Step], float | None]


def _latency(percentile: float) -> _Figure:
    return lambda step: nanoseconds_at(step.latency, percentile)


_FIGURES: dict[str, _Figure] = {
    "achievedQps": lambda step: step.achieved_qps,
    "achievedSamplesPerSecond": lambda step: step.achieved_samples_per_second,
    "meanNanoseconds": lambda step: None if step.latency is None else step.latency.mean_nanoseconds,
    "p50Nanoseconds": _latency(50.0),
    "p90Nanoseconds": _latency(90.0),
    "p99Nanoseconds": _latency(99.0),
    "p999Nanoseconds": _latency(99.9),
    "microjoulesPerInference": lambda step: step.energy.microjoules_per_inference,
}
"""The figures of a step, by their names in the result document."""
_ADVISED_BY = {
    "achievedQps": "rate",
    "p50Nanoseconds": "median latency",
    "p99Nanoseconds": "P99 latency",
    "peakQps": "peak",
}
"""Figures that users compare, in words; higher percentiles never become narrow."""


def summarize_repeats(
    results: Sequence[ScenarioResult],
    cut_short: int = 0,
    *,
    scope: RepeatScope = "Load",
) -> RepeatSummary:
    """Return the statistics of all whole repeats of one scenario.

    `scope` is what each repeat began anew. `cut_short` is the number of other repeats, which are
    left out because they were shorter. A figure that a repeat lacks is left out. A search is
    repeated as a whole: only its peak is compared, since its probes have other rates each time.
    """
    figures = _peaks(results) if results[0].peak is not None else _of_steps(results)
    figures += _cold_starts(results)
    by_schedule = any(step.scheduled_qps is not None for step in results[0].steps)
    return RepeatSummary(
        name=results[0].name,
        repeats=len(results),
        scope=scope,
        figures=figures,
        advice=" ".join(
            filter(
                None,
                (
                    _left_out(cut_short),
                    _invalid(results) if figures else "",
                    _advice(figures, by_schedule=by_schedule),
                ),
            )
        ),
    )


def repeat_figure(name: str, step: str, values: Sequence[float]) -> RepeatFigure:
    """Return the geometric mean of values of independent repeats, with its interval."""
    mean, low, high = geometric_mean(values)
    arithmetic = fmean(values)
    variation = stdev(values) / arithmetic if len(values) > 1 and arithmetic else None
    return RepeatFigure(
        name=name,
        step=step,
        values=list(values),
        mean=mean,
        low=low,
        high=high,
        coefficient_of_variation=variation,
    )


def required_repeats(coefficient_of_variation: float) -> int | None:
    """Return the number of repeats for an interval within 5 %; None: more than 100."""
    for count in range(2, MOST_REPEATS + 1):
        if half_width(coefficient_of_variation, count) <= WITHIN:
            return count
    return None


def _of_steps(results: Sequence[ScenarioResult]) -> list[RepeatFigure]:
    """Return the figures of each step that every repeat has."""
    figures = []
    for steps in zip(*(result.steps for result in results), strict=False):
        for name, take in _FIGURES.items():
            values = [take(step) for step in steps]
            known = [value for value in values if value is not None]
            if len(known) == len(results):
                figures.append(repeat_figure(name, steps[0].label, known))
    return figures


def _peaks(results: Sequence[ScenarioResult]) -> list[RepeatFigure]:
    peaks = [result.peak.qps for result in results if result.peak is not None]
    known = [qps for qps in peaks if qps is not None]
    return [repeat_figure("peakQps", "", known)] if len(known) == len(results) else []


def _cold_starts(results: Sequence[ScenarioResult]) -> list[RepeatFigure]:
    found = [each.cold_start for each in results if each.cold_start is not None]
    if not found or len(found) < len(results):
        return []
    totals = [float(each.total_nanoseconds) for each in found]
    return [repeat_figure("coldStartNanoseconds", "", totals)]


def _left_out(cut_short: int) -> str:
    match cut_short:
        case 0:
            return ""
        case 1:
            return "One more repeat was cut short and is left out."
        case _:
            return f"{cut_short} more repeats were cut short and are left out."


def _invalid(results: Sequence[ScenarioResult]) -> str:
    invalid = sum(result.verdict.state == "INVALID" for result in results)
    if not invalid or len(results) < 2:
        return ""
    are, their = ("is", "its") if invalid == 1 else ("are", "their")
    return f"{invalid} of {len(results)} repeats {are} INVALID, with {their} figures in the means."


def _advice(figures: Sequence[RepeatFigure], *, by_schedule: bool) -> str:
    """Return advice if the widest interval is not within 5 % of its mean; else nothing.

    The rate of an open loop does not count: its schedule sets it, with a new seed in each repeat.
    """
    left_out = {"achievedQps"} if by_schedule else set()
    compared = [each for each in figures if each.name in _ADVISED_BY.keys() - left_out]
    known = [each for each in compared if each.coefficient_of_variation is not None]
    widest = max(known, key=lambda each: each.coefficient_of_variation or 0, default=None)
    if widest is None or widest.coefficient_of_variation is None:
        return ""
    count = len(widest.values)
    variation = widest.coefficient_of_variation
    half = half_width(variation, count)
    if half <= WITHIN:
        return ""
    where = f" of {widest.step}" if widest.step else ""
    finding = (
        f"The {_ADVISED_BY[widest.name]}{where} varies by {_percent(variation)} from repeat to "
        f"repeat: {count} repeats determine it within {_percent(half)}"
    )
    needed = required_repeats(variation)
    if needed is None:
        return f"{finding}, and 5 % would need more than {MOST_REPEATS}. Look for the cause."
    return f"{finding}, and 5 % needs {needed}. Set validity.repeats to {needed}."


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"
