"""The rows of the index: how they are written, removed, and read."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Result, Table, delete, insert, literal, select, union_all
from sqlalchemy.dialects import postgresql, sqlite

from inferometer_results.store.index_rows import IndexRows
from inferometer_results.store.tables import (
    CONDITIONS,
    LABEL,
    MEASUREMENT,
    NODE_SET,
    RESULT,
    SHOWN,
)

PAGE = 200
"""So many results are read or written by one statement."""


def insert_rows(connection: Connection, indexed: Sequence[IndexRows]) -> None:
    """Insert the rows of results."""
    connection.execute(insert(RESULT), [each.result for each in indexed])
    _insert_missing(
        connection,
        {
            CONDITIONS: [row for each in indexed for row in each.conditions],
            NODE_SET: [row for each in indexed for row in each.node_sets],
        },
    )
    for table, rows in (
        (MEASUREMENT, [row for each in indexed for row in each.measurements]),
        (LABEL, [row for each in indexed for row in each.labels]),
    ):
        if rows:
            connection.execute(insert(table), rows)


def _insert_missing(connection: Connection, rows: Mapping[Table, Sequence[dict[str, Any]]]) -> None:
    """Insert rows by their keys, those that are missing: most are there already."""
    missing = {table: {row["key"]: row for row in of_table} for table, of_table in rows.items()}
    # One query for all: each is a round trip to the database.
    queries = [
        select(literal(table.name), table.c.key).where(table.c.key.in_(found))
        for table, found in missing.items()
    ]
    known = {(name, key) for name, key in connection.execute(union_all(*queries))}
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    for table, found in missing.items():
        # Another writer may insert the same ones meanwhile: in the same order, so neither waits
        # for what the other holds.
        added = [found[key] for key in sorted(found) if (table.name, key) not in known]
        if added:
            statement = dialect.insert(table).on_conflict_do_nothing(index_elements=["key"])
            connection.execute(statement, added)


def clear(connection: Connection, ids: Sequence[str]) -> None:
    """Remove results from the index."""
    numbers = select(RESULT.c.number).where(RESULT.c.id.in_(ids))
    for column in (LABEL.c.result_number, MEASUREMENT.c.result_number):
        connection.execute(delete(column.table).where(column.in_(numbers)))
    connection.execute(delete(RESULT).where(RESULT.c.id.in_(ids)))


def rows_by_id(connection: Connection, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the row of each result by its ID."""
    found: dict[str, dict[str, Any]] = {}
    for start in range(0, len(ids), PAGE):
        query = select(*SHOWN).where(RESULT.c.id.in_(ids[start : start + PAGE]))
        found |= {row["id"]: row for row in plain_rows(connection.execute(query))}
    return found


def plain_rows(found: Result[Any]) -> list[dict[str, Any]]:
    """Return rows by the plain names of their columns."""
    names = list(map(str, found.keys()))
    return [dict(zip(names, row, strict=True)) for row in found]


def attach(connection: Connection, rows: list[dict[str, Any]], name: str, query: Any) -> None:
    """Give each result the rows of another table that belong to it, under a name."""
    by_number: dict[int, dict[str, Any]] = {row["number"]: row for row in rows}
    for row in rows:
        row[name] = []
    numbers = list(by_number)
    column = query.selected_columns["result_number"]
    for start in range(0, len(numbers), PAGE):
        some = query.where(column.in_(numbers[start : start + PAGE]))
        for found in plain_rows(connection.execute(some)):
            by_number[found.pop("result_number")][name].append(found)
