"""Lower bounds of a model's latency from timings of its layers (Benanza), and a roofline."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from inferometer_analysis.layer_work import GraphLayer
from inferometer_analysis.samples import Interval, spread_interval
from inferometer_api.layers.timings import KernelTiming


@dataclass(frozen=True, slots=True)
class PathTimes:
    """The layers in a row, and those on the most expensive path."""

    sequential_ns: float
    critical_path_ns: float

    @property
    def branches_ns(self) -> float:
        """What lies next to the critical path."""
        return self.sequential_ns - self.critical_path_ns


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
    """How many layers each engine is the fastest for, of those with a kernel."""
    ends: tuple[PathTimes, PathTimes] | None = None
    """The bounds with all timings at the low, and at the high ends of their 95 % intervals: both
    bounds, and what lies between them, grow with each timing. None if a timing has no spread."""
    without_kernel: tuple[GraphLayer, ...] = ()
    """Layers with a timing that shows no kernel: the bounds take them for free."""

    @property
    def coverage(self) -> float:
        """The share of layers with a timing."""
        return self.covered / self.layers if self.layers else 1.0

    @property
    def sequential(self) -> Interval:
        """The sequential bound, with the ends that the spreads of the timings give it."""
        if self.ends is None:
            return Interval(self.sequential_ns)
        low, high = self.ends
        return Interval(self.sequential_ns, low.sequential_ns, high.sequential_ns)

    @property
    def branches(self) -> Interval:
        """What the sequential bound has more than the critical path, with its ends."""
        branches_ns = self.sequential_ns - self.critical_path_ns
        if self.ends is None:
            return Interval(branches_ns)
        low, high = self.ends
        return Interval(branches_ns, low.branches_ns, high.branches_ns)


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


def shows_kernel(timing: KernelTiming) -> bool:
    """Return whether a timing is that of a kernel: one of 0 ns is not.

    OpenVINO reports 0 for a layer that it runs in place, such as a Concat of one batch whose inputs
    are written where its output lies, and for one that takes less than 1 us in the mean. The status
    of its profile is no help: it is NOT_RUN in both cases. Either way 0 is assumed to be no more
    than what the layer costs within a model, so that a bound may take it.
    """
    return timing.nanoseconds > 0


def lower_bound(layers: Sequence[GraphLayer], best: Mapping[str, KernelTiming]) -> Bound:
    """Return the bounds of a graph whose layers are in topological order."""
    timed = [layer for layer in layers if not layer.is_view]
    covered = [layer for layer in timed if layer.key in best]
    found = {layer.key: timing_interval(best[layer.key]) for layer in covered}
    lows = {key: each.low for key, each in found.items() if each.low is not None}
    highs = {key: each.high for key, each in found.items() if each.high is not None}
    has_ends = len(lows) == len(highs) == len(found)
    times = _path_times(layers, {key: each.value for key, each in found.items()})
    kernels = [best[layer.key] for layer in covered if shows_kernel(best[layer.key])]
    return Bound(
        sequential_ns=times.sequential_ns,
        critical_path_ns=times.critical_path_ns,
        covered=len(covered),
        layers=len(timed),
        missing=tuple(layer for layer in timed if layer.key not in best),
        by_engine=dict(Counter(each.engine for each in kernels).most_common()),
        ends=(_path_times(layers, lows), _path_times(layers, highs)) if has_ends else None,
        without_kernel=tuple(each for each in covered if not shows_kernel(best[each.key])),
    )


def timing_interval(timing: KernelTiming) -> Interval:
    """Return a timing with the interval that its spread gives it."""
    return spread_interval(timing.nanoseconds, timing.spread_nanoseconds)


def _path_times(layers: Sequence[GraphLayer], nanoseconds: Mapping[str, float]) -> PathTimes:
    def cost(layer: GraphLayer) -> float:
        return 0.0 if layer.is_view else nanoseconds.get(layer.key, 0.0)

    return PathTimes(sum(map(cost, layers)), critical_path(layers, cost))


def critical_path(layers: Sequence[GraphLayer], cost: Callable[[GraphLayer], float]) -> float:
    """Return the cost of the most expensive path through layers in topological order."""
    ends: dict[int, float] = {}
    for layer in layers:
        before = max((ends.get(each, 0.0) for each in layer.predecessors), default=0.0)
        ends[layer.index] = before + cost(layer)
    return max(ends.values(), default=0.0)


def has_roofline(layer: GraphLayer) -> bool:
    """Return whether the work of a layer is known.

    It is not that of control flow, whose inner graph runs as often as values say, nor that of
    tensors without a size, such as sequences and strings.
    """
    return not layer.why_not


def roofline_bound(
    layers: Iterable[GraphLayer], flops_per_second: float, bytes_per_second: float
) -> float:
    """Return the ns that arithmetic and data movement of the layers need at the machine's peaks.

    A multiply-accumulate is two operations. Layers without a roofline count as free. Raises
    ValueError for peaks that are not positive.
    """
    if flops_per_second <= 0 or bytes_per_second <= 0:
        raise ValueError("a roofline needs peaks above 0")
    return sum(
        max(2e9 * layer.macs / flops_per_second, 1e9 * layer.moved_bytes / bytes_per_second)
        for layer in layers
        if not layer.is_view and has_roofline(layer)
    )


def is_wrong(bound_ns: float, measured: Interval) -> bool:
    """Return whether a bound lies above what was measured, beyond its interval.

    Then a layer takes longer alone than within the model, and the bound bounds nothing.
    """
    high = measured.value if measured.high is None else measured.high
    return bound_ns > high
