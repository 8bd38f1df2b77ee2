"""Damaged documents that are no results are named and left out, and a backup repairs them."""

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update
from starlette.testclient import TestClient

from inferometer_results.service.access.rules import AccessRules
from inferometer_results.service.app import create_app
from inferometer_results.store.documents import RESULT_KIND
from inferometer_results.store.layer_timings import all_timings, keep_timings, known_timings
from inferometer_results.store.node_characteristics import (
    keep_characteristics,
    known_characteristics,
    visible_characteristics,
)
from inferometer_results.store.store import Store
from inferometer_results.store.suite_outcomes import find_outcomes, keep_outcome
from inferometer_results.store.tables import DOCUMENT, content_columns
from inferometer_results.store.transfer import archive_lines, damage_of, import_archive
from support.layer_graphs import MACHINE, brick_timings, timing
from support.node_documents import a_node_document
from support.stored_results import ORIGIN, a_document
from support.suite_results import SUITE, a_suite_outcome


def _fill(store: Store) -> None:
    """Keep a result, and two documents of each other kind."""
    store.add(a_document(), ORIGIN, source="x")
    later = replace(ORIGIN, received_at="2026-02-02T00:00:00.000Z")
    keep_outcome(store, a_suite_outcome("night", "INCONCLUSIVE"), ORIGIN)
    keep_outcome(store, a_suite_outcome("night", "FAIL"), later)
    for number in (1, 2):
        keep_characteristics(store, a_node_document(day=number))
        timings = brick_timings({str(number): timing(1_000)})
        keep_timings(store, timings, "2026-01-01T00:00:00Z", "layers")


def _replace_newest(store: Store, columns: dict[str, Any]) -> list[str]:
    """Change columns of the newest document of each other kind; return the IDs in order."""
    newest = select(func.max(DOCUMENT.c.number)).where(DOCUMENT.c.kind != RESULT_KIND)
    chosen = DOCUMENT.c.number.in_(newest.group_by(DOCUMENT.c.kind))
    with store.engine.begin() as connection:
        connection.execute(update(DOCUMENT).where(chosen).values(columns))
        return list(connection.scalars(select(DOCUMENT.c.id).where(chosen).order_by("number")))


def _assert_newest_left_out(store: Store) -> None:
    """Check that the store and its pages have the older document of each other kind alone."""
    # The earlier outcome of the execution does not stand for the last one.
    assert find_outcomes(store, SUITE) == []
    assert [each.id for each in known_characteristics(store)] == ["node-1-1"]
    assert [each.id for _, each in visible_characteristics(store)] == ["node-1-1"]
    assert [set(each.bricks) for each in all_timings(store)] == [{"1"}]
    known = known_timings(store, MACHINE.name, 1, MACHINE.engines)
    assert known is not None
    assert set(known.bricks) == {"1"}
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
    with TestClient(app, base_url="http://127.0.0.1:8090") as client:
        for page in ("/suites", "/measured-nodes", "/api/v1/layers"):
            assert client.get(page).status_code == 200
        assert client.get(f"/suites/{SUITE}").status_code == 404


@pytest.mark.parametrize("content", [b"{}", b"[]", b"nothing"])
def test_documents_that_are_none_of_their_kind_are_left_out(tmp_path: Path, content: bytes) -> None:
    """An archive can bring them, with the right checksum."""
    with Store(str(tmp_path / "results.db")) as store:
        _fill(store)
        _replace_newest(store, content_columns(content))
        _assert_newest_left_out(store)


@pytest.mark.parametrize("content", [b"\0", zlib.compress(b"{}")], ids=["no zlib", "another"])
def test_damaged_documents_are_named_and_left_out(tmp_path: Path, content: bytes) -> None:
    """Pages show the others; a new index and an export name them; a backup repairs them."""
    with Store(str(tmp_path / "results.db")) as store:
        _fill(store)
        backup = list(archive_lines(store))
        ids = _replace_newest(store, {"content": content})

        faults: list[str] = []
        assert list(store.reindex(faults.append)) == [1]
        assert [each.split()[3] for each in faults] == ids
        assert all("is damaged: its checksum differs. Import a backup." in each for each in faults)
        assert [each for each in map(damage_of, archive_lines(store)) if each] == faults

        _assert_newest_left_out(store)

        assert sum(each.is_repaired for each in import_archive(store, backup, source="x")) == 3
        assert list(store.reindex(faults.append)) == [1]
        assert len(faults) == 3
        assert len(find_outcomes(store, SUITE)) == 1
