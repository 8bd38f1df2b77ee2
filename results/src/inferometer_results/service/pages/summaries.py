"""The pages about many results: models, one model, trends, and nodes."""

from collections.abc import Callable, Iterator
from typing import Any

from fastapi import Response

from inferometer_results.explore.histogram_sum import merged_percentiles
from inferometer_results.explore.prices import PriceList
from inferometer_results.quantity import PERCENTILES, duration, energy, significant
from inferometer_results.service.answers import WhereQuery, checked, read_stored, search
from inferometer_results.service.api.summaries import (
    FigureQuery,
    MixedQuery,
    ModelQuery,
    NodeQuery,
    ScenarioQuery,
    SpecQuery,
    StepQuery,
)
from inferometer_results.service.pages.rendering import render_page
from inferometer_results.service.views.summaries import (
    SummaryQuery,
    TrendPage,
    View,
    find_rows,
    show_model,
    show_nodes,
    show_trend,
    trend_url,
)
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from inferometer_results.store.summaries import models, nodes, series, specs, suites

_WRITTEN: dict[str, Any] = {"duration": duration, "energy": energy, "significant": significant}
_MOST_SPECS = 30
_MOST_MERGED = 50


def summary_page_routes(
    store: Store, prices: PriceList | None
) -> Iterator[tuple[str, Callable[..., Response]]]:
    """Yield path and endpoint of each page."""
    yield "/models", _list(store, "models", models)
    yield "/model", _model(store, prices)
    yield "/trends", _list(store, "trends", series)
    yield "/trend", _trend(store)
    yield "/trend/together", _together(store)
    yield "/nodes", _list(store, "nodes", nodes)
    yield "/suites", _list(store, "suites", suites)
    yield "/node-figures", _node_figures(store)


def _list(store: Store, name: str, query: SummaryQuery) -> Callable[..., Response]:
    def show_list(where: WhereQuery = "") -> Response:
        wanted = search(where)
        rows, shown_alone = find_rows(store, query, wanted)
        return render_page(
            f"{name}.html.j2",
            view=View(f"/{name}", {"where": where}, shown_alone=shown_alone),
            rows=rows,
            specs=_repeated(store, wanted) if name == "nodes" else [],
            url=lambda path, **parameters: View(path, parameters | {"where": where}).url(),
        )

    return show_list


def _repeated(store: Store, wanted: Search) -> list[dict[str, Any]]:
    """Return the specifications that ran on several nodes."""
    return [row for row in specs(store, wanted) if row["nodes"] > 1][:_MOST_SPECS]


def _model(store: Store, prices: PriceList | None) -> Callable[..., Response]:
    def show(
        model: ModelQuery,
        scenario: ScenarioQuery = "",
        where: WhereQuery = "",
        *,
        mixed: MixedQuery = False,
    ) -> Response:
        view = show_model(store, prices, model, scenario, checked(where), mixed=mixed)
        return render_page(
            "model.html.j2",
            view=view,
            model=model,
            prices=prices,
            mixed=mixed,
            trend_url=trend_url,
            **_WRITTEN,
        )

    return show


def _trend(store: Store) -> Callable[..., Response]:
    def show(
        spec: SpecQuery,
        node: NodeQuery,
        step: StepQuery = "",
        figure: FigureQuery = "p99",
        where: WhereQuery = "",
    ) -> Response:
        view = show_trend(store, spec, node, step, figure, checked(where))
        return render_page("trend.html.j2", view=view, node=node)

    return show


def _together(store: Store) -> Callable[..., Response]:
    def show(
        spec: SpecQuery,
        node: NodeQuery,
        step: StepQuery = "",
        figure: FigureQuery = "p99",
        where: WhereQuery = "",
    ) -> Response:
        view = show_trend(store, spec, node, step, figure, checked(where))
        return render_page("together.html.j2", view=view, sentence=_sum(store, view))

    return show


def _sum(store: Store, view: TrendPage) -> str:
    """Return the latencies of the newest results of a trend as one, from their histograms."""
    counted = list(view.found.counted)[-_MOST_MERGED:]
    same = [each for each in counted if each.row["key"] == counted[-1].row["key"]]
    histograms: list[str] = []
    for id_ in dict.fromkeys(each.row["id"] for each in same):
        document = read_stored(store, id_)[1].document
        histograms += [
            found.latency.histogram
            for each in document.scenarios
            for found in each.steps
            if found.latency is not None
            and each.verdict.state == "VALID"
            and ", ".join(filter(None, (each.name, found.label))) == view.parameters["step"]
        ]
    merged = merged_percentiles(histograms, PERCENTILES)
    if merged is None:
        return "These results have no latencies that can be added up."
    queries, values = merged
    figures = ", ".join(
        f"p{percentile:g} {duration(value)}"
        for percentile, value in zip(PERCENTILES, values, strict=True)
    )
    return (
        f"The newest {len(histograms)} windows under the same conditions together "
        f"({queries:,} queries, histograms added): {figures}."
    )


def _node_figures(store: Store) -> Callable[..., Response]:
    def show(
        spec: SpecQuery,
        step: StepQuery = "",
        figure: FigureQuery = "p99",
        where: WhereQuery = "",
    ) -> Response:
        view = show_nodes(store, spec, step, figure, checked(where))
        return render_page("node_figures.html.j2", view=view)

    return show
