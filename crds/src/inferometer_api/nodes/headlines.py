"""The few figures of a node that stand for the others."""

from collections.abc import Callable, Mapping
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
    }
)
"""Names, and their words for people."""


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
    }
    return {name: each for name, each in found.items() if each is not None}


def machine_kind(document: NodeCharacteristics) -> str:
    """Return what equal machines have in common: the CPU's model and the number of CPUs."""
    machine = document.machine
    return f"{machine.cpu_model or machine.architecture}, {machine.cpu_count} CPUs"


def _named(document: NodeCharacteristics, name: str) -> list[NodeFigure]:
    return [each for each in document.figures if each.name == name]


def _largest(figures: list[NodeFigure], key: Callable[[NodeFigure], float]) -> NodeFigure | None:
    return max(figures, key=key, default=None)


def _of(figure: NodeFigure, name: str) -> str:
    return figure.setting.get(name, "")


def _number(figure: NodeFigure, name: str) -> int:
    text = _of(figure, name)
    return int(text) if text.isdecimal() else 0
