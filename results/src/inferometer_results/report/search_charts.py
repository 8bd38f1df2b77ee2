"""Charts of a peak search, of a sweep over clients, and of repeats."""

from collections.abc import Sequence

import numpy as np

from inferometer_api.results.peak_words import rate_text
from inferometer_api.results.result import ScenarioResult, nanoseconds_at
from inferometer_api.results.search import Peak, ProbeRecord, RepeatSummary
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_results.quantity import Unit, significant, time_unit
from inferometer_results.report.axis import Floats, category_axis, linear_axis, log_axis, span_axis
from inferometer_results.report.chart import Chart, Line, Mark, ReferenceLine, Whiskers, finite
from inferometer_results.report.latency_marks import latency_marks
from inferometer_results.wording.search import (
    figure_name,
    figure_value,
    figures_shown,
    knee_sentence,
    peak_rate,
    peak_sentence,
)

_WHOLE, _EARLY, _UNDECIDED = 1, 2, 3
_REACH = 3.0


def curve_chart(result: ScenarioResult) -> Chart | None:
    """Return latency over throughput, step by step of a sweep over clients, with its knee."""
    steps = sorted(
        (each for each in result.steps if each.clients is not None and each.latency is not None),
        key=lambda each: each.clients or 0,
    )
    kind = SCENARIOS.get(result.kind)
    if kind is None or not kind.finds_knee or len(steps) < 2:
        return None
    rates = np.array([step.achieved_qps for step in steps])
    drawn = latency_marks(steps, rates)
    if drawn is None:
        return None
    marks = drawn.marks
    if result.knee is not None:
        text = f"knee: {result.knee.clients} client{'s' * (result.knee.clients != 1)}"
        marks.append(ReferenceLine("x", result.knee.qps, text))
    return Chart(
        key="curve",
        title="Latency over throughput",
        caption="Each step has more clients than the previous one. Strokes are 95 % bounds within "
        "the step's window.",
        summary="" if result.knee is None else knee_sentence(result.knee),
        x=linear_axis("Throughput (queries/s)", rates.tolist()),
        y=drawn.axis,
        marks=marks,
        positions=tuple(
            f"{step.clients} clients, {significant(step.achieved_qps)}/s" for step in steps
        ),
    )


def search_chart(result: ScenarioResult) -> Chart | None:
    """Return the percentile latency of each probe over its rate, the bound and the bracket."""
    peak = result.peak
    if peak is None:
        return None
    latency = {step.label: nanoseconds_at(step.latency, peak.percentile) for step in result.steps}
    probes = sorted(
        (probe for probe in peak.probes if latency.get(probe.step)),
        key=lambda each: each.target_qps,
    )
    if not probes:
        return None
    values = [latency[probe.step] or 0 for probe in probes]
    unit = time_unit([*values, peak.latency_bound_nanoseconds])
    marks: list[Mark] = [
        mark
        for name, series in (("ended early", _EARLY), ("cut off", _UNDECIDED), ("whole", _WHOLE))
        if (mark := _dots(probes, values, unit, name, series)) is not None
    ]
    marks += _references(peak, unit)
    shown = [unit.of(value) for value in [*values, peak.latency_bound_nanoseconds]]
    name = f"p{peak.percentile:g}"
    return Chart(
        key="search",
        title="Peak search",
        caption=(
            f"The {name} latency of each probe over its rate; each probe has its own seed. Probes "
            "that ended early were stopped once they were decided; those that probe.maxSeconds cut "
            "off before that are undecided. The peak and its bracket are estimated from the whole "
            "probes, without the pilots, which only chose or checked rates."
        ),
        summary=peak_sentence(peak),
        x=linear_axis("Target rate (queries/s)", [probe.target_qps for probe in probes]),
        y=log_axis(f"Latency ({unit.name}, logarithmic)", shown),
        marks=marks,
        positions=_apart([f"{each.step}: {significant(each.target_qps, 4)}/s" for each in probes]),
    )


