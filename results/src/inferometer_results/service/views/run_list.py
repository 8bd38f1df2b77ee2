"""The table of runs: its columns, rows, facets, and the addresses of its other views."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from inferometer_results.explore.model import row_cost
from inferometer_results.explore.prices import PriceList
from inferometer_results.quantity import DASH, duration, energy, significant
from inferometer_results.store.condition import quoted
from inferometer_results.store.query import Search
from inferometer_results.store.scenario_rows import short_id, stack, started, tags
from inferometer_results.store.search_fields import COST
from inferometer_results.store.store import Page

_MOST_ROWS = 6
"""Of one result."""
Text = Callable[[dict[str, Any], dict[str, Any], PriceList | None], str]
"""Returns the text of a cell from a result, a measurement of it, and the prices."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; by its field the table can be sorted, if it has one."""

    name: str
    heading: str
    text: Text
    field: str = ""
    of_scenario: bool = False
    is_number: bool = False
    is_default: bool = True

    @property
    def largest_first(self) -> bool:
        """Whether its heading first sorts by the largest."""
        return self.name in {"started", "qps", "samples", "peak", "queries"}


def _of_result(name: str) -> Text:
    return lambda result, _, __: str(result[name])


def _of_measurement(name: str, text: Callable[[Any], str]) -> Text:
    return lambda _, measured, __: DASH if measured[name] is None else text(measured[name])


def _scenario(_: dict[str, Any], measured: dict[str, Any], __: PriceList | None) -> str:
    name, repeat = str(measured["scenario"]), measured["repeat"]
    return name if repeat == 1 else f"{name} #{repeat}"


def _cost(result: dict[str, Any], measured: dict[str, Any], prices: PriceList | None) -> str:
    cost = row_cost(result | measured, result["labels"], prices)
    return DASH if cost is None else significant(cost)


def _count(value: int) -> str:
    return f"{value:,}"


def _columns() -> tuple[Column, ...]:
    number: dict[str, Any] = {"of_scenario": True, "is_number": True}
    more: dict[str, Any] = {"is_default": False}
    return (
        Column("run", "Run", _of_result("name"), "run"),
        Column("started", "Started", lambda result, _, __: started(result), "started"),
        Column("model", "Model", _of_result("model"), "model"),
        Column("stack", "Stack", lambda result, _, __: stack(result), "engine"),
        Column("node", "Node", _of_result("node"), "node"),
        Column("namespace", "Namespace", _of_result("namespace"), "namespace", **more),
        Column("suite", "Suite", _of_result("suite"), "suite", **more),
        Column("device", "Device", _of_result("device"), "device", **more),
        Column("protocol", "Protocol", _of_result("protocol"), "protocol", **more),
        Column("cpu", "CPU", _of_result("cpu"), "node.cpu", **more),
        Column("gpu", "GPU", _of_result("gpu"), "node.gpu", **more),
        Column("source", "Source", _of_result("source"), "source", **more),
        Column("scenario", "Scenario", _scenario, of_scenario=True),
        Column("step", "Step", _of_measurement("step", str), of_scenario=True, **more),
        Column("verdict", "Verdict", _of_measurement("verdict", str), "verdict", of_scenario=True),
        Column("qps", "Queries/s", _of_measurement("qps", significant), "qps", **number),
        Column("peak", "Peak", _of_measurement("peak_qps", significant), "peak", **number, **more),
        Column(
            "samples",
            "Inferences/s",
            _of_measurement("samples_per_second", significant),
            "samples",
            **number,
            **more,
        ),
        *(
            Column(
                name,
                name,
                _of_measurement(f"{column}_nanoseconds", duration),
                name,
                **number,
                is_default=name in {"p50", "p99"},
            )
            for name, column in (("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p99.9", "p999"))
        ),
        Column(
            "energy",
            "J/inference",
            _of_measurement("microjoules_per_inference", energy),
            "energy",
            **number,
        ),
        Column(COST, "Cost/1M", _cost, COST, **number),
        Column(
            "queries", "Queries", _of_measurement("queries", _count), "queries", **number, **more
        ),
        Column("errors", "Errors", _of_measurement("errors", _count), "errors", **number, **more),
    )


COLUMNS = _columns()
"""Every column, in the order of the table. The first one is always shown."""


