"""Limits what a store reads to the results of some namespaces, whatever the statement.

Each table that a statement names is replaced by its visible rows: a common table expression shadows
the table. So no reader has to repeat the condition, and none can forget it.
"""

import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from sqlalchemy import Engine, Table, event

from inferometer_results.store.tables import CONDITIONS, DOCUMENT, METADATA, NODE_SET, RESULT

Readable = frozenset[str] | None
"""The UIDs of the namespaces whose results are visible; None: all results are."""

READABLE: ContextVar[Readable] = ContextVar("READABLE", default=frozenset())
"""What the caller of a request may read: nothing until someone has decided."""

_UID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
_WITH = re.compile(r"\s*WITH\s+(RECURSIVE\s+)?", re.IGNORECASE)


def limit_reading(engine: Engine) -> None:
    """Have connections with the execution option `readable` see no other rows."""

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def _limit(
        connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any
    ) -> tuple[str, Any]:
        readable: Readable = connection.get_execution_options().get("readable")
        if readable is not None and statement != "BEGIN":
            # SQLite names no schema of its own.
            schema = connection.dialect.default_schema_name or "main"
            statement = limited(statement, readable, schema)
        return statement, parameters


def limited(statement: str, namespace_uids: Iterable[str], schema: str) -> str:
    """Return a statement that reads only rows of these namespaces."""
    wrong = [uid for uid in namespace_uids if not _UID.fullmatch(uid)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is not the UID of a namespace.")
    uids = ", ".join(f"'{uid}'" for uid in sorted(namespace_uids)) or "NULL"
    visible = ", ".join(
        f"{table.name} AS NOT MATERIALIZED ({_rows(table, uids, schema)})"
        for table in METADATA.sorted_tables
    )
    own = _WITH.match(statement)
    if own is None:
        return f"WITH {visible} {statement}"
    return f"WITH {own[1] or ''}{visible}, {statement[own.end() :]}"


def _rows(table: Table, uids: str, schema: str) -> str:
    """Return the query for the visible rows of a table; of one without an owner, none is."""
    rows = f'SELECT * FROM "{schema}".{table.name} WHERE'  # noqa: S608 - our own names
    if "namespace_uid" in table.c:
        return f"{rows} namespace_uid IN ({uids})"
    for owner, key in ((RESULT, "number"), (DOCUMENT, "id")):
        if f"{owner.name}_{key}" in table.c:
            visible = f'SELECT {key} FROM "{schema}".{owner.name} WHERE namespace_uid IN ({uids})'  # noqa: S608 - the UIDs were checked
            return f"{rows} {owner.name}_{key} IN ({visible})"
    if table is CONDITIONS:
        return (
            f'{rows} EXISTS (SELECT 1 FROM "{schema}".measurement '  # noqa: S608 - our own names
            f'JOIN "{schema}".result ON result.number = measurement.result_number '
            f"WHERE measurement.key = conditions.key AND namespace_uid IN ({uids}))"
        )
    if table is NODE_SET:
        return (
            f'{rows} EXISTS (SELECT 1 FROM "{schema}".result '  # noqa: S608 - our own names
            f"WHERE result.node_set = node_set.key AND namespace_uid IN ({uids}))"
        )
    return f"{rows} 1 = 0"


def from_context() -> Callable[[], Readable]:
    """Return what gives a store the limit of the request that it answers."""
    return READABLE.get
