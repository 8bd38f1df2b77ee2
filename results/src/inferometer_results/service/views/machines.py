"""The views of machines: what nodes give, and what is known of layers; for pages and the API."""

from inferometer_api.layers.timings import LayerTimings
from inferometer_results.layers.granularities import GranularityFigures, granularity_rows
from inferometer_results.layers.machine_views import (
    BoundRow,
    DatedAdvice,
    LayerMachine,
    PredictedLatency,
    bound_rows,
    layer_machines,
    newest_advice,
    predicted_latencies,
)
from inferometer_results.nodes.view import Histories, histories
from inferometer_results.service.answers import RequestError
from inferometer_results.store.advice import advice_sources
from inferometer_results.store.layer_timings import all_timings
from inferometer_results.store.node_characteristics import visible_characteristics
from inferometer_results.store.store import Store


def node_histories(store: Store) -> Histories:
    """Return the measurements of each node."""
    found = visible_characteristics(store)
    return histories([document for _, document in found], [cluster for cluster, _ in found])


def check_node(found: Histories, name: str) -> None:
    """Check that a node was measured. Raises RequestError."""
    if name not in found:
        raise RequestError(f"The node {name} was not measured. /measured-nodes lists all.")


def show_layers(store: Store) -> list[LayerMachine]:
    """Return what is known of the layers of each machine."""
    return layer_machines(all_timings(store))


def show_bounds(store: Store) -> list[BoundRow]:
    """Return the bounds of each measured model."""
    return _bounds_of(store, list(all_timings(store)))


def _bounds_of(store: Store, documents: list[LayerTimings]) -> list[BoundRow]:
    nodes = [each for _, each in visible_characteristics(store)]
    return bound_rows(documents, layer_machines(documents), nodes)


def show_advice(store: Store) -> list[DatedAdvice]:
    """Return the newest advice on each model."""
    return newest_advice(advice_sources(store))


def show_bounds_and_advice(store: Store) -> tuple[list[BoundRow], list[DatedAdvice]]:
    """Return both, of documents that are read once."""
    sources = list(advice_sources(store))
    documents = [each.document for each in sources if isinstance(each.document, LayerTimings)]
    return _bounds_of(store, documents), newest_advice(sources)


def show_bricks(store: Store, model: str, machine: str) -> list[PredictedLatency]:
    """Return the predicted latencies of one model or all, on one machine or all."""
    shown = [
        each
        for each in predicted_latencies(show_layers(store))
        if model in ("", each.prediction.model) and machine in ("", each.machine.name)
    ]
    if machine and not model:
        shown.sort(key=_by_latency)
    return shown


def show_granularities(store: Store, model: str, machine: str) -> list[GranularityFigures]:
    """Return how well each granularity predicts one model or all, on one machine or all."""
    documents = [each for each in all_timings(store) if machine in ("", each.machine.name)]
    return granularity_rows(documents, model)


def _by_latency(row: PredictedLatency) -> tuple[int, int, float]:
    return row.machine.threads, row.batch_size, row.prediction.sequential_nanoseconds
