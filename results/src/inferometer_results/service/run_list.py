"""The table of runs: its columns, rows, and the addresses of its other pages and orders."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from inferometer_results.quantity import duration, energy, significant
from inferometer_results.store.query import Search
from inferometer_results.store.scenario_rows import ScenarioRow, scenario_rows, stack, started, tags

_MOST_ROWS = 6
"""Of one result."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; by its field the table can be sorted."""

    heading: str
    field: str
    is_number: bool = False
    largest_first: bool = False
    """Whether its heading first sorts by the largest."""


COLUMNS = (
    Column("Run", "run"),
    Column("Started", "started", largest_first=True),
    Column("Model", "model"),
    Column("Stack", "engine"),
    Column("Node", "node"),
    Column("Scenario", "scenario"),
    Column("Verdict", "verdict"),
    Column("Queries/s", "qps", is_number=True, largest_first=True),
    Column("p50", "p50", is_number=True),
    Column("p99", "p99", is_number=True),
    Column("J/inference", "energy", is_number=True),
)


@dataclass(frozen=True, slots=True)
class ScenarioTexts:
    """A row of the table, as it is read."""

    scenario: str
    verdict: str
    reasons: str
    figures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A result in the table."""

    id: str
    name: str
    started: str
    model: str
    stack: str
    node: str
    retracted: str | None
    tags: tuple[str, ...]
    rows: tuple[ScenarioTexts, ...]
    more: int
    """How many scenarios are left out."""


@dataclass(frozen=True, slots=True)
class RunList:
    """One page of the table."""

    search: Search
    total: int
    runs: tuple[ListedRun, ...]
    first: int
    """The number of the first result, from 1; 0 if there is none."""
    last: int
    previous_url: str | None
    next_url: str | None
    sort_urls: tuple[str, ...]
    """For each column."""
    csv_url: str
    json_url: str


def run_list(search: Search, found: Sequence[dict[str, Any]], total: int) -> RunList:
    """Return the page of a search that found these results of so many in all."""
    limit = search.limit or len(found)
    end = search.offset + len(found)
    return RunList(
        search,
        total,
        tuple(map(listed_run, found)),
        search.offset + 1 if found else 0,
        end,
        _url("/", search, offset=max(0, search.offset - limit)) if search.offset else None,
        _url("/", search, offset=end) if found and end < total else None,
        tuple(_url("/", search, sort=_next_sort(search.sort, each), offset=0) for each in COLUMNS),
        _url("/api/v1/results", search, format="csv"),
        _url("/api/v1/results", search, format="json"),
    )


def listed_run(result: dict[str, Any]) -> ListedRun:
    """Return a result that `Store.find` returned as it is listed."""
    rows = scenario_rows(result)
    return ListedRun(
        result["id"],
        result["name"],
        started(result),
        result["model"],
        stack(result),
        result["node"],
        result["retracted"],
        tuple(tags(result)),
        tuple(_texts(each) for each in rows[:_MOST_ROWS]),
        max(0, len(rows) - _MOST_ROWS),
    )


def _texts(row: ScenarioRow) -> ScenarioTexts:
    if row.qps is None:
        return ScenarioTexts(row.scenario, row.verdict, row.reasons, ("", "", "", ""))
    figures = (
        significant(row.qps),
        duration(row.p50_nanoseconds),
        duration(row.p99_nanoseconds),
        energy(row.microjoules_per_inference),
    )
    return ScenarioTexts(row.scenario, row.verdict, row.reasons, figures)


def _next_sort(now: str, column: Column) -> str:
    """Return the order that a click on a heading selects: the other one if it is sorted by it."""
    first, second = column.field, f"-{column.field}"
    if column.largest_first:
        first, second = second, first
    return second if now == first else first


def _url(path: str, search: Search, **changed: Any) -> str:
    return f"{path}?{urlencode(dict(_parameters(search)) | changed)}"


def _parameters(search: Search) -> Iterator[tuple[str, Any]]:
    if search.where:
        yield "where", search.where
    yield "sort", search.sort
    yield "limit", search.limit
    if search.offset:
        yield "offset", search.offset
    if search.with_retracted:
        yield "retracted", "true"
