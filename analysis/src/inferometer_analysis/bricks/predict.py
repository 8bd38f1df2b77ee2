"""Predicts the latency of a model from the times of its bricks."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log

from inferometer_analysis.bricks.split import BrickUse, split
from inferometer_analysis.layer_work import is_view, weight_bytes
from inferometer_api.layers.graph import LayerGraph
from inferometer_api.layers.timings import LayerTimings, Timing


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
    missing: tuple[str, ...]
    """The keys of the bricks without a time, each once."""

    @property
    def is_complete(self) -> bool:
        """Whether every layer has a time."""
        return not self.missing


def predict(graph: LayerGraph, timings: LayerTimings, granularity: int = 1) -> Prediction:
    """Return the predicted latency of one query.

    The cost of the engine's call is taken from each brick and added once. A brick that lacks a
    time counts as nothing and is named.
    """
    bricks = split(graph, granularity)
    costs = _Costs(graph, timings)
    found = [(use, costs.nanoseconds(use)) for use in bricks]
    known = [(use, cost) for use, cost in found if cost is not None]
    return Prediction(
        model=graph.model,
        sequential_nanoseconds=timings.run_nanoseconds + sum(cost for _, cost in known),
        critical_path_nanoseconds=timings.run_nanoseconds + _longest_path(found),
        layers=len(graph.uses),
        layers_known=sum(len(use.brick.layers) for use, _ in known),
        missing=tuple(dict.fromkeys(use.key for use, cost in found if cost is None)),
    )


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


def wall_time_speed_up(timings: LayerTimings, runs: int) -> float:
    """Return the time to open and run all models `runs` times over that which the bricks took.

    The bricks count with their sessions and as many runs as they had.
    """
    models = sum(cost_nanoseconds(each, runs) for each in timings.models.values())
    return models / sum(cost_nanoseconds(each, each.runs) for each in timings.bricks.values())


def cost_nanoseconds(timing: Timing, runs: int) -> float:
    """Return the time to open something and run it so many times."""
    return timing.session_nanoseconds + runs * timing.nanoseconds


class _Costs:
    """What bricks add to the latency of one model.

    Timed alone, a brick finds its weights in the caches. In a model they come from memory, if the
    weights of all its layers do not fit into the last cache, and from that cache otherwise. So the
    time to move them is added, at the rate that the machine was measured to have, but no more than
    a run with cold caches took longer. Activations cost nothing more: where a layer's own do not
    fit into the cache of its core, they leave it with each run of the brick as well.
    """

    def __init__(self, graph: LayerGraph, timings: LayerTimings) -> None:
        self._layers = graph.layers
        self._timings = timings
        machine = timings.machine
        weights = sum(weight_bytes(graph.layers[use.layer]) for use in graph.uses)
        self._weights_bytes_per_second = (
            machine.memory_bytes_per_second
            if weights > machine.cache_bytes
            else machine.cache_bytes_per_second
        )

    def nanoseconds(self, use: BrickUse) -> float | None:
        """Return what a brick adds; None if it was not timed."""
        layers = [self._layers[key] for key in use.brick.layers]
        node_ns = float(self._timings.node_nanoseconds)
        if all(map(is_view, layers)):
            return node_ns * len(layers)
        found = self._timings.bricks.get(use.key)
        if found is None:
            return None
        moved_seconds = sum(map(weight_bytes, layers)) / self._weights_bytes_per_second
        slower_ns = max(found.cold_nanoseconds - found.nanoseconds, 0)
        own_ns = max(found.nanoseconds - self._timings.run_nanoseconds, node_ns)
        return own_ns + min(moved_seconds * 1e9, slower_ns)


def _longest_path(bricks: Iterable[tuple[BrickUse, float | None]]) -> float:
    """Return the time of the slowest chain of bricks in which each needs the one before."""
    ready: dict[int, float] = {}
    longest = 0.0
    for use, cost in bricks:
        begin = max((ready.get(number, 0.0) for number in use.inputs), default=0.0)
        end = begin + (cost or 0.0)
        ready |= dict.fromkeys(use.outputs, end)
        longest = max(longest, end)
    return longest
