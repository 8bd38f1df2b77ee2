"""The service of a cluster deletes old results, and takes up a restored copy."""

import asyncio
import gc
import shutil
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from inferometer_results.cluster import command, server
from inferometer_results.cluster.command import main
from inferometer_results.cluster.server import ResultRetention
from inferometer_results.store.database import take_up_restored
from inferometer_results.store.index_rows import JournalRow
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from support.stored_results import ORIGIN, a_document, answers

_NOW = datetime(2026, 3, 1, tzinfo=UTC)
_DAYS = (60, 40, 20, 1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with results that are some days old; the oldest one is a baseline."""
    store = Store(str(tmp_path / "results.db"))
    for days in _DAYS:
        started = (_NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        id_ = store.add(a_document(days, startedAt=started), ORIGIN, source="x").id
        if days == _DAYS[0]:
            store.note(id_, JournalRow("2026-02-01T00:00:00.000Z", "ann", "tag", "baseline"))
    return store


def _left(store: Store) -> list[int]:
    """Return the ages of the results that are left, the oldest first."""
    rows = store.find(Search("", "started"))
    return [(_NOW - datetime.fromisoformat(row["started_at"])).days for row in rows]


@pytest.mark.parametrize(
    ("retention", "left"),
    [
        (ResultRetention(), [60, 40, 20, 1]),
        (ResultRetention(days=30), [60, 20, 1]),
        (ResultRetention(megabytes=0), [60]),
        (ResultRetention(megabytes=100), [60, 40, 20, 1]),
        (ResultRetention(days=10, megabytes=100), [60, 1]),
    ],
)
def test_old_results_are_deleted_and_baselines_stay(
    store: Store, retention: ResultRetention, left: list[int]
) -> None:
    """By age, by size, or both; without limits nothing ever is."""
    assert retention.apply(store, _NOW) == len(_DAYS) - len(left)
    assert _left(store) == left
    assert retention.is_limited == (retention != ResultRetention())


def test_results_are_deleted_while_the_service_runs(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Again and again; a database that does not answer is logged, and tried again later."""
    rounds: list[float] = []

    async def pause(seconds: float) -> None:
        rounds.append(seconds)
        if len(rounds) == 1:
            with sqlite3.connect(store.address) as connection:
                connection.execute("ALTER TABLE journal RENAME TO elsewhere")
            connection.close()
        elif len(rounds) == 2:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", pause)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(server._delete_regularly(ResultRetention(megabytes=0), store))
    assert rounds == [server._DELETE_SECONDS] * 2
    logged = capsys.readouterr().err
    assert "deleted 3 old results" in logged
    assert "no old results were deleted. The database" in logged
    asyncio.run(server._delete_regularly(ResultRetention(), store))


def _nothing(_: Path) -> None:
    """Leave the copy where it is."""


def _die_after_the_log(folder: Path) -> None:
    """Leave what a start leaves that ends between two renames."""
    (folder / "results.db-wal").rename(folder / "results.db.before-restore-wal")


@pytest.mark.parametrize("before", [_nothing, _die_after_the_log])
def test_a_restored_copy_takes_the_place_of_the_database(
    store: Store, tmp_path: Path, before: Callable[[Path], None]
) -> None:
    """With its log, which belongs to the old one; that one is kept."""
    wanted = answers(store)
    copy = tmp_path / "copy.db"
    with sqlite3.connect(store.address) as connection:
        connection.execute(f"VACUUM INTO '{copy}'")
    connection.close()
    assert not take_up_restored(store.address)
    store.add(a_document(99), ORIGIN, source="x")
    # As after a power cut: the log holds what the file does not.
    for file in tmp_path.glob("results.db*"):
        shutil.copy(file, tmp_path / f"kept-{file.name}")
    store.engine.dispose()
    for file in tmp_path.glob("kept-*"):
        file.rename(tmp_path / file.name.removeprefix("kept-"))
    copy.rename(tmp_path / "restore.db")
    before(tmp_path)
    assert take_up_restored(store.address)
    with Store(store.address) as restored:
        assert answers(restored) == wanted
        assert restored.add(a_document(100), ORIGIN, source="x").is_new
    with Store(f"{store.address}.before-restore") as old:
        assert old.count(Search()) == len(_DAYS) + 1
    assert not take_up_restored(store.address)
    assert not take_up_restored("postgresql://ann@db/results")


def test_a_price_list_that_is_none_ends_the_service_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is opened."""
    prices = tmp_path / "prices.yaml"
    prices.write_text("{currency: EUR, nodes: [{node: x}]}")
    assert main(["--certificates", str(tmp_path), "--prices", str(prices)]) == 2
    assert "is not a price list: nodes[0].perHour" in capsys.readouterr().err


def test_collections_do_not_pass_over_the_imports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are frozen when the service begins: a request would wait for a full collection."""
    frozen: list[int] = []

    async def serve(_: Any) -> None:
        frozen.append(gc.get_freeze_count())

    monkeypatch.setattr(command, "serve", serve)
    try:
        assert main(["--certificates", str(tmp_path)]) == 0
    finally:
        gc.unfreeze()
    (count,) = frozen
    assert count > 10_000
