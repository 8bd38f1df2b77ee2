"""Charts that compare the steps of a scenario: throughput, latency, energy."""

import numpy as np

from inferometer_api.results.result import ScenarioResult
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_results.quantity import energy_unit, significant
from inferometer_results.report.axis import ChartAxis, category_axis, linear_axis
from inferometer_results.report.chart import Bars, Chart, Line, Mark, finite
from inferometer_results.report.latency_marks import latency_marks

_MOST_WRITTEN = 10


def throughput_chart(result: ScenarioResult) -> Chart | None:
    """Return inferences per second of each step; None for a single step."""
    if len(result.steps) < 2:
        return None
    rates = [step.achieved_samples_per_second for step in result.steps]
    best = int(np.argmax(rates))
    bars = Bars(
        heights=np.array(rates),
        series=1,
        values=tuple(significant(rate) for rate in rates),
        written=len(rates) <= _MOST_WRITTEN,
    )
    return Chart(
        key="throughput",
        title=f"Throughput by {_setting(result)}",
        caption="Inferences answered per second of the window.",
        summary=f"Highest: {significant(rates[best])} samples/s at {result.steps[best].label}.",
        x=_categories(result),
        y=linear_axis("Throughput (samples/s)", rates),
        marks=[bars],
    )


def step_latency_chart(result: ScenarioResult) -> Chart | None:
    """Return median and 99th percentile of the latency of each step; None for a single step."""
    if len(result.steps) < 2:
        return None
    drawn = latency_marks(result.steps, np.arange(len(result.steps), dtype=np.float64))
    if drawn is None:
        return None
    unit, known = drawn.unit, drawn.known
    return Chart(
        key="step-latency",
        title=f"Latency by {_setting(result)}",
        caption="Median and 99th percentile of whole queries. Strokes are 95 % bounds within "
        "the step's window.",
        summary=f"From {unit.named(min(known))} to {unit.named(max(known))}.",
        x=_categories(result),
        y=drawn.axis,
        marks=drawn.marks,
        positions=tuple(step.label for step in result.steps),
    )


def step_energy_chart(result: ScenarioResult) -> Chart | None:
    """Return gross and net energy per inference of each step; None if fewer than two have it."""
    gross = [step.energy.microjoules_per_inference for step in result.steps]
    net = [step.energy.net_microjoules_per_inference for step in result.steps]
    known = [value for value in gross if value is not None]
    if len(known) < 2:
        return None
    unit = energy_unit(known)
    x = np.arange(len(result.steps), dtype=np.float64)
    marks: list[Mark] = []
    for name, series, values in (("gross", 1, gross), ("net", 3, net)):
        words = tuple(f"{name} {unit.named(value)}" for value in values)
        if any(value is not None for value in values):
            y = finite(values) / unit.size
            marks.append(Line(x, y, series, name, words, dots=True))
    covered = ", ".join(sorted({s.energy.attribution for s in result.steps}))
    return Chart(
        key="step-energy",
        title=f"Energy per inference by {_setting(result)}",
        caption=f"Net is without idle power. Attribution: {covered}.",
        summary=f"From {unit.named(min(known))} to {unit.named(max(known))}.",
        x=_categories(result),
        y=linear_axis(f"Energy per inference ({unit.name})", [unit.of(value) for value in known]),
        marks=marks,
        positions=tuple(step.label for step in result.steps),
    )


def _setting(result: ScenarioResult) -> str:
    kind = SCENARIOS.get(result.kind)
    return "step" if kind is None or kind.varies is None else kind.varies


def _categories(result: ScenarioResult) -> ChartAxis:
    if _setting(result) == "batch size":
        names = [str(step.batch_size) for step in result.steps]
        return category_axis("Batch size (samples per query)", names)
    return category_axis("Step", [step.label for step in result.steps])
