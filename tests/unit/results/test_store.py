"""The store keeps each document once, whole, and finds it by what it says."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from sqlalchemy import create_engine, event, inspect
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from inferometer_api.results.reading import ReadResult, UnreadableDocumentError
from inferometer_api.results.result import ResultDocument
from inferometer_results.service.access.rules import AccessRules
from inferometer_results.service.app import create_app
from inferometer_results.store.database import HEAD, StoreError, default_address, describing
from inferometer_results.store.index_rows import (
    ACCEPT_CHANGE,
    REJECT_CHANGE,
    JournalRow,
    index_rows,
)
from inferometer_results.store.query import Search
from inferometer_results.store.retention import dispensable
from inferometer_results.store.store import Store
from inferometer_results.store.summaries import conditions_of
from inferometer_results.store.tables import DOCUMENT, METADATA
from inferometer_results.store.transfer import archive_lines, damage_of, import_archive
from support.any_results import any_results
from support.stored_results import (
    KEPT,
    LOCAL,
    OLDER_SCHEMA,
    OLDER_TIME,
    ORIGIN,
    a_document,
    add_and_die,
    answers,
    assert_migrations_make_the_tables,
    run_and_die,
    schema_of,
)

TAG = JournalRow("2026-02-01T00:00:00.000Z", "ann", "tag", "baseline")
RETRACT = JournalRow("2026-02-02T00:00:00.000Z", "bob", "retract", "the machine was <b>busy</b>")


@pytest.fixture
def address(tmp_path: Path) -> str:
    """Return the address of a new database."""
    return str(tmp_path / "kept" / "results.db")


def test_a_document_comes_back_byte_for_byte(address: str) -> None:
    """The documents of every released version are kept as they are."""
    with Store(address) as store:
        for path in sorted(KEPT.glob("*.json")):
            content = path.read_bytes()
            kept = store.add(content, ORIGIN, source=path.name)
            assert store.read(kept.id).content == content


def test_a_document_is_kept_once_by_however_many_writers(address: str) -> None:
    """Cluster, run and checksum name a document; writers at once do not double it."""
    content = a_document()
    with Store(address) as store:
        with ThreadPoolExecutor(8) as pool:
            kept = list(pool.map(lambda _: store.add(content, ORIGIN, source="x"), range(40)))
        assert sum(each.is_new for each in kept) == 1
        assert len({each.id for each in kept}) == 1
        assert store.count(Search()) == 1
        assert store.add(a_document(1), ORIGIN, source="x").is_new


def test_a_process_that_dies_at_any_statement_leaves_all_or_nothing(address: str) -> None:
    """After each death the document is whole or absent, and the next one is kept."""
    Store(address).__exit__()
    statement = 1
    while add_and_die(address, a_document(statement), statement):
        with Store(address) as store:
            before = answers(store)
            found = {each.id for each in store.documents()}
            assert {row["id"] for row in store.find(Search())} == found
            for _ in store.reindex():
                pass
            assert answers(store) == before
        statement += 1
    assert statement > 5
    with Store(address) as store:
        assert store.add(a_document(statement), ORIGIN, source="x").is_new is False


def _merge_log(address: str) -> None:
    """Have the file itself hold everything."""
    with sqlite3.connect(address) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _reindex(store: Store) -> None:
    for _ in store.reindex():
        pass


@pytest.mark.parametrize(
    "action",
    [
        lambda store: store.note(store.find(Search())[0]["id"], TAG),
        lambda store: store.delete([each["id"] for each in store.find(Search())]),
        _reindex,
    ],
    ids=["note", "delete", "reindex"],
)
def test_a_change_that_dies_at_any_statement_is_made_or_not(
    address: str, action: Callable[[Store], object]
) -> None:
    """Tags, deletions and the index: the answers are those of before or of after."""
    with Store(address) as store:
        for number in range(3):
            store.add(a_document(number), ORIGIN, source="x")
        before = answers(store)
        _merge_log(address)
        original = shutil.copy(address, f"{address}.original")
        action(store)
        allowed = {before, answers(store)}
    statement, alive = 1, True
    while alive:
        path = shutil.copy(original, f"{address}.{statement}")
        alive = run_and_die(path, action, statement)
        with Store(path) as store:
            assert answers(store) in allowed
            _reindex(store)
            assert answers(store) in allowed
        statement += 1
    assert statement > 5


_ANSWERS = (
    *("/api/v1/results?limit=500&retracted=true", "/api/v1/results?where=tag%3Dbaseline"),
    *(f"/api/v1/{name}" for name in ("facets", "models", "nodes", "trends", "specs", "journal")),
    "/api/v1/model?model=oracle&mixed=true",
)


def _api_answers(store: Store) -> list[tuple[int, bytes]]:
    """Return what the service answers over a store."""
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
    with TestClient(app, base_url="http://127.0.0.1:8090") as client:
        return [(each.status_code, each.content) for each in map(client.get, _ANSWERS)]


def test_an_index_made_anew_answers_the_same(address: str) -> None:
    """200 results with tags and retractions: the answers of the API are the same, byte for byte."""
    with Store(address) as store:
        ids = [store.add(a_document(n), ORIGIN, source="x").id for n in range(200)]
        store.note(ids[3], TAG)
        store.note(ids[4], RETRACT)
        before = answers(store), _api_answers(store)
        assert {status for status, _ in before[1]} == {200}
        assert list(store.reindex()) == [200]
        assert (answers(store), _api_answers(store)) == before
        assert store.count(Search("tag=baseline")) == 1
        assert store.count(Search()) == 199


def test_a_database_of_an_older_schema_is_indexed_again_when_it_is_opened(address: str) -> None:
    """All but a damaged document, which stays listed, so that it can be deleted."""
    with Store(address) as store:
        ids = [store.add(a_document(n), ORIGIN, source="x").id for n in range(3)]
        store.note(ids[0], TAG)
        before = store.find(Search(sort="run"))
    with sqlite3.connect(address) as connection:
        connection.executescript(OLDER_SCHEMA)
        connection.execute("UPDATE document SET content = x'00' WHERE id = ?", [ids[2]])
    connection.close()
    indexed: list[tuple[int, int]] = []
    with Store(address, on_indexed=lambda *each: indexed.append(each)) as store:
        assert indexed == [(3, 3)]
        after = store.find(Search(sort="run"))
        assert {row["id"] for row in after} == set(ids)
        whole = [row for row in after if row["id"] != ids[2]]
        assert whole == [row for row in before if row["id"] != ids[2]]
        assert [row["started_at"] for row in after if row["id"] == ids[2]] == [OLDER_TIME]
        assert store.count(Search(text="baseline")) == 1
        assert conditions_of(store, [whole[0]["measurements"][0]["key"]])
        assert store.delete([ids[2]]) == 1


def test_migrations_make_the_tables_of_a_new_database(address: str, tmp_path: Path) -> None:
    """A new database is made at once, and an older one step by step: with the same outcome."""
    with Store(address) as store, store.engine.connect() as connection:
        new = schema_of(connection)
    migrated = create_engine(f"sqlite:///{tmp_path / 'migrated.db'}")
    assert_migrations_make_the_tables(migrated, new)
    migrated.dispose()


def test_an_archive_carries_documents_and_journal_to_another_store(
    address: str, tmp_path: Path
) -> None:
    """Both stores answer the same, and a second import changes nothing."""
    with Store(address) as store, Store(str(tmp_path / "other.db")) as other:
        for number in range(3):
            store.note(store.add(a_document(number), ORIGIN, source="x").id, TAG)
        store.add(a_document(9, LOCAL), ORIGIN, source="x")
        lines = list(archive_lines(store))
        assert all(each.is_new for each in import_archive(other, lines, source="archive"))
        assert answers(other) == answers(store)
        again = list(import_archive(other, lines, source="archive"))
        assert len(again) == 4
        assert not any(each.is_new or each.fault for each in again)
        assert list(archive_lines(other)) == lines


_ENTRY = {"journal": "a", "at": TAG.at, "by": "ann", "action": "tag", "text": "x"}
_EMPTY = {"content": "eJwDAAAAAAE="}
_OTHER: dict[str, Any] = {
    each.name: "x" for each in DOCUMENT.columns if each.name not in {"number", "content"}
}
_OTHER |= {"sha256": sha256(b"").hexdigest(), "bytes": 0, "name": []}


@pytest.mark.parametrize(
    "line",
    [
        *("", "{", '{"document": "a"}', '{"journal": "a"}', "[]", "3", '"journal"', "[" * 5000),
        '["journal"]',
        json.dumps({**_ENTRY, "at": {}}),
        json.dumps({**_ENTRY, "text": 1}),
        json.dumps({**_ENTRY, "by": "\ud800"}),
        json.dumps({**_ENTRY, "journal": []}),
        json.dumps({"document": "a", **_EMPTY, "source": [], "received_at": ""}),
        json.dumps({"other": _OTHER, **_EMPTY}),
    ],
)
def test_a_damaged_line_of_an_archive_is_named_and_the_others_are_kept(
    address: str, line: str
) -> None:
    """A fault names its line."""
    with Store(address) as store, Store(f"{address}.2") as other:
        store.add(a_document(), ORIGIN, source="x")
        lines = [line, *archive_lines(store)]
        first, second = import_archive(other, lines, source="archive.jsonl")
        assert first.fault == "archive.jsonl:1 is not a line of an archive."
        assert second.is_new


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"action": "frobnicate"}, "There is no action 'frobnicate'."),
        ({"text": "x" * 3000}, "A tag has 1 to 63 printable characters."),
        ({"action": ACCEPT_CHANGE, "text": "{}"}, "A finding is that of interleaved runs"),
        *(
            ({"at": at}, f"The time {at!r} does not have the form 2026-01-31T12:00:00.000Z.")
            for at in ("x", "2026-01-31", "2026-01-31T12:00:00.000+01:00", "9999-12-31T23:59-05:00")
        ),
    ],
)
def test_an_entry_that_no_command_writes_is_not_imported(
    address: str, change: dict[str, str], reason: str
) -> None:
    """The line is named with the reason; the entries on other lines are restored."""
    with Store(address) as store:
        id_ = store.add(a_document(), ORIGIN, source="x").id
        entry = _ENTRY | {"journal": id_}
        lines = [json.dumps(entry | change), json.dumps(entry)]
        (found,) = import_archive(store, lines, source="a.jsonl")
        assert found.fault.startswith(f"a.jsonl:1 is not an entry of a journal. {reason}")
        assert store.journal() == [(id_, JournalRow(TAG.at, "ann", "tag", "x"))]


def test_entries_of_a_damaged_document_are_named_and_the_others_restored(address: str) -> None:
    """Those of the first result are left out, whether its line or the kept document is damaged."""
    with Store(address) as store, Store(f"{address}.2") as other, Store(f"{address}.3") as third:
        ids = [store.add(a_document(number), ORIGIN, source="x").id for number in range(3)]
        for id_ in ids:
            store.note(id_, TAG)
            store.note(id_, RETRACT)
        lines = list(archive_lines(store))
        left_out = f"a.jsonl: what people added to result {ids[0][:12]} was left out. "
        found = list(import_archive(other, ["{", *lines[1:]], source="a.jsonl"))
        assert [each.fault for each in found if each.fault] == [
            "a.jsonl:1 is not a line of an archive.",
            f"{left_out}There is no result {ids[0]}.",
        ]
        assert sum(each.is_new for each in found) == 2
        assert other.journal() == [each for each in store.journal() if each[0] != ids[0]]
        list(import_archive(third, lines[:3], source="a.jsonl"))
        with third.engine.begin() as connection:
            damage = "UPDATE document SET content = x'00' WHERE id = ?"
            connection.exec_driver_sql(damage, (ids[0],))
        found = list(import_archive(third, lines[1:], source="a.jsonl"))
        (fault,) = (each.fault for each in found if each.fault)
        assert fault.startswith(f"{left_out}The document of result {ids[0]} is damaged")
        assert third.journal() == other.journal()


def _damage(store: Store, id_: str) -> None:
    """Cut the content of a document short."""
    with store.engine.begin() as connection:
        cut = "UPDATE document SET content = substr(content, 1, 100) WHERE id = ?"
        connection.exec_driver_sql(cut, (id_,))


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("is_archive", [False, True])
def test_a_damaged_document_is_repaired_by_one_that_arrives(
    address: str, *, is_archive: bool, is_indexed: bool
) -> None:
    """Whether in an archive or alone, also after a new index left it out."""
    with Store(address) as store:
        ids = [store.add(a_document(number), ORIGIN, source="x").id for number in range(2)]
        store.note(ids[0], TAG)
        before, lines = answers(store), list(archive_lines(store))
        _damage(store, ids[0])
        if not is_indexed:
            _reindex(store)
            assert store.find_ids(Search(with_retracted=True)) == [ids[1]]
        if is_archive:
            found = list(import_archive(store, lines, source="a.jsonl"))
            assert [(each.is_new, each.is_repaired) for each in found] == [
                (False, True),
                (False, False),
            ]
        else:
            kept = store.add(a_document(0), replace(ORIGIN, source="other"), source="x")
            assert (kept.id, kept.is_new, kept.is_repaired) == (ids[0], False, True)
        assert list(archive_lines(store)) == lines
        assert answers(store) == before


def test_a_damaged_document_does_not_keep_the_others_from_an_archive(address: str) -> None:
    """Nor from the parts of an archive, or from a new index; the damaged one is named."""
    with Store(address) as store:
        ids = [store.add(a_document(number), ORIGIN, source="x").id for number in range(3)]
        lines = list(archive_lines(store))
        _damage(store, ids[1])
        faults: list[str] = []
        assert list(store.reindex(faults.append)) == [2]
        (fault,) = faults
        assert fault.startswith(f"The document of result {ids[1]} is damaged: its checksum differs")
        first, damaged, last = archive_lines(store)
        assert [first, last] == [lines[0], lines[2]]
        assert [damage_of(each) for each in (first, damaged, last)] == ["", fault, ""]
        app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
        with TestClient(app, base_url="http://127.0.0.1:8090") as client:
            answer = client.get("/api/v1/archive", params={"after": ids[1]})
            assert answer.text.splitlines() == [last]
            answer = client.get("/api/v1/archive", params={"after": ids[0]})
            assert answer.text.splitlines() == [damaged, last]


def test_entries_apply_in_the_order_of_their_times(address: str) -> None:
    """An import of older entries does not undo a newer one; the index made anew says the same."""
    older = JournalRow("2026-01-01T00:00:00.000Z", "ann", "restore", "")
    untag = JournalRow("2026-01-31T00:00:00.000Z", "ann", "untag", "baseline")
    with Store(address) as store, Store(f"{address}.2") as other:
        id_ = store.add(a_document(), ORIGIN, source="x").id
        for entry in (TAG, RETRACT):
            store.note(id_, entry)
        other.add(a_document(), ORIGIN, source="x")
        for entry in (older, untag):
            other.note(id_, entry)
        for source, target in ((store, other), (other, store)):
            list(import_archive(target, list(archive_lines(source)), source="a.jsonl"))
        for each in (store, other):
            for _ in range(2):
                (row,) = each.find(Search("tag=baseline", with_retracted=True))
                assert row["retracted"] == RETRACT.text
                _reindex(each)
            assert [entry for _, entry in each.journal()] == [older, untag, TAG, RETRACT]


def test_a_new_entry_has_an_effect_although_its_clock_is_behind(address: str) -> None:
    """Its time is that of the last entry then."""
    restore = JournalRow("2026-01-01T00:00:00.000Z", "ann", "restore", "")
    with Store(address) as store:
        id_ = store.add(a_document(), ORIGIN, source="x").id
        store.note(id_, RETRACT)
        store.note(id_, restore)
        assert store.count(Search()) == 1
        assert store.journal()[-1] == (id_, replace(restore, at=RETRACT.at))


def test_what_is_no_result_is_refused_and_nothing_is_kept(address: str) -> None:
    """The message names the source."""
    with Store(address) as store:
        with pytest.raises(UnreadableDocumentError, match=r"^mine\.json is not a result"):
            store.add(b'{"kind": "Pod"}', ORIGIN, source="mine.json")
        assert not list(store.documents())


def test_a_document_of_a_newer_minor_version_is_kept_whole_with_a_notice(address: str) -> None:
    """It is shown as far as it is understood."""
    content = a_document(schemaVersion="1.99", novelty={"a": 1})
    with Store(address) as store:
        kept = store.add(content, ORIGIN, source="x")
        (row,) = store.find(Search())
        assert row["notice"].startswith(f"Result {kept.id} has schema version 1.99")
        assert store.read(kept.id).content == content
        before = answers(store)
        _reindex(store)
        assert answers(store) == before


def test_damage_whose_message_is_no_text_is_a_sentence(tmp_path: Path) -> None:
    """SQLite quotes the damaged name of a table, which the driver cannot decode."""
    address = tmp_path / "damaged.db"
    Store(str(address)).__exit__()
    with sqlite3.connect(address) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        damage = "SET name = CAST(x'ff' AS TEXT), sql = 'CREATE TABLE x(' WHERE name = 'label'"
        connection.execute(f"UPDATE sqlite_master {damage}")
    connection.close()
    with pytest.raises(StoreError, match=r"malformed.* Give another file, or restore this one"):
        Store(str(address))


@given(any_results())
def test_every_document_has_an_index(document: ResultDocument) -> None:
    """Rows are made for whatever a result holds."""
    rows = index_rows("id", 1, ReadResult(document), ORIGIN, [])
    assert len(rows.measurements) == sum(len(each.steps) for each in document.scenarios)
    assert sum(row["headline"] for row in rows.measurements) <= len(document.scenarios)


def test_deleting_leaves_nothing_of_a_result(address: str) -> None:
    """Its tags go with it, others stay."""
    with Store(address) as store:
        first, second = (store.add(a_document(n), ORIGIN, source="x").id for n in range(2))
        store.note(first, TAG)
        assert store.delete([first]) == 1
        assert [row["id"] for row in store.find(Search())] == [second]
        assert store.journal() == []
        assert store.add(a_document(0), ORIGIN, source="x").is_new
        assert store.count(Search("tag=baseline")) == 0


def test_old_results_without_a_tag_are_dispensable(address: str) -> None:
    """By age, or until the rest is small enough; the oldest go first."""
    with Store(address) as store:
        ids = [
            store.add(
                a_document(n, startedAt=f"2026-01-0{n + 1}T00:00:00.000Z"), ORIGIN, source=""
            ).id
            for n in range(4)
        ]
        store.note(ids[0], TAG)
        assert dispensable(store, "2026-01-03T00:00:00.000Z", None) == [ids[1]]
        each = len(store.read(ids[0]).content)
        assert dispensable(store, None, 0) == ids[1:]
        assert dispensable(store, None, 10 * each) == []


@pytest.mark.parametrize("action", [ACCEPT_CHANGE, REJECT_CHANGE])
def test_a_result_with_which_a_judged_change_begins_is_not_dispensable(
    address: str, action: str
) -> None:
    """The finding about the change would go with it."""
    with Store(address) as store:
        ids = [store.add(a_document(n), ORIGIN, source="").id for n in range(3)]
        store.note(ids[1], JournalRow("2026-02-01T00:00:00.000Z", "ann", action, "{}"))
        assert set(dispensable(store, "9999", None)) == {ids[0], ids[2]}
        assert set(dispensable(store, None, 0)) == {ids[0], ids[2]}


def test_a_copy_taken_while_results_are_kept_answers_as_the_original_did(
    address: str, tmp_path: Path
) -> None:
    """The documented backup of SQLite: VACUUM INTO needs no pause and no lock."""
    copy = tmp_path / "copy.db"
    with Store(address) as store:
        store.note(store.add(a_document(0), ORIGIN, source="x").id, TAG)
        before = answers(store)
        with store.engine.begin() as writer:
            writer.exec_driver_sql("UPDATE result SET name = 'half-written'")
            with sqlite3.connect(address) as reader:
                reader.execute(f"VACUUM INTO '{copy}'")
            reader.close()
            writer.rollback()
        assert answers(store) == before
    with Store(str(copy)) as restored:
        assert answers(restored) == before
        assert restored.add(a_document(1), ORIGIN, source="x").is_new


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_database_that_is_deleted_in_use_takes_nothing_more(
    address: str, tmp_path: Path, *, is_replaced: bool
) -> None:
    """What would be lost with the file is refused, and kept once the file is there again."""
    copy = tmp_path / "copy.db"
    with Store(address) as store:
        store.add(a_document(0), ORIGIN, source="x")
        _merge_log(address)
        shutil.copy(address, copy)
        Path(address).rename(f"{address}.moved")
        if is_replaced:
            shutil.copy(copy, address)
        with pytest.raises(StoreError, match=r"no longer there: its file was moved"):
            store.add(a_document(1), ORIGIN, source="x")
        if not is_replaced:
            Path(f"{address}.moved").rename(address)
        assert store.add(a_document(1), ORIGIN, source="x").is_new
        assert store.count(Search()) == 2


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_database_that_is_deleted_in_use_is_read_no_more(
    address: str, tmp_path: Path, *, is_replaced: bool
) -> None:
    """A service shows nothing that is gone; it finds what has taken the place of its file."""
    copy = tmp_path / "copy.db"
    with Store(address) as store:
        _merge_log(address)
        shutil.copy(address, copy)
        store.add(a_document(0), ORIGIN, source="x")
        _merge_log(address)
        Path(address).rename(f"{address}.moved")
        if is_replaced:
            shutil.copy(copy, address)
        with pytest.raises(StoreError, match=r"no longer there: .* Put it back and repeat"):
            store.count(Search())
        if is_replaced:
            assert store.count(Search()) == 0


def test_a_beginning_names_the_one_result_that_it_fits(address: str) -> None:
    """Too short, unknown and ambiguous ones are refused."""
    with Store(address) as store:
        id_ = store.add(a_document(), ORIGIN, source="x").id
        assert store.resolve(id_[:6].upper()) == id_
        for wrong in (id_[:3], "zzzz", "%%%%", "ffff" if id_[:4] != "ffff" else "eeee"):
            with pytest.raises(StoreError):
                store.resolve(wrong)


def test_a_beginning_is_looked_up_in_the_index_of_ids(address: str) -> None:
    """No document is read for it, however many there are."""
    asked: list[tuple[str, Any]] = []
    with Store(address) as store:
        id_ = store.add(a_document(), ORIGIN, source="x").id

        @event.listens_for(store.engine, "before_cursor_execute")
        def _note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
            asked.append((statement, parameters))

        store.resolve(id_[:6])
        (found,) = (each for each in asked if each[0].startswith("SELECT"))
    with sqlite3.connect(address) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {found[0]}", found[1]).fetchall()
    connection.close()
    assert [row[3].partition(" (")[2] for row in plan] == ["id>? AND id<?)"]


def test_a_damaged_document_is_found_by_its_checksum(address: str) -> None:
    """It is never shown."""
    with Store(address) as store:
        id_ = store.add(a_document(), ORIGIN, source="x").id
    with sqlite3.connect(address) as connection:
        connection.execute("UPDATE document SET content = x'789c030000000001'")
    connection.close()
    with Store(address) as store, pytest.raises(StoreError, match="its checksum differs"):
        store.read(id_)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", r"has schema 9999, .* newer version"),
        ("DROP TABLE alembic_version", "tables of another program"),
    ],
)
def test_a_database_that_is_not_ours_is_refused(address: str, script: str, message: str) -> None:
    """A newer schema and another program's tables are left alone."""
    Store(address).__exit__()
    with sqlite3.connect(address) as connection:
        connection.execute(script)
    connection.close()
    with pytest.raises(StoreError, match=message):
        Store(address)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """The message says what to do."""
    path = tmp_path / "notes.txt"
    path.write_text("buy milk " * 100)
    with pytest.raises(StoreError, match=r"not a database\. Give another file"):
        Store(str(path))
    with pytest.raises(StoreError, match="is not a database that Inferometer knows"):
        Store("mysql://root:secret@host/x")
    for address in ("postgresql://root:secret@host:abc/x", "://root:secret@host/x"):
        with pytest.raises(StoreError, match="The address of the database cannot be") as caught:
            Store(address)
        assert "secret" not in str(caught.value)


