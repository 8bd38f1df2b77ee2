"""Helpers that routes share: reading of stored results, and answers as JSON, CSV and errors."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import orjson
from fastapi import Query, Request, Response

from inferometer_api.results.reading import ReadResult, read_result
from inferometer_results.compare.comparison import ComparedSide
from inferometer_results.explore.model import row_cost
from inferometer_results.explore.prices import PriceList
from inferometer_results.service.views.comparison import ComparedResults, compare_results
from inferometer_results.store.database import NoSuchResultError
from inferometer_results.store.documents import StoredDocument
from inferometer_results.store.query import Search
from inferometer_results.store.scenario_rows import without_number
from inferometer_results.store.search_fields import SearchError
from inferometer_results.store.store import Store
from inferometer_results.store.transfer import as_csv

MOST_RESULTS = 500
"""In one answer."""
MOST_COMPARED = 8
COST_COLUMN = "cost_per_million"
"""Of a measurement, if the service has prices."""
_MOST_OFFSET = 10_000
"""Results that a list skips at most: each one is looked at. `after` skips any number."""

WhereQuery = Annotated[
    str,
    Query(description="Such as `model=resnet50 and p99<50ms`; /api/v1/fields lists the fields."),
]
SortQuery = Annotated[str, Query(description="A field; -FIELD puts the largest first.")]
LimitQuery = Annotated[int, Query(ge=1, le=MOST_RESULTS, description="Results of one answer.")]
OffsetQuery = Annotated[
    int,
    Query(
        ge=0,
        le=2**31,
        description=f"Results to skip, at most {_MOST_OFFSET:,}. With `after` or `before`, none is "
        "skipped: it is how many precede, as a page shows it.",
    ),
]
AfterQuery = Annotated[
    str, Query(max_length=64, description="ID of a result: the list continues after it.")
]
BeforeQuery = Annotated[
    str, Query(max_length=64, description="ID of a result: the list ends before it.")
]
RetractedQuery = Annotated[bool, Query(description="Whether retracted results are included.")]
IdsQuery = Annotated[list[str], Query(description="Two IDs, or their beginnings.")]
ManyIdsQuery = Annotated[
    list[str], Query(description="IDs, or their beginnings; the first is the baseline.")
]
TextQuery = Annotated[
    str, Query(max_length=200, description="Words that names, labels, tags or reasons contain.")
]
TableFormat = Annotated[Literal["json", "csv"], Query(description="Form of the answer.")]


class RequestError(ValueError):
    """A request that cannot be understood; the message is a sentence with what to do."""


def search(  # noqa: PLR0913 - one argument for each parameter of an address
    where: str,
    sort: str = "-started",
    limit: int | None = None,
    offset: int = 0,
    *,
    text: str = "",
    after: str = "",
    before: str = "",
    retracted: bool = False,
) -> Search:
    """Return a search. Raises SearchError."""
    if after and before:
        raise SearchError("A list continues after a result or ends before one: give one of both.")
    if offset > _MOST_OFFSET and not after and not before:
        raise SearchError(
            f"A list skips at most {_MOST_OFFSET:,} results. Continue it by after=ID, with the ID "
            "of the last result that you have, or narrow it by a condition, such as p99>5ms."
        )
    return Search(
        checked(where),
        sort,
        limit,
        offset,
        with_retracted=retracted,
        text=checked(text),
        after=after,
        before=before,
    )


def checked(text: str) -> str:
    """Return a text that a database takes. Raises SearchError."""
    if "\0" in text:
        raise SearchError("A condition cannot contain the character NUL.")
    return text


def read_stored(store: Store, prefix: str) -> tuple[StoredDocument, ReadResult]:
    """Return the one result whose ID begins so, as stored and as read."""
    stored = store.read(store.resolve(prefix))
    return stored, read_result(stored.content, source=f"Result {stored.id}")


def find_row(store: Store, id_: str) -> dict[str, Any]:
    """Return the row of a result with its measurements and labels."""
    found = store.find(Search(f'id="{id_}"', limit=1, with_retracted=True))
    if not found:
        raise NoSuchResultError(f"There is no result {id_}.")
    return found[0]


def public_row(row: dict[str, Any], prices: PriceList | None) -> dict[str, Any]:
    """Return a row as it is shown, with costs if there are prices."""
    shown = without_number(row)
    if prices is not None:
        shown["measurements"] = [
            each | {COST_COLUMN: row_cost(row | each, row["labels"], prices)}
            for each in row["measurements"]
        ]
    return shown


def read_two(store: Store, ids: list[str], prices: PriceList | None) -> ComparedResults:
    """Return the comparison of two results. Raises RequestError if these are not two."""
    if len(ids) != 2:
        raise RequestError(f"Choose two results to compare, not {len(ids)}.")
    return read_many(store, ids, prices)[0]


def read_many(
    store: Store, ids: list[str], prices: PriceList | None, letters: str = "B" * MOST_COMPARED
) -> list[ComparedResults]:
    """Return the comparison of each further result with the first one. Raises RequestError.

    `letters` stand for the further results in sentences; the first one is A.
    """
    if not 2 <= len(ids) <= MOST_COMPARED:
        raise RequestError(f"Choose 2 to {MOST_COMPARED} results to compare, not {len(ids)}.")
    (first, before), *others = (read_stored(store, each) for each in ids)
    baseline = ComparedSide("A", store.retraction(first.id))
    return [
        compare_results(
            (first.id, other.id),
            (before.document, after.document),
            prices,
            (baseline, ComparedSide(letter, store.retraction(other.id))),
        )
        for letter, (other, after) in zip(letters, others, strict=False)
    ]


def refused_type(request: Request) -> Response | None:
    """Return the refusal of a request whose body is not declared as JSON, None if it is.

    A page of another site cannot send this type: browsers request permission first. They send a
    body without any type.
    """
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind.strip().lower() == "application/json":
        return None
    return json_answer({"error": "Send application/json."}, 415)


CUT_HEADER = "inferometer-cut-at"
"""Of an answer that leaves rows out: how many it was made from, the newest or the first."""


def marked_cut(answer: Response, shown_alone: int | None) -> Response:
    """Return an answer that says in a header whether rows were left out."""
    if shown_alone is not None:
        answer.headers[CUT_HEADER] = str(shown_alone)
    return answer


def json_answer(content: Any, status: int = 200) -> Response:
    """Return an answer as JSON."""
    body = orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)
    return Response(body, status, media_type="application/json")


def csv_answer(rows: list[dict[str, Any]], name: str, columns: Iterable[str]) -> Response:
    """Return rows as a CSV file of this name; the columns are those of every row."""
    return file_answer(as_csv(rows, list(columns)).encode(), "text/csv", f"{name}.csv")


def file_answer(content: bytes, media_type: str, name: str) -> Response:
    """Return a file to save under a name, which consists of letters, digits, points and hyphens."""
    return Response(
        content,
        media_type=media_type,
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )
