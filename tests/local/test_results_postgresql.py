"""PostgreSQL keeps results as SQLite does: a real server, its faults included."""

import json
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event, inspect, text
from starlette.testclient import TestClient

from inferometer_results.explore.prices import read_prices
from inferometer_results.service.access.rules import AccessRules
from inferometer_results.service.app import create_app
from inferometer_results.store import database
from inferometer_results.store.database import NoSuchResultError, StoreError
from inferometer_results.store.index_rows import JournalRow, Origin
from inferometer_results.store.query import Search
from inferometer_results.store.search_fields import SORTING, SearchError
from inferometer_results.store.store import Store
from inferometer_results.store.summaries import facets
from inferometer_results.store.tables import METADATA
from inferometer_results.store.transfer import archive_lines, import_archive
from support.explored_results import MODEL, PRICES, SUITE, fill_store
from support.postgresql import postgresql, run_program
from support.stored_results import (
    LOCAL,
    OLDER_SCHEMA,
    ORIGIN,
    a_document,
    add_and_die,
    answers,
    assert_migrations_make_the_tables,
    fill_with_equals,
    pages_backwards,
    pages_forwards,
    run_and_die,
    schema_of,
)
from support.waiting import result_of

TAG = JournalRow("2026-02-01T00:00:00.000Z", "ann", "tag", "baseline")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Start a server; a socket's path is short."""
    with tempfile.TemporaryDirectory(prefix="pg-") as folder, postgresql(Path(folder)) as address:
        yield address


@pytest.fixture
def address(server: str) -> Iterator[str]:
    """Return the address of an empty database."""
    yield server
    with Store(server) as store, store.engine.begin() as connection:
        METADATA.drop_all(connection)


def test_migrations_make_the_tables_of_a_new_database(address: str) -> None:
    """As in SQLite."""
    with Store(address) as store:
        with store.engine.begin() as connection:
            new = schema_of(connection)
            METADATA.drop_all(connection)
        assert_migrations_make_the_tables(store.engine, new)


def test_many_writers_prepare_a_new_database_and_keep_a_document_once(address: str) -> None:
    """Eight services that start at once: one makes the tables, one keeps the document."""

    def add(_: int) -> bool:
        with Store(address) as store:
            return store.add(a_document(), ORIGIN, source="x").is_new

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(add, range(16))) == 1


def test_a_store_moves_from_sqlite_and_answers_the_same(address: str, tmp_path: Path) -> None:
    """Every search finds the same in the same order, also after the index was made anew."""
    with Store(str(tmp_path / "results.db")) as sqlite, Store(address) as shared:
        for number in range(20):
            like = LOCAL if number % 7 == 0 else None
            content = a_document(number, like) if like else a_document(number)
            sqlite.note(sqlite.add(content, ORIGIN, source="x").id, TAG)
        assert all(each.is_new for each in import_archive(shared, archive_lines(sqlite), source=""))
        assert answers(shared) == answers(sqlite)
        for name in SORTING:
            search = Search("p99<50ms or model~net", f"-{name}")
            assert [each["id"] for each in shared.find(search)] == [
                each["id"] for each in sqlite.find(search)
            ], name
        before = answers(shared)
        assert list(shared.reindex()) == [20]
        assert answers(shared) == before


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_list_continues_after_any_of_its_results(address: str, tmp_path: Path, sign: str) -> None:
    """In the order of every field, forwards and backwards, as with SQLite."""
    with Store(str(tmp_path / "results.db")) as sqlite, Store(address) as shared:
        fill_with_equals(sqlite)
        fill_with_equals(shared)
        either = Search("run=test or p99<1ns or qps>1e9 or kind~none")
        assert shared.find_ids(either) == sqlite.find_ids(either)
        assert len(shared.find_ids(either)) == 8
        for name in SORTING:
            sort = f"{sign}{name}"
            whole = sqlite.find_ids(Search("", sort))
            assert shared.find_ids(Search("", sort)) == whole, sort
            assert pages_forwards(shared, "", sort) == whole, sort
            assert pages_backwards(shared, "", sort) == whole, sort


