"""The pages about layers: what is known of machines, bounds and advice, and predictions."""

from collections.abc import Callable, Iterator

from fastapi import Response

from inferometer_analysis.samples import Interval
from inferometer_results.explore.prices import PriceList
from inferometer_results.layers.advice_report import base_sentence, gain_words, notes_of
from inferometer_results.layers.bound_report import operator_counts, operator_words
from inferometer_results.layers.brick_errors import uncertainty_words
from inferometer_results.quantity import duration, energy, significant, spread_percent
from inferometer_results.report.facts import moment
from inferometer_results.service.pages.rendering import render_page
from inferometer_results.service.views.machines import (
    show_bounds_and_advice,
    show_bricks,
    show_granularities,
    show_layers,
)
from inferometer_results.service.views.summaries import View
from inferometer_results.store.measured_energy import measured_energy
from inferometer_results.store.store import Store


def layer_page_routes(
    store: Store, prices: PriceList | None
) -> Iterator[tuple[str, Callable[..., Response]]]:
    """Yield path and endpoint of each page."""
    yield "/layers", _layers(store)
    yield "/bounds", _bounds(store)
    yield "/bricks", _bricks(store, prices)


def _layers(store: Store) -> Callable[..., Response]:
    def show() -> Response:
        return render_page(
            "layers.html.j2",
            view=View("/layers", {}),
            machines=show_layers(store),
            duration=duration,
            spread_percent=spread_percent,
            between=_between,
        )

    return show


def _between(found: Interval) -> str:
    if found.low is None or found.high is None:
        return "not known"
    return f"{duration(found.low)} to {duration(found.high)}"


def _bounds(store: Store) -> Callable[..., Response]:
    def show() -> Response:
        rows, advised = show_bounds_and_advice(store)
        return render_page(
            "bounds.html.j2",
            view=View("/bounds", {}),
            advice_view=View("/advice", {}),
            rows=rows,
            advised=advised,
            duration=duration,
            between=_between,
            operator_counts=operator_counts,
            operator_words=operator_words,
            gain_words=gain_words,
            clip=_clip,
            base_sentence=base_sentence,
            notes_of=notes_of,
            moment=moment,
        )

    return show


def _clip(gain: float) -> float:
    """Return a gain in percent, within the scale of its mark: from -20 to 100."""
    return round(min(max(100 * gain, -20.0), 100.0), 1)


def _bricks(store: Store, prices: PriceList | None) -> Callable[..., Response]:
    def show(model: str = "", machine: str = "") -> Response:
        return render_page(
            "bricks.html.j2",
            view=View("/bricks", {"model": model, "machine": machine}),
            granularity_view=View("/granularities", {"model": model, "machine": machine}),
            rows=show_bricks(store, model, machine),
            granularities=show_granularities(store, model, machine),
            spread_percent=spread_percent,
            uncertainty_words=uncertainty_words,
            model=model,
            machine=machine,
            prices=prices,
            measured=measured_energy(store),
            duration=duration,
            energy=energy,
            significant=significant,
        )

    return show