def _references(peak: Peak, unit: Unit) -> list[Mark]:
    bound = peak.latency_bound_nanoseconds
    marks: list[Mark] = [ReferenceLine("y", unit.of(bound), f"bound {unit.named(bound)}", "bound")]
    words = ("from", "to") if peak.confidence is not None else ("at least", "not confirmed above")
    ends = zip((peak.low_qps, peak.high_qps), words, strict=True)
    marks += [
        ReferenceLine("x", qps, f"{word} {rate_text(qps)}/s")
        for qps, word in ends
        if qps is not None
    ]
    if peak.qps is not None:
        marks.append(ReferenceLine("x", peak.qps, f"peak {peak_rate(peak)}/s", "bound"))
    return marks


def _dots(
    probes: Sequence[ProbeRecord], values: Sequence[int], unit: Unit, name: str, series: int
) -> Line | None:
    """Return the probes of one kind as points that no line joins."""
    if all(_series_of(probe) != series for probe in probes):
        return None
    x, y, words = [], [], []
    for probe, value in zip(probes, values, strict=True):
        x += [probe.target_qps, np.nan]
        y += [unit.of(value) if _series_of(probe) == series else np.nan, np.nan]
        over = f"{probe.overshoots:,} of {probe.queries:,} exceeded the bound"
        words += [f"{unit.named(value)}, {over}", ""]
    return Line(
        np.array(x[:-1]),
        np.array(y[:-1]),
        series,
        name,
        tuple(words[:-1]),
        dots=True,
        in_legend=True,
    )


def _series_of(probe: ProbeRecord) -> int:
    if probe.decided_by == "Unfinished":
        return _UNDECIDED
    return _WHOLE if probe.ran_to_completion else _EARLY


def _apart(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(text for each in texts for text in (each, ""))[:-1]


def repeats_chart(repeated: RepeatSummary | None) -> Chart | None:
    """Return each figure's values by repeat, as percentages of their mean, with its interval."""
    figures = [] if repeated is None else [each for each in figures_shown(repeated) if each.mean]
    if repeated is None or not figures:
        return None
    marks: list[Mark] = [ReferenceLine("y", 100.0, "mean")]
    x = np.arange(len(figures), dtype=np.float64)
    ends = [
        finite([None if end is None else 100 * end / figure.mean for end, figure in pairs])
        for pairs in (
            [(figure.low, figure) for figure in figures],
            [(figure.high, figure) for figure in figures],
        )
    ]
    marks.append(Whiskers(x, ends[0], ends[1], 2))
    shares = []
    for repeat in range(repeated.repeats):
        values = [figure.values[repeat] for figure in figures]
        share = np.array([100 * v / f.mean for v, f in zip(values, figures, strict=True)])
        shares += share.tolist()
        words = [f"repeat {repeat + 1}: {figure_value(figures[0], values[0])}"]
        for figure, value in zip(figures[1:], values[1:], strict=True):
            words += ["", f"repeat {repeat + 1}: {figure_value(figure, value)}"]
        marks.append(Line(*_unjoined(x, share), 1, values=tuple(words), dots=True))
    known = [float(end) for side in ends for end in side if np.isfinite(end)]
    # The interval of two repeats may be far wider than the values: cut it, do not shrink the chart.
    reach = _REACH * max(1.0, *(abs(share - 100) for share in shares))
    drawn = [*shares, *(min(max(end, 100 - reach), 100 + reach) for end in known)]
    bottom, top = min(drawn) - 1, max(drawn) + 1
    names = [
        ", ".join(part for part in (figure.step, figure_name(figure)) if part) for figure in figures
    ]
    cut = [
        f"{name} ({low:.0f} to {high:.0f} %)"
        for name, low, high in zip(names, *ends, strict=True)
        if low < bottom or high > top
    ]
    caption = "Dots are repeats; strokes are 95 % confidence intervals of the mean (Student's t)."
    if cut:
        caption += f" Beyond the chart's edges: {', '.join(cut)}."
    return Chart(
        key="repeats",
        title="Variation between repeats",
        caption=caption,
        summary=repeated.advice or "Every interval is within 5 % of its mean.",
        x=category_axis("", names),
        y=span_axis("Percentage of the mean", bottom, top),
        marks=marks,
        positions=_apart(names),
    )


def _unjoined(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return points with gaps between, so that no line joins them."""
    apart_x = np.full(2 * len(x) - 1, np.nan)
    apart_y = apart_x.copy()
    apart_x[::2], apart_y[::2] = x, y
    return apart_x, apart_y