@dataclass(frozen=True, slots=True)
class ScenarioTexts:
    """A scenario of a result in the table: its cells by the names of their columns."""

    verdict: str
    reasons: str
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A result in the table: its cells by the names of their columns."""

    id: str
    name: str
    started: str
    retracted: str | None
    tags: tuple[str, ...]
    cells: Mapping[str, str]
    rows: tuple[ScenarioTexts, ...]
    more: int
    """How many scenarios are left out."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What the address of the list says."""

    search: Search
    columns: tuple[Column, ...]
    """Those that are shown."""
    has_default_columns: bool = True

    def url(self, path: str = "/", **changed: Any) -> str:
        """Return the address of this list under a path, with other parameters."""
        search = replace(self.search, **changed)
        return f"{path}?{urlencode(list(self._parameters(search)))}"

    def first_url(self, path: str = "/", **changed: Any) -> str:
        """Return the same from the first result on."""
        return self.url(path, offset=0, after="", before="", **changed)

    def data_url(self, form: str) -> str:
        """Return the address of this list as data."""
        return f"{self.url('/api/v1/results')}&format={form}"

    def narrowed_url(self, field: str, value: str) -> str | None:
        """Return the address of the list with one more condition; None if it cannot be written."""
        if "\0" in value:
            return None
        condition = f"{field}={quoted(value)}"
        where = self.search.where.strip()
        if where:
            # Brackets and quotes may touch the word; a value may have it, too, which does no harm.
            has_or = re.search(r"\bor\b", where) is not None
            condition = f"({where}) and {condition}" if has_or else f"{where} and {condition}"
        return self.first_url(where=condition)

    def sort_url(self, column: Column) -> str:
        """Return the address that a heading leads to: the other order if it is sorted by it."""
        first, second = column.field, f"-{column.field}"
        if column.largest_first:
            first, second = second, first
        return self.first_url(sort=second if self.search.sort == first else first)

    def _parameters(self, search: Search) -> Iterator[tuple[str, Any]]:
        if search.text:
            yield "text", search.text
        if search.where:
            yield "where", search.where
        yield "sort", search.sort
        yield "limit", search.limit
        if search.offset:
            yield "offset", search.offset
        for name, id_ in (("after", search.after), ("before", search.before)):
            if id_:
                yield name, short_id(id_)
        if search.with_retracted:
            yield "retracted", "true"
        if not self.has_default_columns:
            for each in self.columns[1:]:
                yield "columns", each.name


@dataclass(frozen=True, slots=True)
class RunList:
    """One page of the table."""

    query: ListQuery
    total: int
    is_exact: bool
    """Whether there are no more than `total`."""
    runs: tuple[ListedRun, ...]
    first: int
    """The number of the first result, from 1; 0 if there is none."""
    last: int
    first_url: str | None
    """Of the first page, unless this is it."""
    previous_url: str | None
    next_url: str | None


def every_column(prices: PriceList | None) -> tuple[Column, ...]:
    """Return all columns; the cost has its currency, and is left out without prices."""
    if prices is None:
        return tuple(each for each in COLUMNS if each.name != COST)
    heading = f"{prices.currency}/1M"
    return tuple(replace(each, heading=heading) if each.name == COST else each for each in COLUMNS)


def list_query(search: Search, names: Sequence[str], prices: PriceList | None) -> ListQuery:
    """Return what an address says: the columns of these names, the default ones without any."""
    columns = every_column(prices)
    found = tuple(each for each in columns[1:] if each.name in names)
    usual = tuple(each for each in columns if each.is_default)
    chosen = (columns[0], *found) if found else usual
    return ListQuery(search, chosen, chosen == usual)


def run_list(query: ListQuery, page: Page, prices: PriceList | None) -> RunList:
    """Return the table of a page of a search."""
    search, found = query.search, page.rows
    first = search.offset if page.has_previous else 0
    end = first + len(found)
    previous = next_ = None
    if found and page.has_previous:
        offset = max(0, first - (search.limit or len(found)))
        previous = query.url(offset=offset, before=found[0]["id"], after="")
    if found and page.has_next:
        next_ = query.url(offset=end, after=found[-1]["id"], before="")
    return RunList(
        query,
        page.total,
        page.is_exact,
        tuple(listed_run(each, query.columns, prices) for each in found),
        first + 1 if found else 0,
        end,
        query.first_url() if page.has_previous or search.offset else None,
        previous,
        next_,
    )


def listed_run(
    result: dict[str, Any], columns: Sequence[Column], prices: PriceList | None
) -> ListedRun:
    """Return a result that `Store.find` returned as it is listed."""
    rows = [
        _texts(result, each, columns, prices) for each in result["measurements"] if each["headline"]
    ]
    rows = rows or [ScenarioTexts(_verdict(result, result["verdict"]), "", {})]
    return ListedRun(
        result["id"],
        result["name"],
        started(result),
        result["retracted"],
        tuple(tags(result)),
        {each.name: each.text(result, {}, prices) for each in columns if not each.of_scenario},
        tuple(rows[:_MOST_ROWS]),
        max(0, len(rows) - _MOST_ROWS),
    )


def _texts(
    result: dict[str, Any],
    measured: dict[str, Any],
    columns: Sequence[Column],
    prices: PriceList | None,
) -> ScenarioTexts:
    cells = {each.name: each.text(result, measured, prices) for each in columns if each.of_scenario}
    return ScenarioTexts(_verdict(result, measured["verdict"]), measured["reasons"], cells)


def _verdict(result: dict[str, Any], verdict: str) -> str:
    """Return a verdict; that of a retracted result is that word."""
    return "RETRACTED" if result["retracted"] is not None else verdict
