"""The case results-store: how fast the store keeps results, and how much space they take."""

import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.case import Case, Figures, PeerMissingError, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.processes import Child, start_child
from bench.results_data import bulk_load, first_example, scaled
from sqlalchemy import text

from inferometer_results.store.store import Store
from support.postgresql import postgres_program, postgresql

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
_CLIENTS = 4
_INGESTED = scaled(1_000)
_REINDEXED = scaled(10_000)
_RATE, _RATE_OF_MANY = "results a second", f"results a second, {_CLIENTS} clients"
_BYTES = "bytes of a result"
_REINDEX, _LOAD = "seconds of a reindex", "seconds of a bulk load"
_A_SECOND = Unit(" /s", 0)
_SECONDS = Unit(" s", 1)
_KILOBYTES = Unit(" kB", 1, 1e-3)


def require_postgresql() -> None:
    """Raise PeerMissingError unless PostgreSQL can be started here."""
    if postgres_program() is None:
        raise PeerMissingError("PostgreSQL is not installed: on Debian, apt-get install postgresql")


@contextmanager
def database(side: str, folder: Path) -> Iterator[str]:
    """Yield the address of an empty database that waits for the disk."""
    if side == SQLITE:
        yield str(folder / f"results-{time.monotonic_ns()}.db")
        return
    # A socket's path is short.
    with (
        TemporaryDirectory(prefix="pg-") as own,
        postgresql(Path(own), is_durable=True) as address,
    ):
        yield address


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    first_example()
    yield {side: partial(_turn, side, place) for side in (SQLITE, POSTGRESQL) if side in sides}


def _turn(side: str, place: Place) -> Figures:
    with database(side, place.folder) as address:
        figures = _ingest(address, place)
    with database(side, place.folder) as address, Store(address) as store:
        load_seconds = bulk_load(store, _REINDEXED)
        began = time.monotonic()
        for _ in store.reindex():
            pass
        return {**figures, _LOAD: load_seconds, _REINDEX: time.monotonic() - began}


def _ingest(address: str, place: Place) -> Figures:
    document = place.folder / "document.json"
    document.write_bytes(first_example())
    Store(address).__exit__()
    before = _size_bytes(address)
    command = [sys.executable, "-m", "bench.results_writer", address, str(document)]
    with ExitStack() as stack:
        writers = [
            stack.enter_context(
                start_child(
                    f"writer {number}",
                    [*command, str(number * 1_000_000)],
                    core=None,
                    folder=place.folder,
                )
            )
            for number in range(_CLIENTS)
        ]
        for writer in writers:
            writer.read()
        alone = _INGESTED / float(writers[0].ask(count=_INGESTED)["seconds"])
        together = _at_once(writers, _INGESTED // _CLIENTS)
    kept = _INGESTED + _CLIENTS * (_INGESTED // _CLIENTS)
    size = (_size_bytes(address) - before) / kept
    return {_RATE: alone, _RATE_OF_MANY: together, _BYTES: size}


def _at_once(writers: list[Child], count: int) -> float:
    """Let all clients keep so many results each; return the rate of all."""
    began = time.monotonic()
    with ThreadPoolExecutor(len(writers)) as threads:
        list(threads.map(lambda writer: writer.ask(count=count), writers))
    return len(writers) * count / (time.monotonic() - began)


def _size_bytes(address: str) -> int:
    """Return how much of the disk a database takes, after its log was merged."""
    if "://" not in address:
        connection = sqlite3.connect(address)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        return Path(address).stat().st_size
    with Store(address) as store, store.engine.connect() as session:
        query = text("SELECT pg_database_size(current_database())")
        return int(session.execute(query).scalar_one())


def _row(side: str, what: str, figure: str, unit: Unit, bound: Bound | None = None) -> Row:
    return Row(f"{what}, {side}", Source(side, figure), unit, goal=(bound,) if bound else ())


_MOST_BYTES = Bound("figure", "at most", 16_000)
_MOST_SECONDS = Bound("figure", "at most", 60)

RESULTS_STORE = Case(
    name="results-store",
    title="Keeping results",
    text=f"""\
The result of the first example, measured once, is kept under {_INGESTED:,} run IDs, by one
process and then by {_CLIENTS} at once: each document is validated, compressed and indexed, and is
on the disk before the next one. Documents are made before the clock starts.

The size is that of the database with its indexes, after the log was merged, divided by the number
of results. The reindex reads {_REINDEXED:,} documents and makes every other table anew; they were
put there by the bulk loader of the benchmarks, which copies one compressed document. PostgreSQL
runs on the same machine with its defaults, behind a socket.""",
    commands=("make bench CASE=results-store",),
    sides=(Side(SQLITE), Side(POSTGRESQL, require_postgresql)),
    stage=_stage,
    minutes=8,
    rows=(
        _row(SQLITE, "Ingest, one client", _RATE, _A_SECOND, Bound("figure", "at least", 100)),
        _row(SQLITE, f"Ingest, {_CLIENTS} clients", _RATE_OF_MANY, _A_SECOND),
        _row(POSTGRESQL, "Ingest, one client", _RATE, _A_SECOND),
        _row(
            POSTGRESQL,
            f"Ingest, {_CLIENTS} clients",
            _RATE_OF_MANY,
            _A_SECOND,
            Bound("figure", "at least", 200),
        ),
        _row(SQLITE, "Size of a result", _BYTES, _KILOBYTES, _MOST_BYTES),
        _row(POSTGRESQL, "Size of a result", _BYTES, _KILOBYTES, _MOST_BYTES),
        _row(SQLITE, f"Reindex of {_REINDEXED:,} results", _REINDEX, _SECONDS, _MOST_SECONDS),
        _row(POSTGRESQL, f"Reindex of {_REINDEXED:,} results", _REINDEX, _SECONDS, _MOST_SECONDS),
    ),
    repeats=3,
    is_pinned=False,
)