_PATHS = (
    "/", "/?limit=3&offset=3", "/?sort=p99", "/?sort=-qps&where=p99%3C10s", "/?text=bench-2",
    "/?where=label.commit%3D3f3be83%20and%20qps%3E0", "/?where=verdict%3DVALID%20or%20p99%3C1ms",
    "/?sort=cost", "/?sort=-cost&where=cost%3C1000",
    "/?where=errors%3E0&retracted=true", "/facets", "/facets?where=node~bench", "/models",
    f"/model?model={MODEL}&mixed=true", "/trends", "/nodes", "/suites", f"/suites/{SUITE}",
    "/api/v1/results?limit=500", "/api/v1/journal", "/api/v1/specs", "/api/v1/facets",
    "/api/v1/archive", f"/api/v1/model?model={MODEL}&scenario=sizes",
)  # fmt: skip


def test_every_page_and_answer_is_that_of_sqlite(address: str, tmp_path: Path) -> None:
    """Byte for byte, in the same order: conditions, figures, facets, summaries, suites."""
    with Store(str(tmp_path / "results.db")) as sqlite, Store(address) as shared:
        assert fill_store(sqlite) == fill_store(shared)
        (row,) = sqlite.find(Search(f'model="{MODEL}"', limit=1))
        series = f"spec={row['spec_digest']}&node=bench-1&figure=p50"
        paths = [*_PATHS, f"/trend?{series}", f"/node-figures?{series}", f"/results/{row['id']}"]
        clients = [_client(each) for each in (sqlite, shared)]
        for path in paths:
            first, second = (client.get(path) for client in clients)
            assert first.status_code == 200, path
            assert second.content == first.content, path


def _client(store: Store) -> TestClient:
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0, read_prices(PRICES, "prices"))
    return TestClient(app, base_url="http://127.0.0.1:8090")


def test_a_database_of_an_older_schema_is_indexed_again(address: str) -> None:
    """With the columns, tables and indexes of today."""
    with Store(address) as store:
        for number in range(3):
            store.note(store.add(a_document(number), ORIGIN, source="x").id, TAG)
        before = answers(store)
        with store.engine.begin() as connection:
            for statement in OLDER_SCHEMA.split(";")[:-1]:
                connection.exec_driver_sql(statement)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: _reopened(address), range(4))) == [before] * 4
    with Store(address) as store:
        found = inspect(store.engine)
        for table in METADATA.sorted_tables:
            indexes = {each["name"] for each in found.get_indexes(table.name)}
            assert {str(each.name) for each in table.indexes} <= indexes
        assert store.count(Search(text="baseline")) == 3


def _reopened(address: str) -> str:
    with Store(address) as store:
        return answers(store)


def test_values_that_no_column_can_hold_are_refused_or_replaced(address: str) -> None:
    """A text of PostgreSQL has no NUL: a search with one is refused, a document is kept whole."""
    content = a_document(1, LOCAL)
    document = json.loads(content)
    document["environment"]["model"]["name"] = "a\0b"
    with Store(address) as store:
        kept = store.add(json.dumps(document).encode(), ORIGIN, source="x")
        (row,) = store.find(Search())
        assert row["model"] == "a\N{REPLACEMENT CHARACTER}b"
        assert json.loads(store.read(kept.id).content) == document
        with pytest.raises(SearchError):
            store.find(Search('model="a\0b"'))
        assert store.count(Search("queries<1e300 and qps<1e400")) == 1


def test_a_limited_reader_sees_the_results_of_the_own_namespaces_alone(address: str) -> None:
    """As with SQLite, whatever the statement: searches, documents, tags."""
    own, other = (
        Origin("operator", ORIGIN.received_at, "cluster-1", name, f"uid-{name}") for name in "ab"
    )
    with Store(address) as whole, Store(address, lambda: frozenset({"uid-a"})) as limited:
        ids = [whole.add(a_document(number), own, source="x").id for number in range(3)]
        for number in range(3, 6):
            whole.note(whole.add(a_document(number), other, source="x").id, TAG)
        for name in SORTING:
            search = Search("p99<50ms or model~net", f"-{name}", with_retracted=True)
            assert {each["id"] for each in limited.find(search)} == set(ids), name
        assert limited.count(Search()) == 3
        assert {each.id for each in limited.documents()} == set(ids)
        assert limited.journal() == []
    with Store(address, frozenset[str]) as nobody:
        assert nobody.count(Search()) == 0