def _fill(store: Store) -> None:
    for number in range(1, 100):
        store.add(a_document(number, LOCAL), ORIGIN, source="x")


def test_a_disk_that_fails_is_named_with_what_to_do(address: str) -> None:
    """SQLite says no more than that, when it cannot map its index on a full disk, too."""
    failed = OperationalError("SELECT 1", {}, OSError("disk I/O error"))
    with pytest.raises(StoreError, match=r"disk I/O error\. Free some space"), describing(address):
        raise failed


def test_a_full_disk_keeps_what_was_there(address: str) -> None:
    """Nothing is half-written; the message says what to do."""
    with Store(address) as store:
        store.add(a_document(), ORIGIN, source="x")
        before = answers(store)
    with Store(address) as store:
        with store.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="Free some disk space"):
            _fill(store)
        assert answers(store)[: len(before) - 1] == before[:-1]


def test_the_migrations_make_the_tables_that_the_code_uses(address: str) -> None:
    """Columns, types and indexes are those of `tables.py`."""
    with Store(address) as store:
        found = inspect(store.engine)
        for table in METADATA.sorted_tables:
            columns = {each["name"]: each["nullable"] for each in found.get_columns(table.name)}
            assert columns == {each.name: each.nullable for each in table.columns}
            indexes = {each["name"] for each in found.get_indexes(table.name)}
            assert {str(each.name) for each in table.indexes} <= indexes
        with store.engine.connect() as connection:
            version = connection.exec_driver_sql("SELECT version_num FROM alembic_version")
            assert version.scalar_one() == HEAD


def test_the_database_is_where_the_user_keeps_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By $INFEROMETER_DATABASE, $XDG_DATA_HOME, or the home folder."""
    monkeypatch.delenv("INFEROMETER_DATABASE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_address() == f"{tmp_path}/inferometer/results.db"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert default_address() == "/home/ann/.local/share/inferometer/results.db"
    monkeypatch.setenv("INFEROMETER_DATABASE", "postgresql://ann@db/results")
    assert default_address() == "postgresql://ann@db/results"
