"""The routes of the API for the views of many results."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from pydantic import BaseModel

from inferometer_results.explore.prices import PriceList
from inferometer_results.service.answers import (
    CUT_HEADER,
    RetractedQuery,
    TableFormat,
    TextQuery,
    WhereQuery,
    checked,
    csv_answer,
    json_answer,
    marked_cut,
    search,
)
from inferometer_results.service.api import summary_schema
from inferometer_results.service.api.summary_rows import (
    listed_rows,
    model_rows,
    node_rows,
    trend_rows,
)
from inferometer_results.service.views.suites import (
    FLAT_COLUMNS,
    LONGEST_NAME,
    flat_rows,
    show_suite,
    suite_document,
)
from inferometer_results.service.views.summaries import (
    SummaryQuery,
    find_rows,
    show_model,
    show_nodes,
    show_trend,
)
from inferometer_results.store.store import Store
from inferometer_results.store.summaries import facets, models, nodes, series, specs, suites

ModelQuery = Annotated[str, Query(description="Name of a model.", max_length=1024)]
ScenarioQuery = Annotated[
    str, Query(description="Name of a scenario; the most frequent one if it is missing.")
]
MixedQuery = Annotated[bool, Query(description="Whether to rank across conditions that differ.")]
SpecQuery = Annotated[str, Query(description="Digest of a specification.", max_length=64)]
NodeQuery = Annotated[str, Query(description="Name of a node.", max_length=1024)]
StepQuery = Annotated[
    str,
    Query(description="Scenario and step: `throughput, batch 8`; the most frequent if missing."),
]
FigureQuery = Annotated[
    Literal["p50", "p90", "p99", "p99.9", "qps", "samples", "peak", "energy"],
    Query(description="The figure, as `where` names it."),
]

ExecutionQuery = Annotated[
    str,
    Query(
        description="Name of an execution; the newest one if it is missing.",
        max_length=LONGEST_NAME,
    ),
]

Route = tuple[str, Any, Callable[..., Response]]


def summary_routes(store: Store, prices: PriceList | None) -> Iterator[Route]:
    """Yield path, model of the answer, and endpoint of each route."""
    yield "/facets", summary_schema.Facets, _facets(store)
    for name, model, query in (
        ("models", summary_schema.ListedModel, models),
        ("nodes", summary_schema.ListedNode, nodes),
        ("trends", summary_schema.ListedTrend, series),
        ("specs", summary_schema.ListedSpec, specs),
        ("suites", summary_schema.ListedSuite, suites),
    ):
        yield f"/{name}", list[model], _list(store, name, model, query)  # type: ignore[valid-type]
    yield "/suites/{name}", summary_schema.SuiteDocument, _suite(store)
    yield "/model", summary_schema.ModelDocument, _model(store, prices)
    yield "/trend", list[summary_schema.TrendRow], _trend(store)
    yield "/node-figures", list[summary_schema.NodeRow], _node_figures(store)


def _facets(store: Store) -> Callable[..., Response]:
    def count_facets(
        where: WhereQuery = "", text: TextQuery = "", *, retracted: RetractedQuery = False
    ) -> Response:
        """Count the most frequent values of each facet among the results that a search finds."""
        wanted = search(where, text=text, retracted=retracted)
        found = {
            name: [{"value": value, "count": count} for value, count in values]
            for name, values in facets(store, wanted).items()
        }
        return json_answer(found)

    return count_facets


def _list(
    store: Store, name: str, model: type[BaseModel], query: SummaryQuery
) -> Callable[..., Response]:
    def list_summaries(
        where: WhereQuery = "",
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        found, shown_alone = find_rows(store, query, search(where))
        if format == "csv":
            answer = csv_answer(list(listed_rows(found)), name, model.model_fields)
        else:
            answer = json_answer(found)
        return marked_cut(answer, shown_alone)

    list_summaries.__doc__ = (
        f"List the {name} with the most results. If there are more than are listed, the header "
        f"{CUT_HEADER} has the number of those that are."
    )
    return list_summaries


def _suite(store: Store) -> Callable[..., Response]:
    def show_execution(
        name: str,
        execution: ExecutionQuery = "",
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """Show the executions of a suite, and the runs of one; as CSV one row for each figure."""
        found = show_suite(store, checked(name), checked(execution))
        if format == "csv":
            return csv_answer(flat_rows(found), "suite", FLAT_COLUMNS)
        return json_answer(suite_document(found))

    return show_execution


def _model(store: Store, prices: PriceList | None) -> Callable[..., Response]:
    def show_measurements(
        model: ModelQuery,
        scenario: ScenarioQuery = "",
        where: WhereQuery = "",
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
        *,
        mixed: MixedQuery = False,
    ) -> Response:
        """Show the measurements of a scenario of a model, grouped by conditions, step and node.

        If older ones are left out, the header `inferometer-cut-at` has the number that was read.
        """
        page = show_model(store, prices, model, scenario, checked(where), mixed=mixed)
        rows = model_rows(page)
        if format == "csv":
            columns = summary_schema.ModelGroup.model_fields
            return marked_cut(csv_answer(rows, "model", columns), page.shown_alone)
        answer = json_answer(
            {
                "model": model,
                "scenario": page.parameters["scenario"],
                "ranked": page.view.is_ranked,
                "differing": page.view.differing,
                "currency": None if prices is None else prices.currency,
                "groups": rows,
            }
        )
        return marked_cut(answer, page.shown_alone)

    return show_measurements


def _trend(store: Store) -> Callable[..., Response]:
    def show_series(
        spec: SpecQuery,
        node: NodeQuery,
        step: StepQuery = "",
        figure: FigureQuery = "p99",
        where: WhereQuery = "",
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """Show a figure of a step over time, for a specification on a node.

        If older ones are left out, the header `inferometer-cut-at` has the number that was read.
        """
        page = show_trend(store, spec, node, step, figure, checked(where))
        rows = trend_rows(page)
        columns = summary_schema.TrendRow.model_fields
        is_csv = format == "csv"
        answer = csv_answer(rows, "trend", columns) if is_csv else json_answer(rows)
        return marked_cut(answer, page.shown_alone)

    return show_series


def _node_figures(store: Store) -> Callable[..., Response]:
    def show_figures(
        spec: SpecQuery,
        step: StepQuery = "",
        figure: FigureQuery = "p99",
        where: WhereQuery = "",
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """Show a figure of a step of a specification on all nodes, outliers marked.

        If older ones are left out, the header `inferometer-cut-at` has the number that was read.
        """
        page = show_nodes(store, spec, step, figure, checked(where))
        rows = node_rows(page)
        columns = summary_schema.NodeRow.model_fields
        is_csv = format == "csv"
        answer = csv_answer(rows, "nodes", columns) if is_csv else json_answer(rows)
        return marked_cut(answer, page.shown_alone)

    return show_figures
