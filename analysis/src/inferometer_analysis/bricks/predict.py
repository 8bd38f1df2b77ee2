"""Predicts the latency of a model from the times of its bricks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot, log

from inferometer_analysis.bricks.interpolate import Family, InterpolatedTime, Interpolation
from inferometer_analysis.layer_work import is_view, tensor_bytes, weight_bytes
from inferometer_api.layers.graph import Layer, LayerGraph
from inferometer_api.layers.split import BrickUse, operators_of, split
from inferometer_api.layers.timings import LayerTimings, Timing

_COLD_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the times of the bricks say about a model."""

    model: str
    sequential_nanoseconds: float
    """All bricks one after the other, as engines run them on a CPU by default."""
    critical_path_nanoseconds: float
    """Bricks that do not need each other at the same time."""
    layers: int
    layers_known: int
    """Of how many layers the time is known."""
    layers_interpolated: int
    """Of how many others it is interpolated."""
    uncertainty: float | None
    """How far interpolated times are expected to put the sequential latency off, as a share; None
    if some bricks have no time, which put it off by an unknown amount."""
    spread: float
    """How far apart the quartiles of its bricks' rounds are, all together by the latency: the noise
    of the times that it is made of."""
    missing: Mapping[str, str]
    """The operators of each brick that has neither, by its key: Conv-Relu."""

    @property
    def is_complete(self) -> bool:
        """Whether every layer has a time."""
        return not self.missing


def predict(
    graph: LayerGraph,
    timings: LayerTimings,
    granularity: int = 1,
    interpolation: Interpolation | None = None,
) -> Prediction:
    """Return the predicted latency of one query.

    The cost of the engine's call is taken from each brick and added once. A brick that lacks a
    time has the one that the interpolation gives; without any it counts as nothing and is named.
    """
    costs = _Costs(graph, timings, interpolation)
    found = [(use, costs.cost(use)) for use in split(graph, granularity)]
    known = [(use, cost) for use, cost in found if cost is not None]
    sequential_ns = timings.run_nanoseconds + sum(cost.nanoseconds for _, cost in known)
    error_ns = _error_ns(cost for _, cost in known)
    return Prediction(
        model=graph.model,
        sequential_nanoseconds=sequential_ns,
        critical_path_nanoseconds=timings.run_nanoseconds + _longest_path(found),
        layers=len(graph.uses),
        layers_known=sum(len(use.brick.layers) for use, cost in known if cost.estimate is None),
        layers_interpolated=sum(len(use.brick.layers) for use, cost in known if cost.estimate),
        uncertainty=error_ns / max(sequential_ns, 1.0) if len(known) == len(found) else None,
        spread=sum(cost.spread_ns for _, cost in known) / max(sequential_ns, 1.0),
        missing={use.key: operators_of(use, graph) for use, cost in found if cost is None},
    )


def bricks_to_time(
    graph: LayerGraph,
    timings: LayerTimings,
    granularity: int,
    interpolation: Interpolation,
    tolerance: float,
) -> frozenset[str]:
    """Return the bricks without a time that a prediction needs to be timed.

    All others are interpolated. Those that make the prediction most uncertain are timed, so many
    that its uncertainty is at most the `tolerance`.
    """
    costs = _Costs(graph, timings, interpolation)
    found = [(use.key, costs.cost(use)) for use in split(graph, granularity)]
    interpolated: dict[str, list[_Cost]] = defaultdict(list)
    for key, cost in found:
        if cost is not None and cost.estimate is not None:
            interpolated[key].append(cost)
    total_ns = timings.run_nanoseconds + sum(cost.nanoseconds for _, cost in found if cost)
    certain_first = sorted(interpolated, key=lambda key: _error_ns(interpolated[key]))
    while certain_first:
        left = (cost for key in certain_first for cost in interpolated[key])
        if _error_ns(left) <= tolerance * total_ns:
            break
        certain_first.pop()
    unknown = {key for key, cost in found if cost is None}
    return frozenset(unknown | (set(interpolated) - set(certain_first)))


def geometric_mean_error(ratios: Iterable[float]) -> float:
    """Return exp(mean |ln ratio|) - 1: how far predictions are off, above and below alike.

    Raises ZeroDivisionError without a ratio.
    """
    logs = [abs(log(ratio)) for ratio in ratios]
    return exp(sum(logs) / len(logs)) - 1


def speed_up(timings: LayerTimings) -> float:
    """Return the time of one run of each model over that of each brick, as the paper defines it."""
    models = sum(each.nanoseconds for each in timings.models.values())
    return models / sum(each.nanoseconds for each in timings.bricks.values())


