"""The pages of the explorer: runs, one run, and results side by side."""

from collections.abc import Callable
from string import ascii_uppercase
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from starlette.responses import HTMLResponse

from inferometer_results.compare.wording import explanations, figure_texts, unavailable
from inferometer_results.explore.prices import PriceList
from inferometer_results.headline import headline
from inferometer_results.report.facts import moment
from inferometer_results.report.page import report_context
from inferometer_results.service.answers import (
    AfterQuery,
    BeforeQuery,
    LimitQuery,
    OffsetQuery,
    RequestError,
    RetractedQuery,
    SortQuery,
    TextQuery,
    WhereQuery,
    find_row,
    read_many,
    read_stored,
    search,
)
from inferometer_results.service.pages.layers import layer_page_routes
from inferometer_results.service.pages.rendering import asset, render_page
from inferometer_results.service.pages.summaries import summary_page_routes
from inferometer_results.service.views.comparison import (
    ComparedResults,
    compared_steps,
    overlays,
    together,
)
from inferometer_results.service.views.earlier_results import earlier_columns, earlier_results
from inferometer_results.service.views.run_list import every_column, list_query, run_list
from inferometer_results.service.views.summaries import trend_url
from inferometer_results.store.find_ids import MOST_COUNTED
from inferometer_results.store.scenario_rows import tags
from inferometer_results.store.search_fields import SearchError
from inferometer_results.store.store import Page, Store
from inferometer_results.store.summaries import facets


def page_routes(store: Store, version: str, prices: PriceList | None) -> APIRouter:
    """Return the routes of the pages over a store."""
    routes = APIRouter(include_in_schema=False)
    for path, endpoint in (
        ("/", _runs(store, version, prices)),
        ("/facets", _facets(store, prices)),
        ("/results/{id_}", _run(store, prices)),
        ("/compare", _compare(store, prices)),
        ("/assets/{name}", asset),
        *summary_page_routes(store, prices),
        *layer_page_routes(store, prices),
    ):
        routes.add_api_route(path, endpoint, response_class=HTMLResponse)
    return routes


ColumnsQuery = Annotated[list[str] | None, Query(max_length=64)]


def _runs(store: Store, version: str, prices: PriceList | None) -> Callable[..., Response]:
    def runs(  # noqa: PLR0913 - one argument for each parameter of the address
        where: WhereQuery = "",
        sort: SortQuery = "-started",
        limit: LimitQuery = 50,
        offset: OffsetQuery = 0,
        text: TextQuery = "",
        columns: ColumnsQuery = None,
        *,
        after: AfterQuery = "",
        before: BeforeQuery = "",
        retracted: RetractedQuery = False,
    ) -> Response:
        wanted = search(
            *(where, sort, limit, offset),
            text=text,
            after=after,
            before=before,
            retracted=retracted,
        )
        fault, found = "", Page([], 0, is_exact=True)
        try:
            found = store.page(wanted)
        except SearchError as error:
            fault = str(error)
        query = list_query(wanted, columns or (), prices)
        return render_page(
            "runs.html.j2",
            400 if fault else 200,
            runs=run_list(query, found, prices),
            columns=every_column(prices),
            fault=fault,
            version=version,
        )

    return runs


def _facets(store: Store, prices: PriceList | None) -> Callable[..., Response]:
    def show_facets(
        where: WhereQuery = "",
        sort: SortQuery = "-started",
        limit: LimitQuery = 50,
        text: TextQuery = "",
        columns: ColumnsQuery = None,
        *,
        retracted: RetractedQuery = False,
    ) -> Response:
        wanted = search(where, sort, limit, text=text, retracted=retracted)
        query = list_query(wanted, columns or (), prices)
        groups = [
            (
                name,
                [(value, count, query.narrowed_url(name, value)) for value, count in values],
            )
            for name, values in facets(store, wanted).items()
            if len(values) > 1
        ]
        return render_page("facets.html.j2", groups=groups, query=query, most=MOST_COUNTED)

    return show_facets


def _run(store: Store, prices: PriceList | None) -> Callable[..., Response]:
    def run(id_: str) -> Response:
        stored, read = read_stored(store, id_)
        row = find_row(store, stored.id)
        headlines = [each for each in row["measurements"] if each["headline"]]
        trends = {each["scenario"]: trend_url(row | each) for each in headlines}
        return render_page(
            "run.html.j2",
            **report_context(read.document, prices),
            id=stored.id,
            row=row,
            notice=read.notice,
            tags=tags(row),
            earlier=earlier_results(store, row, prices),
            columns=earlier_columns(prices),
            trends=trends,
            model_query=urlencode({"model": row["model"]}),
        )

    return run


def _compare(store: Store, prices: PriceList | None) -> Callable[..., Response]:
    def compare(id: Annotated[list[str] | None, Query()] = None) -> Response:  # noqa: A002 - the name of the parameter
        if id is None:
            raise RequestError("Choose two or more results to compare in the list of runs.")
        found = read_many(store, id, prices, ascii_uppercase[1:])
        documents = [found[0].documents[0], *(each.documents[1] for each in found)]
        ids = [found[0].ids[0], *(each.ids[1] for each in found)]
        content: dict[str, Any] = {
            "sides": [
                (name, id_, document, headline(document))
                for name, id_, document in zip(ascii_uppercase, ids, documents, strict=False)
            ],
            "query": urlencode([("id", each) for each in ids]),
            "swapped": urlencode([("id", each) for each in (ids[-1], *ids[:-1])]),
            "overlays": overlays(documents),
            "moment": moment,
        }
        if len(found) > 1:
            return render_page("compare_many.html.j2", **content, **_many(found))
        (one,) = found
        pairs = [
            (
                pair,
                [figure_texts(each) for each in pair.figures],
                list(unavailable(pair)),
                together(documents, [pair]),
            )
            for pair in one.comparison.pairs
        ]
        return render_page(
            "compare.html.j2",
            **content,
            found=one,
            pairs=pairs,
            explanations=list(explanations(one.comparison)) if pairs else [],
        )

    return compare


def _many(found: list[ComparedResults]) -> dict[str, Any]:
    """Return what the page of several results shows of their comparisons with the first one."""
    conditions: dict[str, list[str]] = {}
    for index, each in enumerate(found):
        for condition in each.conditions:
            values = conditions.setdefault(condition.name, [condition.before] * (len(found) + 1))
            values[0], values[index + 1] = condition.before, condition.after
    return {"conditions": conditions, "steps": compared_steps(found)}
