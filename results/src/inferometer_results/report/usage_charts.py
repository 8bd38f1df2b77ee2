"""Charts of the CPU and memory of server and load generator over time."""

import numpy as np

from inferometer_api.results.result import ScenarioResult
from inferometer_results.quantity import byte_unit
from inferometer_results.report.axis import Floats
from inferometer_results.report.chart import Chart, Line
from inferometer_results.report.node_charts import cpus, node_cpu_lines
from inferometer_results.report.timeline import Timeline, Words, of_node, of_usage


def cpu_chart(result: ScenarioResult, node: str | None = None) -> Chart | None:
    """Return the CPU that server and load generator used, in cores.

    If `node` is given, the only one with servers, add everything that was busy there.
    """
    timeline = of_usage(result)
    found = {
        "server": timeline.of_usage(lambda usage: usage.server_cpu_cores),
        "client": timeline.of_usage(lambda usage: usage.client_cpu_cores),
    }
    lines = _lines(timeline, found, "cores")
    caption = "Cores in use: CPU seconds per second since the previous sample."
    node_lines = node_cpu_lines(of_node(result, node)) if node is not None else []
    if node is not None and node_lines:
        caption += f" Node: everything on {node or 'the node'}{cpus(result, node)}."
    words = Words("cpu", "CPU", caption)
    return timeline.lines_chart(words, "CPU (cores)", [*lines, *node_lines])


def memory_chart(result: ScenarioResult) -> Chart | None:
    """Return the resident memory of server and load generator."""
    timeline = of_usage(result)
    server = timeline.of_usage(lambda usage: usage.server_memory_bytes)
    client = timeline.of_usage(lambda usage: usage.client_memory_bytes)
    both = np.concatenate([server, client])
    unit = byte_unit(both[np.isfinite(both)].tolist())
    found = {"server": server / unit.size, "client": client / unit.size}
    caption = "Resident memory of the server's processes and of the load generator."
    words = Words("memory", "Memory", caption)
    lines = _lines(timeline, found, unit.name)
    return timeline.lines_chart(words, f"Memory ({unit.name})", lines)


def _lines(timeline: Timeline, found: dict[str, Floats], unit: str) -> list[Line]:
    return [
        timeline.line(name, values, series, unit)
        for series, (name, values) in enumerate(found.items(), 1)
        if np.isfinite(values).any()
    ]
