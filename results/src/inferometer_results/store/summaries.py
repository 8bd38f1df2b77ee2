"""Questions about many results at once: models, nodes, series, and their measurements."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    exists,
    func,
    literal,
    not_,
    select,
    type_coerce,
    union_all,
)

from inferometer_api.scenarios.table import PROFILED
from inferometer_results.store.comparability import condition_of
from inferometer_results.store.find_ids import MOST_COUNTED
from inferometer_results.store.index_tables import PAGE
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from inferometer_results.store.suite_outcomes import OUTCOME_KIND
from inferometer_results.store.tables import CONDITIONS, DOCUMENT, LABEL, MEASUREMENT, RESULT

FACETS = ("model", "engine", "node", "verdict", "device", "protocol", "namespace", "suite")
"""The columns by whose values the list of runs can be narrowed."""
MOST_MEASUREMENTS = 2000
"""So many of the newest measurements stand in one view."""
MOST_LISTED = 200
"""So many models, nodes, suites or specifications stand in one list."""
_MOST_FACET_VALUES = 8
_NEWEST = func.max(RESULT.c.started_at).label("newest")
_OF_RESULT = (
    "id", "number", "started_at", "name", "namespace", "source", "outcome", "retracted", "model",
    "model_version", "runtime", "engine", "server", "device", "protocol", "node", "cpu", "gpu",
    "spec_digest", "inferometer_version",
)  # fmt: skip


def facets(store: Store, search: Search) -> dict[str, list[tuple[str, int]]]:
    """Return the most frequent values of each facet among the results of a search.

    Of many, those are counted that were stored last.
    """
    matched = (
        select(*(RESULT.c[name] for name in FACETS))
        .where(store.matches(search).in_order(store.engine.dialect.name))
        .order_by(RESULT.c.number.desc())
        .limit(MOST_COUNTED)
        .cte("matched")
    )
    counted = union_all(
        *(
            select(
                literal(name).label("facet"),
                matched.c[name].label("value"),
                func.count().label("count"),
            ).group_by(matched.c[name])
            for name in FACETS
        )
    )
    found: dict[str, list[tuple[str, int]]] = {name: [] for name in FACETS}
    for row in store.select(select(counted.subquery())):
        if row["value"]:
            found[row["facet"]].append((row["value"], row["count"]))
    for values in found.values():
        values.sort(key=lambda each: (-each[1], each[0]))
        del values[_MOST_FACET_VALUES:]
    return found


def models(store: Store, search: Search, most: int = MOST_LISTED) -> list[dict[str, Any]]:
    """Return the models by the number of their results, the most frequent first."""
    return store.select(_counted(store, search, RESULT.c.model).limit(most))


def suites(store: Store, search: Search, most: int = MOST_LISTED) -> list[dict[str, Any]]:
    """Return the suites by the number of their results, the most frequent first.

    Without a condition, suites of which only outcomes are stored come last.
    """
    found = store.select(_counted(store, search, RESULT.c.suite).limit(most))
    if search.where.strip() or len(found) == most:
        return found
    measured = exists().where(RESULT.c.suite == DOCUMENT.c.name, store.condition(search))
    newest = func.max(DOCUMENT.c.received_at)
    query = (
        select(DOCUMENT.c.name.label("suite"), newest.label("newest"))
        .where(DOCUMENT.c.kind == OUTCOME_KIND, not_(measured))
        .group_by(DOCUMENT.c.name)
        .order_by(newest.desc(), DOCUMENT.c.name)
        .limit(most - len(found))
    )
    return [*found, *(row | {"count": 0} for row in store.select(query))]


def nodes(store: Store, search: Search, most: int = MOST_LISTED) -> list[dict[str, Any]]:
    """Return the nodes with their hardware and models, the most frequent first."""
    # As a number, because there is a row for each model of each node.
    newest = type_coerce(func.max(RESULT.c.started_at), BigInteger).label("newest")
    query = _grouped(store, search, RESULT.c.node, RESULT.c.model, newest=newest)
    models_of: dict[str, list[dict[str, Any]]] = {}
    for row in store.select(query):
        models_of.setdefault(row["node"], []).append(row)
    counts = {node: sum(row["count"] for row in rows) for node, rows in models_of.items()}
    listed = sorted(counts, key=lambda node: (-counts[node], node))[:most]
    last = _newest_by_node(
        store, search, {node: max(row["newest"] for row in models_of[node]) for node in listed}
    )
    return [
        {
            "node": node,
            "count": counts[node],
            "newest": last[node]["started_at"],
            "models": [
                row["model"]
                for row in sorted(models_of[node], key=lambda row: (-row["count"], row["model"]))
            ],
            "cpu": last[node]["cpu"],
            "gpu": last[node]["gpu"],
        }
        for node in listed
    ]


def _newest_by_node(
    store: Store, search: Search, starts: Mapping[str, int]
) -> dict[str, dict[str, Any]]:
    """Return the newest result of each node; `starts` has when it started, in milliseconds."""
    query = (
        select(RESULT.c.node, RESULT.c.cpu, RESULT.c.gpu, RESULT.c.started_at)
        .where(
            store.condition(search),
            RESULT.c.node.in_(starts),
            type_coerce(RESULT.c.started_at, BigInteger).in_(starts.values()),
        )
        .order_by(RESULT.c.started_at, RESULT.c.number)
    )
    return {row["node"]: row for row in store.select(query)}


def series(store: Store, search: Search, most: int = MOST_LISTED) -> list[dict[str, Any]]:
    """Return the specifications on a node with the most results, with the name of the newest."""
    counted = _counted(store, search, RESULT.c.spec_digest, RESULT.c.node).having(func.count() > 1)
    return _named(store, store.select(counted.limit(most)))


def specs(store: Store, search: Search, most: int = MOST_LISTED) -> list[dict[str, Any]]:
    """Return the specifications that ran on most nodes, with the name of the newest run."""
    count = func.count(RESULT.c.node.distinct())
    query = (
        select(
            RESULT.c.spec_digest,
            count.label("nodes"),
            func.count().label("count"),
            func.max(RESULT.c.started_at).label("newest"),
        )
        .where(store.condition(search), RESULT.c.spec_digest != "")
        .group_by(RESULT.c.spec_digest)
        .order_by(count.desc(), func.count().desc(), RESULT.c.spec_digest)
        .limit(most)
    )
    return _named(store, store.select(query))


def measurements(
    store: Store, search: Search, *conditions: ColumnElement[bool]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the newest measurements of a search, each with its result; the newest first.

    And whether there are older ones, which are left out. A row `is_profiled` if any scenario of its
    result is a profile.
    """
    query = (
        select(*(RESULT.c[name] for name in _OF_RESULT), *_own_columns())
        .select_from(RESULT.join(MEASUREMENT, MEASUREMENT.c.result_number == RESULT.c.number))
        .where(store.condition(search), *conditions)
        .order_by(RESULT.c.started_at.desc(), RESULT.c.number.desc(), MEASUREMENT.c.position)
        .limit(MOST_MEASUREMENTS + 1)
    )
    found = store.select(query)
    profiled = _profiled(store, {row["number"] for row in found})
    for row in found:
        row["is_profiled"] = row["number"] in profiled
    return found[:MOST_MEASUREMENTS], len(found) > MOST_MEASUREMENTS


