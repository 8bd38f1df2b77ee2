"""The pages about layers: what is known of machines, bounds and advice, and predictions."""

from collections.abc import Callable, Iterator

from fastapi import Response

from inferometer_results.layers.machine_views import (
    bound_rows,
    layer_machines,
    predicted_latencies,
)
from inferometer_results.quantity import duration
from inferometer_results.service.pages.rendering import render_page
from inferometer_results.store.layer_timings import all_timings
from inferometer_results.store.store import Store


def layer_page_routes(store: Store) -> Iterator[tuple[str, Callable[..., Response]]]:
    """Yield path and endpoint of each page."""
    yield "/layers", _layers(store)
    yield "/bounds", _bounds(store)
    yield "/bricks", _bricks(store)


def _layers(store: Store) -> Callable[..., Response]:
    def show() -> Response:
        machines = layer_machines(all_timings(store))
        return render_page("layers.html.j2", machines=machines, duration=duration)

    return show


def _bounds(store: Store) -> Callable[..., Response]:
    def show() -> Response:
        documents = list(all_timings(store))
        rows = bound_rows(documents, layer_machines(documents))
        return render_page("bounds.html.j2", rows=rows, duration=duration)

    return show


def _bricks(store: Store) -> Callable[..., Response]:
    def show(model: str = "", machine: str = "") -> Response:
        rows = predicted_latencies(layer_machines(all_timings(store)))
        shown = [
            each
            for each in rows
            if model in ("", each.model) and machine in ("", each.machine.name)
        ]
        if machine and not model:
            shown.sort(key=lambda each: (each.machine.threads, each.batch_size, each.nanoseconds))
        return render_page(
            "bricks.html.j2", rows=shown, model=model, machine=machine, duration=duration
        )

    return show