def test_a_process_that_dies_at_any_statement_leaves_all_or_nothing(address: str) -> None:
    """After each death the document is whole or absent."""
    Store(address).__exit__()
    statement = 1
    while add_and_die(address, a_document(statement), statement):
        with Store(address) as store:
            assert {row["id"] for row in store.find(Search())} == {
                each.id for each in store.documents()
            }
        statement += 1
    assert statement > 5


def test_a_database_that_goes_away_loses_nothing_that_was_kept(address: str) -> None:
    """The server ends the connection in mid-ingest: a sentence, and the next attempt succeeds."""
    with Store(address) as store:
        store.add(a_document(1), ORIGIN, source="x")
        with Store(address) as other:
            seen: list[object] = []

            def end(connection: object, *_: object) -> None:
                if not seen:
                    seen.append(connection)
                    with other.engine.begin() as admin:
                        admin.execute(
                            text(
                                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                                "datname = current_database() AND pid <> pg_backend_pid()"
                            )
                        )

            event.listen(store.engine, "before_cursor_execute", end)
            with pytest.raises(StoreError, match="terminating connection"):
                store.add(a_document(2), ORIGIN, source="x")
        assert store.count(Search()) == 1
        assert store.add(a_document(2), ORIGIN, source="x").is_new
        assert store.count(Search()) == 2


def test_a_dump_brings_results_back(address: str) -> None:
    """The documented backup of PostgreSQL: pg_dump, then psql into an empty database."""
    with Store(address) as store:
        for number in range(3):
            store.note(store.add(a_document(number), ORIGIN, source="x").id, TAG)
        before = answers(store)
        dump = run_program("pg_dump", "--no-owner", address)
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as admin:
            admin.execute(text("CREATE DATABASE restored"))
    other = address.replace("/postgres?", "/restored?")
    run_program("psql", "--quiet", "--set=ON_ERROR_STOP=1", other, stdin=dump)
    with Store(other) as restored:
        assert answers(restored) == before
        assert restored.add(a_document(9), ORIGIN, source="x").is_new
    with Store(address) as store, store.engine.connect() as connection:
        admin = connection.execution_options(isolation_level="AUTOCOMMIT")
        admin.execute(text("DROP DATABASE restored"))


@pytest.mark.parametrize("action", ["note", "delete", "reindex"])
def test_a_change_that_dies_at_any_statement_is_made_or_not(address: str, action: str) -> None:
    """The same as of SQLite, for one statement after the other."""
    with Store(address) as store:
        ids = [store.add(a_document(number), ORIGIN, source="x").id for number in range(2)]
        before = answers(store)
    actions: dict[str, Callable[[Store], object]] = {
        "note": lambda store: store.note(ids[0], TAG),
        "delete": lambda store: store.delete(ids),
        "reindex": lambda store: list(store.reindex()),
    }
    statement = 1
    while run_and_die(address, actions[action], statement):
        with Store(address) as store:
            found = answers(store)
            if found != before:
                # The death came after the commit.
                break
        statement += 1
    assert statement > 3


def test_what_arrives_during_a_reindex_waits_and_is_indexed(address: str) -> None:
    """Readers see the old index meanwhile."""
    with Store(address) as store, Store(address) as other, ThreadPoolExecutor(2) as pool:
        ids = [store.add(a_document(number), ORIGIN, source="x").id for number in range(3)]
        before = answers(store)
        progress = store.reindex()
        assert next(progress) == 3
        adding = pool.submit(other.add, a_document(9), ORIGIN, source="x")
        noting = pool.submit(other.note, ids[0], TAG)
        for waiting in (adding, noting):
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.5)
        assert answers(other) == before
        assert list(progress) == []
        assert result_of(adding, "The result that was added").is_new
        result_of(noting, "The tag")
        assert store.count(Search()) == 4
        assert store.find_ids(Search("tag=baseline")) == ids[:1]


