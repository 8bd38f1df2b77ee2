"""Results for the store: the kept documents of each version, copied under other names."""

import gc
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event, inspect

from inferometer_results.store.index_rows import Origin
from inferometer_results.store.migrations import upgrade
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from inferometer_results.store.tables import FIGURES, best_column
from support.waiting import wait_until

KEPT = Path(__file__).resolve().parents[1] / "data" / "results"
ORIGIN = Origin("import", "2026-01-31T12:00:00.000Z")
CLUSTER = json.loads((KEPT / "1.1-cluster.json").read_bytes())
LOCAL = json.loads((KEPT / "1.1-local.json").read_bytes())


_NEW_INDEXES = (
    *("cluster_uid", "source", "outcome", "model_version", "engine", "server", "device"),
    *("protocol", "cpu", "gpu"),
)
_OLD_INDEXES = (
    *("time", "namespace", "namespace_uid", "name", "model", "model_sha256", "runtime", "verdict"),
    "node",
)
OLDER_TIME = "2026-11-24T08:30:15.250Z"
"""When each result of such a database started."""
OLDER_SCHEMA = (
    "DROP INDEX result_by_cost;"
    + "".join(
        f"DROP INDEX result_by_{name};" for name in (*_NEW_INDEXES, *map(best_column, FIGURES))
    )
    + "".join(f"ALTER TABLE result DROP COLUMN {best_column(name)};" for name in FIGURES)
    + """
DROP INDEX document_by_kind;
DROP INDEX result_by_spec; DROP INDEX result_by_place; DROP INDEX result_by_suite;
"""
    + "".join(f"DROP INDEX result_by_{name};" for name in _OLD_INDEXES)
    + "".join(
        f"ALTER TABLE result DROP COLUMN {name};"
        f"ALTER TABLE result ADD COLUMN {name} VARCHAR NOT NULL DEFAULT '{OLDER_TIME}';"
        for name in ("started_at", "finished_at", "received_at")
    )
    + "".join(f"CREATE INDEX result_by_{name} ON result (started_at);" for name in _OLD_INDEXES)
    + """
CREATE TABLE older AS SELECT result.id AS result_id, measurement.*
FROM measurement JOIN result ON result.number = result_number;
DROP TABLE measurement; ALTER TABLE older RENAME TO measurement;
CREATE INDEX measurement_by_key ON measurement (key);
CREATE INDEX measurement_by_p99 ON measurement (p99_nanoseconds);
CREATE INDEX measurement_by_qps ON measurement (qps);
CREATE TABLE older AS SELECT result.id AS result_id, label.*
FROM label JOIN result ON result.number = result_number;
DROP TABLE label; ALTER TABLE older RENAME TO label;
CREATE INDEX label_by_name ON label (name, value);
ALTER TABLE result DROP COLUMN spec_digest; ALTER TABLE result DROP COLUMN words;
DROP TABLE conditions; DROP TABLE node_set;
ALTER TABLE result DROP COLUMN node_set;
UPDATE alembic_version SET version_num = '0002';
"""
)
"""Turns a database of today into one of migration 0002."""


def a_document(number: int = 0, like: dict[str, Any] = CLUSTER, **fields: Any) -> bytes:
    """Return a result document of its own run, with other fields at its top."""
    return json.dumps(like | {"runId": f"run-{number:05}"} | fields).encode()


def fill_with_equals(store: Store) -> None:
    """Keep results that are equal in most fields and figures; some have no figure."""
    for number in range(12):
        fields: dict[str, Any] = {"scenarios": []} if number % 4 == 3 else {}
        like = LOCAL if number % 3 == 0 else CLUSTER
        store.add(a_document(number, like, **fields), ORIGIN, source="x")


_PAGE = 5


def pages_forwards(store: Store, where: str, sort: str) -> list[str]:
    """Return the IDs of a list, read page by page from its first result to its last."""
    found: list[str] = []
    while True:
        page = store.page(Search(where, sort, _PAGE, after=found[-1] if found else ""))
        assert page.has_previous == bool(found)
        found += [each["id"] for each in page.rows]
        if not page.has_next:
            return found
        assert len(page.rows) == _PAGE


def pages_backwards(store: Store, where: str, sort: str) -> list[str]:
    """Return the same, read page by page from its last result to its first."""
    found = store.find_ids(Search(where, sort))[-1:]
    while True:
        page = store.page(Search(where, sort, _PAGE, before=found[0]))
        assert page.has_next
        found = [*(each["id"] for each in page.rows), *found]
        if not page.has_previous:
            return found


def answers(store: Store) -> str:
    """Return all results of a store with their rows, as text."""
    return json.dumps(store.find(Search("", "started", with_retracted=True)), sort_keys=True)


def add_and_die(address: str, content: bytes, statement: int) -> bool:
    """Add a document in a process that ends at this statement; return whether it came so far."""
    return run_and_die(
        address, lambda store: store.add(content, ORIGIN, source="a document"), statement
    )


def run_and_die(address: str, action: Callable[[Store], object], statement: int) -> bool:
    """Use a store in a process that ends at this statement; return whether it came so far."""
    # Garbage of earlier tests would be collected in the child too, and an engine's session that is
    # collected there waits forever for its threads, which are not there.
    gc.disable()
    try:
        child = os.fork()
        if child == 0:
            _run_and_die(address, action, statement)
    finally:
        gc.enable()
    codes: list[int] = []

    def has_ended() -> bool:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            codes.append(os.waitstatus_to_exitcode(status))
        return bool(ended)

    wait_until(has_ended, f"the end of process {child}", poll_seconds=0.005)
    return codes == [_DIED]


_DIED = 9


def _run_and_die(address: str, action: Callable[[Store], object], statement: int) -> None:
    try:
        store = Store(address)
        left = [statement]

        def die(*_: object) -> None:
            left[0] -= 1
            if left[0] == 0:
                os._exit(_DIED)

        for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
            event.listen(store.engine, name, die)
        action(store)
    finally:
        os._exit(0)


def schema_of(connection: Connection) -> dict[str, Any]:
    """Return the columns in their order, the keys and the indexes of every table."""
    found = inspect(connection)
    return {
        table: {
            "columns": {
                each["name"]: (str(each["type"]), each["nullable"], each["default"])
                for each in found.get_columns(table)
            },
            "key": found.get_pk_constraint(table)["constrained_columns"],
            "unique": [each["column_names"] for each in found.get_unique_constraints(table)],
            "foreign": [
                (each["constrained_columns"], each["referred_table"], each["options"])
                for each in found.get_foreign_keys(table)
            ],
            "indexes": sorted(
                (each["name"] or "", str(each.get("expressions", each["column_names"])))
                for each in found.get_indexes(table)
                if not each.get("duplicates_constraint")
            ),
        }
        for table in sorted(found.get_table_names())
    }


def assert_migrations_make_the_tables(engine: Engine, new: dict[str, Any]) -> None:
    """Check that all migrations together make the schema of a new database in this empty one."""
    with engine.begin() as connection:
        upgrade(connection)
        found = schema_of(connection)
    assert found == new
    # A search by words depends on it.
    assert list(found["result"]["columns"]) == list(new["result"]["columns"])
