"""Lower bounds of a model's latency from timings of its layers (Benanza), and a roofline."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from inferometer_analysis.layer_work import GraphLayer
from inferometer_analysis.samples import Interval
from inferometer_api.layers.timings import KernelTiming


@dataclass(frozen=True, slots=True)
class Bound:
    """The best latency that the fastest known kernel of each layer allows."""

    sequential_ns: float
    """The sum over all layers, which run one after another."""
    critical_path_ns: float
    """The longest path: what unlimited parallelism would leave."""
    covered: int
    layers: int
    """Layers that take time: views are not counted."""
    missing: tuple[GraphLayer, ...]
    """Layers without a timing, which the bounds take for free."""
    by_engine: Mapping[str, int]
    """How many layers each engine is the fastest for."""

    @property
    def coverage(self) -> float:
        """The share of layers with a timing."""
        return self.covered / self.layers if self.layers else 1.0


_ALLOWED = {"TF32": ("", "FP32", "TF32")}
"""Precisions that a bound may mix: where TF32 is allowed, a layer may be computed in FP32 too."""


def best_timings(timings: Iterable[KernelTiming], precision: str) -> dict[str, KernelTiming]:
    """Return the fastest timing of each key among those of one effective precision.

    A timing without a precision, of a layer that multiplies no matrices, joins every bound. Where
    TF32 is allowed, timings in FP32 count too.
    """
    best: dict[str, KernelTiming] = {}
    for each in timings:
        if each.precision not in _ALLOWED.get(precision, ("", precision)):
            continue
        if each.key not in best or each.nanoseconds < best[each.key].nanoseconds:
            best[each.key] = each
    return best


def lower_bound(layers: Sequence[GraphLayer], best: Mapping[str, KernelTiming]) -> Bound:
    """Return the bounds of a graph whose layers are in topological order."""
    timed = [layer for layer in layers if not layer.is_view]
    covered = [layer for layer in timed if layer.key in best]
    return Bound(
        sequential_ns=sum(best[layer.key].nanoseconds for layer in covered),
        critical_path_ns=critical_path(
            layers, lambda layer: best[layer.key].nanoseconds if layer.key in best else 0.0
        ),
        covered=len(covered),
        layers=len(timed),
        missing=tuple(layer for layer in timed if layer.key not in best),
        by_engine=dict(Counter(best[layer.key].engine for layer in covered).most_common()),
    )


def critical_path(layers: Sequence[GraphLayer], cost: Callable[[GraphLayer], float]) -> float:
    """Return the cost of the most expensive path through layers in topological order."""
    ends: dict[int, float] = {}
    for layer in layers:
        before = max((ends.get(each, 0.0) for each in layer.predecessors), default=0.0)
        ends[layer.index] = before + cost(layer)
    return max(ends.values(), default=0.0)


def roofline_bound(
    layers: Iterable[GraphLayer], flops_per_second: float, bytes_per_second: float
) -> float:
    """Return the ns that arithmetic and data movement of the layers need at the machine's peaks.

    A multiply-accumulate is two operations. Raises ValueError for peaks that are not positive.
    """
    if flops_per_second <= 0 or bytes_per_second <= 0:
        raise ValueError("a roofline needs peaks above 0")
    return sum(
        max(2e9 * layer.macs / flops_per_second, 1e9 * layer.moved_bytes / bytes_per_second)
        for layer in layers
        if not layer.is_view
    )


def is_wrong(bound_ns: float, measured: Interval) -> bool:
    """Return whether a bound lies above what was measured, beyond its interval.

    Then a layer takes longer alone than within the model, and the bound bounds nothing.
    """
    high = measured.value if measured.high is None else measured.high
    return bound_ns > high
