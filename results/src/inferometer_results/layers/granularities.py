"""Compares predictions of the same models from bricks of different granularity."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from inferometer_analysis.bricks.predict import geometric_mean_error, speed_up
from inferometer_api.layers.graph import LayerGraph
from inferometer_api.layers.split import split
from inferometer_api.layers.timings import LayerTimings, MachineState, Timing
from inferometer_results.layers.brick_errors import ModelError, model_errors
from inferometer_results.layers.machine_views import layer_machines, machine_key

_LARGEST = 10
"""The largest granularity that `inferometer bricks` takes."""


@dataclass(frozen=True, slots=True)
class GranularityFigures:
    """How well bricks of one granularity predict some models on a machine."""

    machine: MachineState
    granularity: int
    """The most layers of a brick: of those that cut the models alike, the least."""
    models: tuple[str, ...]
    """The same in each row of a machine with which this one is to be compared."""
    error: float
    """The geometric mean, as a share."""
    speed_up: float
    """One run of all models by one run of all bricks."""
    spread: float
    """The largest of the measured latencies: errors below it are noise."""


def granularity_rows(
    documents: Sequence[LayerTimings], model: str = ""
) -> list[GranularityFigures]:
    """Return a row of each granularity that has times on a machine, of one model or of all.

    `documents` are in their order, the oldest first. A model counts if its bricks of several
    granularities have a time, and it has a measured latency. Models with the same granularities
    share rows.
    """
    rows: list[GranularityFigures] = []
    for machine in layer_machines(documents):
        key = machine_key(machine.state)
        own = [each for each in documents if machine_key(each.machine) == key]
        groups: dict[tuple[int, ...], list[Mapping[int, ModelError]]] = {}
        for graph in _measured_graphs(own, model):
            errors = dict(_errors(graph, machine.timings, own))
            if len(errors) > 1:
                groups.setdefault(tuple(errors), []).append(errors)
        for granularities, models in sorted(groups.items(), key=lambda each: each[0]):
            rows.extend(
                _row(granularity, [each[granularity] for each in models], machine.timings)
                for granularity in granularities
            )
    return rows


def _measured_graphs(documents: Sequence[LayerTimings], model: str) -> list[LayerGraph]:
    """Return the newest graph of each model and batch that has a measured latency."""
    found = {
        (graph.model, graph.batch_size): graph
        for each in documents
        for graph in each.graphs
        if _has_latency(each, graph.model) and model in ("", graph.model)
    }
    return [found[key] for key in sorted(found)]


def _has_latency(timings: LayerTimings, model: str) -> bool:
    return model in timings.models and timings.models[model].nanoseconds > 0


def _errors(
    graph: LayerGraph, known: LayerTimings, documents: Sequence[LayerTimings]
) -> Iterator[tuple[int, ModelError]]:
    """Yield each granularity that cuts a model in another way, if all its bricks have a time."""
    cuts: set[frozenset[str]] = set()
    for granularity in range(1, _LARGEST + 1):
        keys = frozenset(use.key for use in split(graph, granularity))
        if keys in cuts or not keys & known.bricks.keys():
            continue
        cuts.add(keys)
        measured = {graph.model: _measured(graph, keys, documents)}
        (error,) = model_errors([graph], known, measured, granularity)
        if error.ratio:
            yield granularity, error


def _measured(graph: LayerGraph, keys: frozenset[str], documents: Sequence[LayerTimings]) -> Timing:
    """Return the newest latency of a model, if possible one of the rounds that timed its bricks."""
    found = [
        each
        for each in reversed(documents)
        if _has_latency(each, graph.model)
        and any(
            (other.model, other.batch_size) == (graph.model, graph.batch_size)
            for other in each.graphs
        )
    ]
    together = [each for each in found if keys & each.bricks.keys()]
    return (together or found)[0].models[graph.model]


def _row(granularity: int, errors: Sequence[ModelError], known: LayerTimings) -> GranularityFigures:
    keys = frozenset().union(*(each.keys for each in errors)) & known.bricks.keys()
    measured = [each.measured for each in errors if each.measured is not None]
    compared = known.model_copy(
        update={
            "models": {str(at): each for at, each in enumerate(measured)},
            "bricks": {key: known.bricks[key] for key in keys},
        }
    )
    return GranularityFigures(
        machine=known.machine,
        granularity=granularity,
        models=tuple(each.prediction.model for each in errors),
        error=geometric_mean_error(each.ratio for each in errors if each.ratio),
        speed_up=speed_up(compared),
        spread=max(each.spread for each in measured),
    )