def engine_speed_up(timings: LayerTimings, runs: int) -> float:
    """Return the time to open and run all models `runs` times over that which the bricks took.

    The bricks count with their sessions and as many runs as they had. What cuts, opens and keeps
    them takes time too, which is not counted.
    """
    models = sum(cost_nanoseconds(each, runs) for each in timings.models.values())
    return models / sum(cost_nanoseconds(each, each.runs) for each in timings.bricks.values())


def cost_nanoseconds(timing: Timing, runs: int) -> float:
    """Return the time to open something and run it so many times."""
    return timing.session_nanoseconds + runs * timing.nanoseconds


@dataclass(frozen=True, slots=True)
class _Cost:
    """What a brick adds to the latency of a model."""

    nanoseconds: float
    estimate: InterpolatedTime | None = None
    """If it is interpolated."""
    spread_ns: float = 0.0
    """How far apart the quartiles of its rounds are, if it was timed."""


def _error_ns(costs: Iterable[_Cost]) -> float:
    """Return how far some costs together are expected to be off.

    Those of one family err alike, and add up; different families err independently.
    """
    families: Mapping[Family, list[float]] = defaultdict(list)
    for each in costs:
        if each.estimate is not None:
            families[each.estimate.family].append(each.nanoseconds * each.estimate.error)
    return hypot(*map(sum, families.values()))


class _Costs:
    """What bricks add to the latency of one model.

    Timed alone, a brick finds its weights in the caches. In a model they come from memory, if the
    weights of all its layers do not fit into the last cache, and from that cache otherwise. So the
    time to move them is added, at the rate that the machine was measured to have, but no more than
    a run with cold caches took longer.

    Timed again and again, a brick also finds its activations in the last cache. In a model they are
    partly there, if they do not fit into the cache of a core: what was just computed is, and the
    memory that is written next often is not. So half of what a run with cold caches takes longer is
    added then. The half is chosen: it predicts 70 models best, at batch 1, 4 and 16.
    """

    def __init__(
        self, graph: LayerGraph, timings: LayerTimings, interpolation: Interpolation | None
    ) -> None:
        self._layers = graph.layers
        self._core_cache_bytes = timings.machine.core_cache_bytes * timings.machine.threads
        self._timings = timings
        self._interpolation = interpolation
        machine = timings.machine
        weights = sum(weight_bytes(graph.layers[use.layer]) for use in graph.uses)
        self._weights_bytes_per_second = (
            machine.memory_bytes_per_second
            if weights > machine.cache_bytes
            else machine.cache_bytes_per_second
        )

    def cost(self, use: BrickUse) -> _Cost | None:
        """Return what a brick adds; None if it has no time."""
        layers = [self._layers[key] for key in use.brick.layers]
        node_ns = float(self._timings.node_nanoseconds)
        if all(map(is_view, layers)):
            return _Cost(node_ns * len(layers))
        moved_ns = sum(map(weight_bytes, layers)) / self._weights_bytes_per_second * 1e9
        found = self._timings.bricks.get(use.key)
        if found is not None:
            own_ns = float(self._timings.own_nanoseconds(found))
            cost_ns = own_ns + self._slower_ns(layers, moved_ns, found.slower_nanoseconds)
            spread_ns = found.upper_quartile_nanoseconds - found.lower_quartile_nanoseconds
            return _Cost(cost_ns, spread_ns=float(spread_ns))
        estimate = self._interpolation.estimate(layers) if self._interpolation else None
        if estimate is None:
            return None
        own_ns = max(estimate.nanoseconds, node_ns)
        slower_ns = self._slower_ns(layers, moved_ns, estimate.slower_nanoseconds)
        return _Cost(own_ns + slower_ns, estimate)

    def _slower_ns(self, layers: Sequence[Layer], moved_ns: float, cold_ns: float) -> float:
        """Return how much longer a brick takes in the model, of what it does with cold caches."""
        leaves_core = 0 < self._core_cache_bytes < max(_read_and_written_bytes(layers))
        half_ns = _COLD_SHARE * cold_ns if leaves_core else 0.0
        return half_ns + min(moved_ns, cold_ns - half_ns)


def _read_and_written_bytes(layers: Sequence[Layer]) -> tuple[int, int]:
    """Return the bytes of all activations that the layers read, and of those that they write."""
    read = (each for layer in layers for each in layer.inputs if each.kind == "Activation")
    written = (each for layer in layers for each in layer.outputs)
    return sum(map(tensor_bytes, read)), sum(map(tensor_bytes, written))


def _longest_path(bricks: Iterable[tuple[BrickUse, _Cost | None]]) -> float:
    """Return the time of the slowest chain of bricks in which each needs the one before."""
    ready: dict[int, float] = {}
    longest = 0.0
    for use, cost in bricks:
        begin = max((ready.get(number, 0.0) for number in use.inputs), default=0.0)
        end = begin + (cost.nanoseconds if cost else 0.0)
        ready |= dict.fromkeys(use.outputs, end)
        longest = max(longest, end)
    return longest
