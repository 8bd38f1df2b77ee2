"""The few figures of a node that stand for the others."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure

HEADLINES: Mapping[str, str] = MappingProxyType(
    {
        "memory": "memory bandwidth (triad, all CPUs)",
        "loadLatency": "load from memory",
        "fp32": "matrix product in FP32",
        "disk": "disk read",
        "wakeUpLag": "timer lag (p99)",
        "steal": "steal",
        "gpuMemory": "GPU memory bandwidth (copy)",
        "gpuBf16": "GPU matrix product in BF16",
        "toGpu": "copy to GPU from pinned memory",
    }
)
"""Names, and their words for people."""
_OF_GPUS = frozenset({"gpuMemory", "gpuBf16", "toGpu"})


def headlines(document: NodeCharacteristics) -> dict[str, NodeFigure]:
    """Return the figures by their names in HEADLINES; those that were not measured are absent."""
    products = [each for each in _named(document, "gemm") if _of(each, "precision") == "FP32"]
    lags = [each for each in _named(document, "timer/wakeUpLag") if _of(each, "percentile") == "99"]
    found = {
        "memory": _largest(_named(document, "stream/triad"), lambda each: _number(each, "threads")),
        "loadLatency": _largest(
            _named(document, "latency/load"), lambda each: _number(each, "bytes")
        ),
        "fp32": _largest(products, lambda each: each.value),
        "disk": document.figure("disk/read"),
        "wakeUpLag": next(iter(lags), None),
        "steal": document.figure("steal"),
        "gpuMemory": _smallest(_named(document, "gpu/stream/copy")),
        "gpuBf16": _smallest(
            [each for each in _named(document, "gpu/gemm") if _of(each, "precision") == "BF16"]
        ),
        "toGpu": _smallest(_largest_copies(document, "cudaMemcpyAsync_PinnedToGPU")),
    }
    return {name: each for name, each in found.items() if each is not None}


def shown_headlines(documents: Iterable[NodeCharacteristics]) -> dict[str, str]:
    """Return the words of the headlines to show for measurements: without GPUs, none of theirs."""
    measured = {name for each in documents for name in headlines(each)}
    return {name: words for name, words in HEADLINES.items() if name not in _OF_GPUS - measured}


def machine_kind(document: NodeCharacteristics) -> str:
    """Return what equal machines have in common: model and number of CPUs, and their last cache.

    Virtual machines name different CPUs alike, and their caches differ.
    """
    machine = document.machine
    cpu = f"{machine.cpu_model or machine.architecture}, {machine.cpu_count} CPUs"
    mebibytes = machine.last_level_cache_bytes / (1 << 20)
    return f"{cpu}, {mebibytes:g} MiB cache" if mebibytes else cpu


def gpu_words(document: NodeCharacteristics) -> str:
    """Return the GPUs that were measured, equal ones together: "2 x NVIDIA H200"."""
    counts = Counter(each.name for each in document.machine.gpus)
    return ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))


def _named(document: NodeCharacteristics, name: str) -> list[NodeFigure]:
    return [each for each in document.figures if each.name == name]


def _largest(figures: list[NodeFigure], key: Callable[[NodeFigure], float]) -> NodeFigure | None:
    return max(figures, key=key, default=None)


def _smallest(figures: list[NodeFigure]) -> NodeFigure | None:
    """Return the figure of the slowest GPU: the one that disturbs."""
    return min(figures, key=lambda each: each.value, default=None)


def _largest_copies(document: NodeCharacteristics, name: str) -> list[NodeFigure]:
    copies = _named(document, name)
    most = max((_number(each, "bytes") for each in copies), default=0)
    return [each for each in copies if _number(each, "bytes") == most]


def _of(figure: NodeFigure, name: str) -> str:
    return figure.setting.get(name, "")


def _number(figure: NodeFigure, name: str) -> int:
    text = _of(figure, name)
    return int(text) if text.isdecimal() else 0
