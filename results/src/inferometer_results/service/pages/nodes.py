"""The pages of measured nodes in the explorer: one node, and the nodes of one kind."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Response
from starlette.responses import HTMLResponse

from inferometer_api.nodes.headlines import machine_kind, shown_headlines
from inferometer_api.wording import counted
from inferometer_results.nodes.drift_chart import drift_charts
from inferometer_results.nodes.view import (
    drift_rows,
    figure_rows,
    listed_nodes,
    of_kind,
    shown_cautions,
)
from inferometer_results.nodes.wording import (
    HEADINGS,
    gpu_sentences,
    machine_sentence,
    unavailable_sentences,
    unit_sentences,
)
from inferometer_results.service.answers import RequestError
from inferometer_results.service.pages.rendering import render_page
from inferometer_results.service.views.machines import check_node, node_histories
from inferometer_results.service.views.summaries import View, drawn_charts
from inferometer_results.store.store import Store

_Name = Annotated[str, Query(max_length=1024)]


def node_routes(store: Store) -> APIRouter:
    """Return the routes of the pages over a store."""
    routes = APIRouter(include_in_schema=False)
    routes.add_api_route("/measured-nodes", _nodes(store), response_class=HTMLResponse)
    routes.add_api_route("/measured-node", _node(store), response_class=HTMLResponse)
    return routes


def _nodes(store: Store) -> Callable[..., Response]:
    def measured_nodes(kind: _Name = "") -> Response:
        found = node_histories(store)
        kinds = sorted({machine_kind(each[-1]) for each in found.values()})
        if kind and kind not in kinds:
            raise RequestError(f"No node of the kind {kind} was measured.")
        found = of_kind(found, kind) if kind else found
        shown = listed_nodes(found)
        documents = (each for history in found.values() for each in history)
        return render_page(
            "measured_nodes.html.j2",
            view=View("/measured-nodes", {"kind": kind}),
            nodes=shown,
            counted=counted,
            kind=kind,
            kinds=kinds,
            headlines=shown_headlines(documents),
        )

    return measured_nodes


def _node(store: Store) -> Callable[..., Response]:
    def measured_node(name: _Name) -> Response:
        found = node_histories(store)
        check_node(found, name)
        newest = found[name][-1]
        return render_page(
            "measured_node.html.j2",
            view=View("/measured-node", {"name": name}),
            name=name,
            kind=machine_kind(newest),
            equal=len(of_kind(found, machine_kind(newest))),
            machine=machine_sentence(newest),
            notes=[
                *gpu_sentences(newest),
                *unit_sentences(newest.matrix_units),
                *unavailable_sentences(newest),
            ],
            cautions=shown_cautions(found[name]),
            headings=HEADINGS,
            rows=figure_rows(name, found),
            headlines=shown_headlines(found[name]),
            drift=drift_rows(found[name]),
            charts=drawn_charts(*drift_charts(name, found)),
        )

    return measured_node
