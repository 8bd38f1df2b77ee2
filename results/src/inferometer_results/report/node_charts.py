"""Charts of a node over time: CPU, clock, temperature, and what held the servers back."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from inferometer_api.results.result import ScenarioResult
from inferometer_results.quantity import byte_unit
from inferometer_results.report.axis import ChartAxis, linear_axis, span_axis
from inferometer_results.report.chart import Chart, Line
from inferometer_results.report.timeline import Timeline, Words

_LEAST_STOLEN = 0.02
"""Stolen CPU, in cores, is drawn from this value on."""
_LEAST_WAITING = 0.1
"""The minimum length of the axis of waiting, in seconds per second, so that little looks little."""
_LEAST_DEGREES = 20.0
"""The minimum length of the axis of temperature, so that small changes look small."""


def node_cpu_lines(timeline: Timeline) -> list[Line]:
    """Return the busy CPU of a node and, if there is any, the stolen CPU."""
    busy = timeline.of_node(lambda sample: sample.cpu_cores)
    stolen = timeline.of_node(lambda sample: sample.steal_cores)
    found = [("node", busy, 0)] if np.isfinite(busy).any() else []
    if (np.nan_to_num(stolen) >= _LEAST_STOLEN).any():
        found.append(("stolen", stolen, 4))
    return [timeline.line(name, values, n, "cores") for name, values, n in found]


def node_cpu_chart(timeline: Timeline, result: ScenarioResult, node: str) -> Chart | None:
    """Return the CPU that the servers on a node used, and that of the whole node."""
    servers = timeline.of_node(lambda sample: sample.server_cpu_cores)
    lines = node_cpu_lines(timeline)
    if np.isfinite(servers).any():
        lines.insert(0, timeline.line("servers", servers, 1, "cores"))
    caption = f"Cores in use by the servers and by everything on the node{cpus(result, node)}."
    return timeline.lines_chart(Words("node-cpu", "CPU", caption), "CPU (cores)", lines)


def cpus(result: ScenarioResult, node: str) -> str:
    """Return how many CPUs a node has, as the end of a sentence; empty if unknown."""
    found = (each for step in result.steps for each in step.telemetry if each.node == node)
    count = next((each.cpu_count for each in found if each.cpu_count), None)
    return f", which has {count} CPUs" if count else ""


def waiting_chart(timeline: Timeline, result: ScenarioResult, node: str) -> Chart | None:
    """Return how long servers waited for a CPU; None if they never did."""
    del result, node
    throttled = timeline.of_node(lambda sample: sample.server_throttled_cores)
    pressure = timeline.of_node(lambda sample: sample.server_cpu_pressure)
    found = [("throttled", throttled, 2), ("pressure", pressure, 5)]
    lines = [
        timeline.line(name, values, series, "s/s")
        for name, values, series in found
        if np.nan_to_num(values).any()
    ]
    caption = (
        "Seconds per second. Throttled: threads of the servers waited because their CPU limit was "
        "used up. Pressure: some thread waited for a free CPU."
    )
    words = Words("waiting", "Servers waiting for CPU", caption)
    if not lines:
        return None
    highest = np.concatenate([[_LEAST_WAITING], *(line.y for line in lines)])
    return timeline.chart(words, linear_axis("Waiting (s/s)", highest.tolist()), lines)


def never_held_back(result: ScenarioResult) -> Iterator[str]:
    """Yield what never held the servers back although it was watched: sentences, no period."""
    samples = [s for step in result.steps for each in step.telemetry for s in each.samples]
    throttled = [s.server_throttled_cores for s in samples if s.server_throttled_cores is not None]
    if throttled and not any(throttled):
        yield "No server was ever throttled by its CPU limit"
    held = any(reasons for s in samples for reasons in s.gpu_throttle_reasons.values())
    if not held and any(s.gpu_clock_hertz for s in samples):
        yield "No GPU ever reported that its clock was held down"


def frequency_chart(timeline: Timeline, result: ScenarioResult, node: str) -> Chart | None:
    """Return the clock of a node's CPUs."""
    governors = [
        each.governor
        for step in result.steps
        for each in step.telemetry
        if each.node == node and each.governor
    ]
    values = timeline.of_node(lambda sample: sample.cpu_frequency_hertz) / 1e9
    lines = [timeline.line("clock", values, 1, "GHz")] if np.isfinite(values).any() else []
    under = f" Governor: {governors[0]}." if governors else ""
    words = Words("frequency", "CPU clock", f"Mean over the node's CPUs.{under}")
    return timeline.lines_chart(words, "Clock (GHz)", lines)


def temperature_chart(timeline: Timeline, result: ScenarioResult, node: str) -> Chart | None:
    """Return how hot a node's CPUs were."""
    del result, node
    values = timeline.of_node(lambda sample: sample.temperature_celsius)
    if not np.isfinite(values).any():
        return None
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    room = max(_LEAST_DEGREES - (high - low), 2.0) / 2
    axis = span_axis("Temperature (°C)", low - room, high + room)
    words = Words("temperature", "CPU temperature", "The hottest of the CPU's sensors.")
    return timeline.chart(words, axis, [timeline.line("CPU", values, 2, "°C")])


def node_memory_chart(timeline: Timeline, result: ScenarioResult, node: str) -> Chart | None:
    """Return the memory of the servers on a node."""
    del result, node
    values = timeline.of_node(lambda sample: sample.server_memory_bytes)
    if not np.isfinite(values).any():
        return None
    unit = byte_unit(values[np.isfinite(values)].tolist())
    lines = [timeline.line("servers", values / unit.size, 1, unit.name)]
    words = Words("node-memory", "Memory", "Working set of the servers on the node.")
    return timeline.lines_chart(words, f"Memory ({unit.name})", lines)


def same_scale(charts: list[Chart]) -> list[Chart]:
    """Return the charts of one figure on several nodes with a common y axis."""
    axes = [chart.y for chart in charts]
    if len({axis.label for axis in axes}) != 1 or not all(axis.gridded for axis in axes):
        return charts
    low, high = min(axis.low for axis in axes), max(axis.high for axis in axes)
    label = axes[0].label
    shared: ChartAxis = linear_axis(label, [high]) if low == 0 else span_axis(label, low, high)
    return [replace(chart, y=shared) for chart in charts]
