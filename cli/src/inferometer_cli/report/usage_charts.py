"""How much CPU and memory did server and load generator use over time?"""

from collections.abc import Callable

import numpy as np

from inferometer_api.result import ScenarioResult
from inferometer_cli.quantity import byte_unit, significant
from inferometer_cli.report.axis import Floats, linear_axis
from inferometer_cli.report.chart import Chart, Line
from inferometer_cli.report.timeline import Timeline, Words, of_usage, words_of


def cpu_chart(result: ScenarioResult) -> Chart | None:
    """Return the CPU that server and load generator used, in cores."""
    timeline = of_usage(result)
    lines = {
        "server": timeline.of_usage(lambda usage: usage.server_cpu_cores),
        "client": timeline.of_usage(lambda usage: usage.client_cpu_cores),
    }
    caption = "Cores in use: CPU seconds per second, since the sample before."
    words = Words("cpu", "CPU", caption)
    return _chart(
        timeline, words, "CPU (cores)", lines, lambda value: f"{significant(value)} cores"
    )


def memory_chart(result: ScenarioResult) -> Chart | None:
    """Return the resident memory of server and load generator."""
    timeline = of_usage(result)
    server = timeline.of_usage(lambda usage: usage.server_memory_bytes)
    client = timeline.of_usage(lambda usage: usage.client_memory_bytes)
    both = np.concatenate([server, client])
    unit = byte_unit(both[np.isfinite(both)].tolist())
    lines = {"server": server / unit.size, "client": client / unit.size}
    caption = "Resident memory of the server's processes and of the load generator."
    words = Words("memory", "Memory", caption)
    label = f"Memory ({unit.name})"
    return _chart(timeline, words, label, lines, lambda value: f"{significant(value)} {unit.name}")


def _chart(
    timeline: Timeline,
    words: Words,
    label: str,
    lines: dict[str, Floats],
    word: Callable[[float], str],
) -> Chart | None:
    marks = [
        Line(timeline.x, values, series, name, words_of(name, values, word), dense=timeline.dense)
        for series, (name, values) in enumerate(lines.items(), 1)
        if np.isfinite(values).any()
    ]
    if not marks:
        return None
    highest = np.concatenate([line.y for line in marks])
    return timeline.chart(words, linear_axis(label, highest), marks)
