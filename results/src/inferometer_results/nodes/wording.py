"""Characteristics of a node in words."""

from collections.abc import Iterator, Mapping, Sequence

from inferometer_api.nodes.characteristics import MatrixUnit, NodeCharacteristics, NodeFigure
from inferometer_results.quantity import DASH, byte_unit, duration, percent, significant

HEADINGS = ("figure", "at", "value", "95 % low", "95 % high", "best")
_SHOWN = (
    *("protocol", "threads", "node", "loops", "bytes", "source", "destination"),
    *("engine", "precision", "percentile"),
)
_TERA, _GIGA = 1e12, 1e9
_NO_SHARE = 1e-9
"""A share of zero is measured as this, because means are geometric."""


def figure_cells(figure: NodeFigure) -> tuple[str, ...]:
    """Return a figure as the cells of `HEADINGS`."""
    ends = (DASH if each is None else worded(figure, each) for each in (figure.low, figure.high))
    return (
        figure.name,
        setting_words(figure.setting),
        worded(figure, figure.value),
        *ends,
        worded(figure, figure.best),
    )


def setting_words(setting: Mapping[str, str]) -> str:
    """Return what a figure was measured at, in a few words."""
    parts = []
    for name in _SHOWN:
        value = setting.get(name)
        match name:
            case _ if value is None:
                continue
            case "bytes":
                parts.append(byte_unit([int(value)]).named(int(value)))
            case "threads":
                parts.append(f"{value} thread{'s' * (value != '1')}")
            case "source" | "node":
                parts.append(f"node {value}")
            case "destination":
                parts.append(f"to {value}")
            case "percentile":
                parts.append(f"p{value}")
            case _:
                parts.append(value)
    return " ".join(parts)


def worded(figure: NodeFigure, value: float) -> str:
    """Return a value of a figure with its unit."""
    match figure.unit:
        case "bytes/s":
            return f"{significant(value / _GIGA)} GB/s"
        case "flop/s" if value >= _TERA:
            return f"{significant(value / _TERA)} TFLOP/s"
        case "flop/s":
            return f"{significant(value / _GIGA)} GFLOP/s"
        case "ns":
            return duration(value)
        case _ if value <= _NO_SHARE:
            return "0 %"
        case _:
            return percent(value)


def machine_sentence(document: NodeCharacteristics) -> str:
    """Return what was measured, where and when."""
    machine = document.machine
    nodes = "1 NUMA node" if machine.numa_nodes == 1 else f"{machine.numa_nodes} NUMA nodes"
    memory, cache = machine.memory_bytes, machine.last_level_cache_bytes
    return (
        f"{machine.hostname}: {machine.cpu_model or machine.architecture}, {machine.cpu_count} "
        f"CPUs, {nodes}, {byte_unit([memory]).named(memory)} of memory, "
        f"{byte_unit([cache]).named(cache)} of last-level cache; measured {document.started_at}."
    )


def unit_sentences(units: Sequence[MatrixUnit]) -> Iterator[str]:
    """Yield which matrix units the CPU offers, and which kernels use them."""
    offered = [each.name for each in units if each.offered]
    if not units:
        return
    if not offered:
        yield "The CPU offers none of the matrix and vector units that the engines know."
        return
    yield f"The CPU offers {', '.join(offered)}."
    for unit in units:
        for engine, kernels in unit.used_by.items():
            yield f"{engine} uses {unit.name}: {', '.join(kernels)}."
    if not any(unit.used_by for unit in units):
        yield "No engine names a kernel that uses them."


def unavailable_sentences(document: NodeCharacteristics) -> Iterator[str]:
    """Yield what was not measured, and why."""
    for name, why in document.unavailable.items():
        yield f"Not measured: {name}: {why}."