def test_those_who_annotate_one_result_wait_for_one_another(address: str) -> None:
    """No entry is lost, and the index has the tags of all."""
    with Store(address) as store:
        id_ = store.add(a_document(), ORIGIN, source="x").id
        tags = sorted(f"tag-{number:02}" for number in range(32))

        def annotate(tag: str) -> None:
            store.note(id_, replace(TAG, text=tag))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(annotate, tags))
        assert sorted(entry.text for _, entry in store.journal()) == tags
        (row,) = store.find(Search())
        assert [each["name"] for each in row["labels"] if each["origin"] == "tag"] == tags


def test_an_annotation_waits_for_a_deletion(address: str) -> None:
    """It finds no result then, and leaves no entry."""
    with Store(address) as store, Store(address) as other, ThreadPoolExecutor(1) as pool:
        id_ = store.add(a_document(), ORIGIN, source="x").id
        noting: list[Future[None]] = []

        def annotate(*_: object) -> None:
            noting.append(pool.submit(other.note, id_, TAG))
            with pytest.raises(TimeoutError):
                noting[0].result(timeout=0.5)

        event.listen(store.engine, "commit", annotate)
        assert store.delete([id_, "0" * 32]) == 1
        with pytest.raises(NoSuchResultError):
            result_of(noting[0], "The tag")
        assert store.journal() == []


def test_a_writer_that_waits_too_long_is_refused_with_what_to_do(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hold its connection, and the service has few."""
    monkeypatch.setattr(database, "_BUSY_SECONDS", 1.0)
    with Store(address) as store, Store(address) as other:
        store.add(a_document(1), ORIGIN, source="x")
        progress = store.reindex()
        next(progress)
        with pytest.raises(StoreError, match="keeps it busy: wait for it, and repeat"):
            other.add(a_document(2), ORIGIN, source="x")
        assert list(progress) == []
        assert other.add(a_document(2), ORIGIN, source="x").is_new


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The message has the address without its password."""
    with pytest.raises(StoreError, match=r"postgresql\+?\w*://ann:\*\*\*@.*failed"):
        Store(f"postgresql://ann:secret@/results?host={tmp_path}")


def test_the_indexes_of_lists_are_full(address: str) -> None:
    """Newer results of one model come last in them: less than two thirds of half-empty pages."""
    with Store(address) as store:
        for number in range(400):
            store.add(a_document(number), ORIGIN, source="x")
        size = text("SELECT pg_relation_size('result_by_model')")
        with store.engine.connect() as connection:
            bytes_each = connection.execute(size).scalar_one() / 400
    assert bytes_each < 130


def test_the_facets_of_many_results_read_the_newest_alone(address: str) -> None:
    """By the plain condition, of which PostgreSQL knows that many meet it, and in one process."""
    with Store(address) as store:
        store.add(a_document(), ORIGIN, source="x")
        statements: list[str] = []
        event.listen(
            store.engine,
            "before_cursor_execute",
            lambda *given: statements.append(given[2]),
        )
        assert facets(store, Search("scenario!=none"))["model"]
        assert not any("CASE" in each for each in statements)
        with store.engine.connect() as connection:
            workers = connection.exec_driver_sql("SHOW max_parallel_workers_per_gather")
            assert workers.scalar_one() == "0"


def test_few_matches_are_looked_up_by_one_array(address: str) -> None:
    """The driver would read thousands of parameters for longer than the server runs the query."""
    with Store(address) as store:
        for number in range(3):
            store.add(a_document(number), ORIGIN, source="x")
        statements: list[str] = []
        event.listen(
            store.engine, "before_cursor_execute", lambda *given: statements.append(given[2])
        )
        for where in ("run!=none", "p99<10s", "run!=none and p99<10s"):
            assert store.page(Search(where)).total == 3
        searches = [each for each in statements if "= ANY" in each]
        assert len(searches) == 5
        assert not any("result.number IN" in each for each in statements)
