"""Charts of a node's GPUs over time: utilisation, memory, clocks and throttling."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from inferometer_api.results.result import NodeSample, ScenarioResult
from inferometer_results.quantity import byte_unit
from inferometer_results.report.axis import ChartAxis, Floats
from inferometer_results.report.chart import Area, Chart, Line, Mark, Note
from inferometer_results.report.palette import SERIES_COUNT
from inferometer_results.report.timeline import Moment, Timeline, Words

_REASONS = {
    "SwPowerCap": "power cap",
    "HwSlowdown": "slowed (hardware)",
    "HwThermalSlowdown": "heat (hardware)",
    "HwPowerBrakeSlowdown": "power brake",
    "SwThermalSlowdown": "heat (driver)",
    "SyncBoost": "sync boost",
    "ApplicationsClocksSetting": "application clocks",
    "DisplayClockSetting": "display clocks",
}
_LANE = 0.5
"""The height of a bar as a share of its lane; the label has the rest."""
_ByGpu = Callable[[NodeSample], Mapping[str, float]]


def utilization_chart(timeline: Timeline, result: ScenarioResult, node: str) -> Chart | None:
    """Return how busy the GPUs were."""
    del result, node
    lines = _lines(timeline, lambda sample: sample.gpu_utilization, 100.0, "%")
    words = Words("gpu", "GPU utilisation", "Share of the time in which a kernel ran.")
    return timeline.lines_chart(words, "Utilisation (%)", lines)


def gpu_memory_chart(timeline: Timeline, result: ScenarioResult, node: str) -> Chart | None:
    """Return the memory in use on the GPUs."""
    del result, node
    held = [
        float(size)
        for moment in timeline.moments
        for sample in moment.node
        for size in sample.gpu_memory_bytes.values()
    ]
    unit = byte_unit(held)
    lines = _lines(timeline, lambda sample: sample.gpu_memory_bytes, 1 / unit.size, unit.name)
    words = Words("gpu-memory", "GPU memory", "Memory in use on the GPU by all processes.")
    return timeline.lines_chart(words, f"Memory ({unit.name})", lines)


def gpu_clock_chart(timeline: Timeline, result: ScenarioResult, node: str) -> Chart | None:
    """Return the clocks of the GPUs."""
    del result, node
    lines = _lines(timeline, lambda sample: sample.gpu_clock_hertz, 1e-6, "MHz")
    words = Words("gpu-clock", "GPU clock", "Clock of the streaming multiprocessors.")
    return timeline.lines_chart(words, "Clock (MHz)", lines)


def held_down_chart(timeline: Timeline, result: ScenarioResult, node: str) -> Chart | None:
    """Return when the GPUs' clocks were held down: a lane for each reason, if there is any."""
    del result, node
    reasons = sorted({reason for moment in timeline.moments for reason in _held(moment)})
    if not reasons:
        return None
    gpus = {name for moment in timeline.moments for name in _seen(moment)}
    marks: list[Mark] = []
    for lane, reason in enumerate(reversed(reasons)):
        held = [_held(moment).get(reason, set()) for moment in timeline.moments]
        name = _REASONS.get(reason, reason)
        shares = np.array([len(each) / max(1, len(gpus)) for each in held])
        words = tuple(
            f"{name}: {', '.join(sorted(each, key=_order))}" * bool(each) for each in held
        )
        marks += [
            Area(_edges(timeline), _LANE * shares, 2, float(lane), words),
            Note(lane + _LANE + 0.1, name),
        ]
    caption = "When the GPU's clock was held down, by reason."
    if len(gpus) > 1:
        caption += " Height is the share of the GPUs."
    axis = ChartAxis("Reason", 0.0, float(len(reasons)), (), gridded=False)
    chart = timeline.chart(Words("held", "GPU clocks held down", caption), axis, marks)
    listed = ", ".join(_REASONS.get(reason, reason) for reason in reasons)
    return replace(chart, summary=f"Held down at times by {listed}.")


def _held(moment: Moment) -> dict[str, set[str]]:
    """Return which GPUs each reason held down, at any of the moment's samples."""
    found: dict[str, set[str]] = {}
    for sample in moment.node:
        for gpu, reasons in sample.gpu_throttle_reasons.items():
            for reason in reasons:
                found.setdefault(reason, set()).add(gpu)
    return found


def _seen(moment: Moment) -> set[str]:
    return {
        name
        for sample in moment.node
        for by_gpu in (sample.gpu_utilization, sample.gpu_clock_hertz, sample.gpu_throttle_reasons)
        for name in by_gpu
    }


def _edges(timeline: Timeline) -> Floats:
    """Return where each moment begins: half-way from the previous one."""
    x = timeline.x
    between = (x[:-1] + x[1:]) / 2
    return np.concatenate([x[:1], between, x[-1:]])


def _lines(timeline: Timeline, of: _ByGpu, factor: float, unit: str) -> list[Line]:
    """Return a line for each GPU; where they are many, all in grey with their mean in colour."""
    gpus = {name for moment in timeline.moments for sample in moment.node for name in of(sample)}
    many = len(gpus) > SERIES_COUNT
    found: dict[str, Floats] = {
        name: timeline.of_node(_of_gpu(of, name)) * factor for name in sorted(gpus, key=_order)
    }
    lines = [
        timeline.line(name, values, 0 if many else series, unit)
        for series, (name, values) in enumerate(found.items(), 1)
    ]
    if many:
        lines = [replace(line, name="", dense=True) for line in lines]
        stacked = np.stack(list(found.values()))
        known = np.isfinite(stacked).sum(axis=0)
        mean = np.where(known > 0, np.nansum(stacked, axis=0) / np.maximum(known, 1), np.nan)
        lines.append(timeline.line("mean", mean, 1, unit))
    return lines


def _of_gpu(of: _ByGpu, name: str) -> Callable[[NodeSample], float | None]:
    return lambda sample: of(sample).get(name)


def _order(name: str) -> tuple[str, int]:
    """Order gpu-10 after gpu-2."""
    found = re.fullmatch(r"(.*?)(\d+)", name)
    return (found[1], int(found[2])) if found else (name, 0)
