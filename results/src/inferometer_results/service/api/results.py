"""The REST API, version 1: results, their documents, and comparisons."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response

from inferometer_results.explore.prices import PriceList
from inferometer_results.export import FORMATS
from inferometer_results.report.facts import spec_yaml
from inferometer_results.service.answers import (
    COST_COLUMN,
    AfterQuery,
    BeforeQuery,
    IdsQuery,
    LimitQuery,
    ManyIdsQuery,
    OffsetQuery,
    RetractedQuery,
    SortQuery,
    TableFormat,
    TextQuery,
    WhereQuery,
    csv_answer,
    file_answer,
    find_row,
    json_answer,
    public_row,
    read_many,
    read_stored,
    read_two,
    search,
)
from inferometer_results.service.api import schema
from inferometer_results.service.api.machines import machine_routes
from inferometer_results.service.api.summaries import summary_routes
from inferometer_results.service.views.comparison import as_json, figure_rows
from inferometer_results.store.scenario_rows import short_id
from inferometer_results.store.search_fields import COST, COST_HELP, FIELDS, SORTING
from inferometer_results.store.store import Store
from inferometer_results.store.transfer import archive_part, figure_columns
from inferometer_results.store.transfer import figure_rows as rows_of_results

_MEDIA_TYPES = {
    "csv": ("text/csv", "csv"),
    "json": ("application/json", "json"),
    "junit": ("application/xml", "xml"),
    "markdown": ("text/markdown", "md"),
    "openmetrics": ("application/openmetrics-text; version=1.0.0; charset=utf-8", "txt"),
}
_FAULTS: dict[int | str, dict[str, Any]] = {
    400: {"model": schema.ErrorBody},
    404: {"model": schema.ErrorBody},
    503: {"model": schema.ErrorBody},
}
_IdPath = Annotated[str, Path(description="ID of a result, or its beginning.")]
_AfterQuery = Annotated[str, Query(description="ID of a result; the first ones if missing.")]
_PartQuery = Annotated[int, Query(ge=1, le=100, description="Documents of one answer.")]
_MOST_LISTED = 1000
_FormatQuery = Annotated[
    Literal["csv", "json", "junit", "markdown", "openmetrics"],
    Query(description="Form of the figures, as of `inferometer report --format`."),
]


def api_routes(store: Store, prices: PriceList | None) -> APIRouter:
    """Return the routes of the API over a store."""
    routes = APIRouter(prefix="/api/v1", responses=_FAULTS)
    for path, model, endpoint in (
        ("/results", schema.ResultList, _list_results(store, prices)),
        ("/results/{id_}", schema.Result, _show_result(store, prices)),
        ("/compare", schema.ComparisonDocument, _compare(store, prices)),
        ("/comparisons", list[schema.ComparisonDocument], _compare_many(store, prices)),
        ("/fields", list[schema.SearchField], _fields(prices)),
        ("/journal", list[schema.JournalEntry], _journal(store)),
        *summary_routes(store, prices),
        *machine_routes(store, prices),
    ):
        # The models describe the answers; the answers are written from the rows as they are.
        routes.add_api_route(
            path, endpoint, response_class=Response, responses={200: {"model": model}}
        )
    for path, endpoint in (
        ("/results/{id_}/document", _document(store)),
        ("/results/{id_}/run", _run(store)),
        ("/results/{id_}/figures", _figures(store)),
        ("/archive", _archive(store)),
    ):
        routes.add_api_route(path, endpoint, response_class=Response)
    return routes


def _list_results(store: Store, prices: PriceList | None) -> Callable[..., Response]:
    def list_results(  # noqa: PLR0913 - one argument for each parameter of the address
        where: WhereQuery = "",
        sort: SortQuery = "-started",
        limit: LimitQuery = 50,
        offset: OffsetQuery = 0,
        text: TextQuery = "",
        *,
        after: AfterQuery = "",
        before: BeforeQuery = "",
        retracted: RetractedQuery = False,
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """List the results that a search finds; as CSV one row for each measurement."""
        wanted = search(
            *(where, sort, limit, offset),
            text=text,
            after=after,
            before=before,
            retracted=retracted,
        )
        if format == "csv":
            rows = rows_of_results(public_row(each, prices) for each in store.find(wanted))
            columns = [COST_COLUMN] if prices is not None else []
            return csv_answer(rows, "results", figure_columns() + columns)
        page = store.page(wanted)
        return json_answer(
            {
                "total": page.total,
                "total_is_exact": page.is_exact,
                "limit": limit,
                "offset": offset,
                "next": page.rows[-1]["id"] if page.rows and page.has_next else None,
                "items": [public_row(each, prices) for each in page.rows],
            }
        )

    return list_results


def _show_result(store: Store, prices: PriceList | None) -> Callable[..., Response]:
    def show_result(id_: _IdPath) -> Response:
        """Return one result with its measurements, labels and tags."""
        return json_answer(public_row(find_row(store, store.resolve(id_)), prices))

    return show_result


def _document(store: Store) -> Callable[..., Response]:
    def document(id_: _IdPath) -> Response:
        """Return the result document, byte for byte as it was received."""
        stored = store.read(store.resolve(id_))
        return file_answer(stored.content, "application/json", f"result-{short_id(stored.id)}.json")

    return document


def _run(store: Store) -> Callable[..., Response]:
    def run(id_: _IdPath) -> Response:
        """Return the run as YAML, with all defaults; `inferometer run` repeats it."""
        stored, read = read_stored(store, id_)
        content = spec_yaml(read.document).encode()
        return file_answer(content, "application/yaml", f"run-{short_id(stored.id)}.yaml")

    return run


def _figures(store: Store) -> Callable[..., Response]:
    def figures(
        id_: _IdPath,
        format: _FormatQuery = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """Return the figures of a result in the format of another program."""
        stored, read = read_stored(store, id_)
        media_type, suffix = _MEDIA_TYPES[format]
        content = FORMATS[format](read.document).encode()
        return file_answer(content, media_type, f"figures-{short_id(stored.id)}.{suffix}")

    return figures


def _journal(store: Store) -> Callable[..., Response]:
    def journal(where: WhereQuery = "") -> Response:
        """List what people added to the newest results that a search finds, retracted ones too."""
        wanted = search(where, limit=_MOST_LISTED, retracted=True)
        entries = store.journal(store.find_ids(wanted))
        return json_answer([{"id": id_, **asdict(entry)} for id_, entry in entries])

    return journal


def _archive(store: Store) -> Callable[..., Response]:
    def archive(after: _AfterQuery = "", limit: _PartQuery = 50) -> Response:
        """Return documents with what people added to them, as `inferometer results import` reads.

        In the order in which they were kept. The next part is that after the last document.
        """
        known = store.resolve(after) if after else ""
        lines = "".join(f"{line}\n" for line in archive_part(store, known, limit))
        return Response(lines, media_type="application/x-ndjson")

    return archive


def _compare(store: Store, prices: PriceList | None) -> Callable[..., Response]:
    def compare(
        id: IdsQuery,  # noqa: A002 - the name of the parameter
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """Compare two results, the first being the baseline; as CSV one row for each figure."""
        found = read_two(store, id, prices)
        if format == "csv":
            return csv_answer(list(figure_rows(found)), "comparison", schema.FigureRow.model_fields)
        return json_answer(as_json(found))

    return compare


def _compare_many(store: Store, prices: PriceList | None) -> Callable[..., Response]:
    def compare_many(
        id: ManyIdsQuery,  # noqa: A002 - the name of the parameter
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """Compare each further result with the first; as CSV one row for each figure."""
        found = read_many(store, id, prices)
        if format == "csv":
            rows = [{"id": each.ids[1]} | row for each in found for row in figure_rows(each)]
            return csv_answer(rows, "comparisons", ["id", *schema.FigureRow.model_fields])
        return json_answer([as_json(each) for each in found])

    return compare_many


def _fields(prices: PriceList | None) -> Callable[..., Response]:
    def fields() -> Response:
        """List the fields that `where` and `sort` can name."""
        found = [
            {"name": name, "kind": field.kind, "help": field.help, "sorts": name in SORTING}
            for name, field in FIELDS.items()
        ]
        if prices is not None:
            found.append({"name": COST, "kind": "number", "help": COST_HELP, "sorts": True})
        return json_answer(found)

    return fields