def _profiled(store: Store, numbers: Iterable[int]) -> set[int]:
    """Return which of these results have a profile."""
    ordered = sorted(numbers)
    number = MEASUREMENT.c.result_number
    query = select(number).where(MEASUREMENT.c.kind.in_(PROFILED)).distinct()
    return {
        row["result_number"]
        for start in range(0, len(ordered), PAGE)
        for row in store.select(query.where(number.in_(ordered[start : start + PAGE])))
    }


def conditions_of(store: Store, keys: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the conditions of comparability keys, those that are known, by digest."""
    query = select(CONDITIONS).where(CONDITIONS.c.key.in_(sorted(set(keys))))
    return {row["key"]: json.loads(row["content"]) for row in store.select(query)}


def labels_of(store: Store, ids: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the labels and tags of results, by ID."""
    found: dict[str, list[dict[str, Any]]] = {each: [] for each in ids}
    names = list(found)
    own = [column for column in LABEL.columns if column.name != "result_number"]
    query = select(RESULT.c.id, *own).join(LABEL, LABEL.c.result_number == RESULT.c.number)
    for start in range(0, len(names), PAGE):
        some = names[start : start + PAGE]
        for row in store.select(query.where(RESULT.c.id.in_(some)).order_by(*LABEL.primary_key)):
            found[row.pop("id")].append(row)
    return found


def differing_fields(
    keys: Collection[str], conditions: Mapping[str, Mapping[str, str]]
) -> dict[str, list[str]]:
    """Return the conditions in which several keys differ, each with its values."""
    if len(keys) > len(conditions):
        return {"conditions": ["some are not known"]}
    names = dict.fromkeys(name for each in conditions.values() for name in each)
    values = {
        name: sorted({condition_of(each, name) for each in conditions.values()}) for name in names
    }
    return {name: found for name, found in values.items() if len(found) > 1}


def _counted(store: Store, search: Search, *columns: ColumnElement[Any]) -> Select[Any]:
    """Return the query for the most frequent values of columns, as _grouped counts them."""
    query = _grouped(store, search, *columns)
    return query.order_by(func.count().desc(), *columns)


def _grouped(
    store: Store,
    search: Search,
    *columns: ColumnElement[Any],
    newest: ColumnElement[Any] = _NEWEST,
) -> Select[Any]:
    """Return the query for the values of columns, with their number and the newest start."""
    return (
        select(*columns, func.count().label("count"), newest)
        .where(store.condition(search), columns[0] != "")
        .group_by(*columns)
    )


def _own_columns() -> list[ColumnElement[Any]]:
    """Return the columns of a measurement without the number of its result."""
    return [column for column in MEASUREMENT.columns if column.name != "result_number"]


def _named(store: Store, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each row of a specification the name and the model of its newest run."""
    # By their times alone: with the digests, SQLite would read all results of these specifications.
    query = select(RESULT.c.spec_digest, RESULT.c.started_at, RESULT.c.name, RESULT.c.model).where(
        RESULT.c.started_at.in_([row["newest"] for row in rows])
    )
    found = {(row["spec_digest"], row["started_at"]): row for row in store.select(query)}
    for row in rows:
        newest = found.get((row["spec_digest"], row["newest"]), {})
        row |= {"name": newest.get("name", ""), "model": newest.get("model", "")}
    return rows
