"""Characteristics of a node in words."""

from collections.abc import Iterator, Mapping, Sequence

from inferometer_api.nodes.characteristics import MatrixUnit, NodeCharacteristics, NodeFigure
from inferometer_api.wording import counted
from inferometer_results.quantity import DASH, byte_unit, duration, percent, significant

HEADINGS = ("figure", "at", "value", "95 % low", "95 % high", "best")
_SHOWN = (
    *("protocol", "threads", "node", "gpu", "peer", "loops", "bytes", "source", "destination"),
    *("cache", "nodes", "engine", "precision", "percentile"),
)
_BEFORE = {
    "source": "node ",
    "node": "node ",
    "destination": "to ",
    "gpu": "GPU ",
    "peer": "to GPU ",
    "percentile": "p",
}
_TERA, _GIGA = 1e12, 1e9
_NO_SHARE = 1.1e-9
"""Documents of earlier versions have 1e-9, more or less a rounding error, as a share of zero."""


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
            case "nodes":
                parts.append(f"{value} kernel{'s' * (value != '1')}")
            case _:
                parts.append(f"{_BEFORE.get(name, '')}{value}")
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
    nodes = counted(machine.numa_nodes, "NUMA node")
    memory, cache = machine.memory_bytes, machine.last_level_cache_bytes
    return (
        f"{machine.hostname}: {machine.cpu_model or machine.architecture}, {machine.cpu_count} "
        f"CPUs, {nodes}, {byte_unit([memory]).named(memory)} of memory, "
        f"{byte_unit([cache]).named(cache)} of last-level cache; measured {document.started_at}."
    )


def gpu_sentences(document: NodeCharacteristics) -> Iterator[str]:
    """Yield what each GPU is."""
    for gpu in document.machine.gpus:
        memory, cache = gpu.memory_bytes, gpu.l2_cache_bytes
        yield (
            f"GPU {gpu.index}: {gpu.name}, compute capability {gpu.compute_capability}, "
            f"{gpu.multiprocessors} multiprocessors, {byte_unit([memory]).named(memory)} of "
            f"memory, {byte_unit([cache]).named(cache)} of second-level cache."
        )


def unit_sentences(units: Sequence[MatrixUnit]) -> Iterator[str]:
    """Yield which matrix units CPU and GPUs offer, and which kernels use them."""
    of_cpu = [each for each in units if each.gpu is None]
    if of_cpu:
        yield from _sentences_of("The CPU", of_cpu)
    for gpu in sorted({each.gpu for each in units if each.gpu is not None}):
        yield from _sentences_of(f"GPU {gpu}", [each for each in units if each.gpu == gpu])


def _sentences_of(owner: str, units: Sequence[MatrixUnit]) -> Iterator[str]:
    offered = [each.name for each in units if each.offered]
    if not offered:
        yield f"{owner} offers none of the matrix and vector units that the engines know."
        return
    yield f"{owner} offers {', '.join(offered)}."
    for unit in units:
        for engine, kernels in unit.used_by.items():
            yield f"{engine} uses {unit.name}: {', '.join(kernels)}."
    if not any(unit.used_by for unit in units):
        yield "No engine that ran names a kernel that uses them."


def unavailable_sentences(document: NodeCharacteristics) -> Iterator[str]:
    """Yield what was not measured, and why."""
    for name, why in document.unavailable.items():
        yield f"Not measured: {name}: {why}."
