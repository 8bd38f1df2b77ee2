"""Analyses A2 to A7 of XSP: layers, their latency, their memory and their types."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from inferometer_analysis.samples import trimmed_mean


@dataclass(frozen=True, slots=True)
class ProfiledLayer:
    """One layer of a model as its engine ran it."""

    index: int
    name: str
    operator: str
    shape: tuple[int, ...] = ()
    """Of its first output; empty if the engine does not report it."""
    durations_ns: tuple[int, ...] = ()
    """One for each profiled run."""
    output_bytes: int | None = None
    kernel: str = ""
    """The engine's name of its implementation."""
    provider: str = ""
    datatype: str = ""
    outer: int | None = None
    """The index of the layer that it runs within: of a loop or a branch."""

    @property
    def latency_ns(self) -> float:
        """The trimmed mean of its runs."""
        return trimmed_mean(self.durations_ns) if self.durations_ns else 0.0


@dataclass(frozen=True, slots=True)
class LayerRow:
    """A2: one row of the layer information table."""

    layer: ProfiledLayer
    latency_ns: float
    share: float
    """Of the latency of all layers."""


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A5 to A7: the layers of one type together."""

    operator: str
    count: int
    count_share: float
    latency_ns: float
    latency_share: float
    output_bytes: int
    bytes_share: float
    kernels: tuple[str, ...] = field(default=())


def outermost(layers: Iterable[ProfiledLayer]) -> list[ProfiledLayer]:
    """Return the layers that run within no other one: their latencies can be summed."""
    return [layer for layer in layers if layer.outer is None]


def layer_information(layers: Sequence[ProfiledLayer]) -> list[LayerRow]:
    """Return A2: each layer with its latency and its share, the most time-consuming first."""
    total = sum(layer.latency_ns for layer in outermost(layers))
    rows = [LayerRow(layer, layer.latency_ns, _share(layer.latency_ns, total)) for layer in layers]
    return sorted(rows, key=lambda row: -row.latency_ns)


def layer_latency(layers: Sequence[ProfiledLayer]) -> list[tuple[int, float]]:
    """Return A3: the latency in ns of each layer by index, in the order of execution."""
    return [(layer.index, layer.latency_ns) for layer in sorted(layers, key=_by_index)]


def layer_memory(layers: Sequence[ProfiledLayer]) -> list[tuple[int, int]]:
    """Return A4: the bytes of each layer's outputs by index, if its engine reports them."""
    return [
        (layer.index, layer.output_bytes)
        for layer in sorted(layers, key=_by_index)
        if layer.output_bytes is not None
    ]


def layer_types(layers: Sequence[ProfiledLayer]) -> list[TypeRow]:
    """Return A5, A6 and A7: layers, latency and memory by type, the most time-consuming first."""
    summed = outermost(layers)
    latency = sum(layer.latency_ns for layer in summed)
    memory = sum(layer.output_bytes or 0 for layer in summed)
    by_type: dict[str, list[ProfiledLayer]] = {}
    for layer in summed:
        by_type.setdefault(layer.operator, []).append(layer)
    rows = [
        TypeRow(
            operator=operator,
            count=len(group),
            count_share=_share(len(group), len(summed)),
            latency_ns=sum(layer.latency_ns for layer in group),
            latency_share=_share(sum(layer.latency_ns for layer in group), latency),
            output_bytes=sum(layer.output_bytes or 0 for layer in group),
            bytes_share=_share(sum(layer.output_bytes or 0 for layer in group), memory),
            kernels=tuple(sorted({layer.kernel for layer in group if layer.kernel})),
        )
        for operator, group in by_type.items()
    ]
    return sorted(rows, key=lambda row: -row.latency_ns)


def thirds(
    layers: Sequence[ProfiledLayer], value: Callable[[ProfiledLayer], float]
) -> tuple[float, float, float]:
    """Return the sums of a figure over the beginning, middle and end of the layers by index."""
    ordered = sorted(outermost(layers), key=_by_index)
    first, second = -(-len(ordered) // 3), -(-2 * len(ordered) // 3)
    begin, middle, end = ordered[:first], ordered[first:second], ordered[second:]
    return sum(map(value, begin)), sum(map(value, middle)), sum(map(value, end))


def _by_index(layer: ProfiledLayer) -> int:
    return layer.index


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
