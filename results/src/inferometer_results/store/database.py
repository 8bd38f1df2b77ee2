"""Opens the database of the store: SQLite in one file, or PostgreSQL."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from inferometer_results.store.tables import METADATA, SCHEMA_VERSION

HEAD = "0012"
"""The newest schema that this version knows; see `migrations`."""

_BUSY_SECONDS = 60.0
_FILE = "file"


class StoreError(Exception):
    """The store cannot carry out a request; the message is a sentence with what to do."""


class DatabaseFailedError(StoreError):
    """The database failed; the message has its address, which may have a user and a host."""

    def __init__(self, address: str, reason: str) -> None:
        """Say how the database at this address failed."""
        advice = _advice(reason)
        super().__init__(f"The database {_shown(address)} failed: {reason}.{advice}")
        # That of a server may have the user and the host, too.
        shown = reason if "://" not in address else "the service's log has the reason"
        self.public = f"The database failed: {shown}.{advice}"
        """The same for callers of a service, who are not to learn where its database is."""


class NoSuchResultError(StoreError):
    """No result has this ID, or more than one begins so."""


def default_address() -> str:
    """Return the address of the user's own database: $INFEROMETER_DATABASE, or a file."""
    given = os.environ.get("INFEROMETER_DATABASE")
    if given:
        return given
    return str(data_folder() / "results.db")


def data_folder() -> Path:
    """Return the folder of what this user keeps: $XDG_DATA_HOME/inferometer."""
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "inferometer"


def take_up_restored(address: str) -> bool:
    """Put `restore.db` of the database's folder in its place; return whether there was one.

    The database that was there is kept as `NAME.before-restore`. No other process may have it open.
    """
    if "://" in address:
        return False
    file = Path(address)
    restored = file.with_name("restore.db")
    if not restored.is_file():
        return False
    # Together with its log, which would otherwise be applied to the restored one.
    for end in ("-shm", "-wal", ""):
        part = file.with_name(f"{file.name}{end}")
        if part.exists():
            part.replace(file.with_name(f"{file.name}.before-restore{end}"))
    restored.replace(file)
    return True


def open_database(address: str, index: Callable[[Connection], None]) -> Engine:
    """Open a database and bring its schema up to date; `index` then fills the index again.

    `address` is the path of an SQLite file, which is created with its folder if it is missing, or
    postgresql://USER@HOST/NAME. Raises StoreError.
    """
    url = _url(address)
    try:
        engine = create_engine(url, **_options(url))
    except NoSuchModuleError as error:
        raise StoreError(
            f"The driver of {_shown(address)} is not installed. Install inferometer[postgresql]."
        ) from error
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine, address)
    else:
        _prepare_postgresql(engine)
    try:
        with describing(address):
            _migrate(engine, address, index)
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def describing(address: str) -> Iterator[None]:
    """Turn errors of the database into DatabaseFailedError."""
    try:
        yield
    except DBAPIError as error:
        reason = str(error.orig).strip().splitlines()[0].rstrip(".") if error.orig else str(error)
        raise DatabaseFailedError(address, reason) from error
    except SQLAlchemyError as error:
        raise DatabaseFailedError(address, str(error).rstrip(".")) from error
    except UnicodeDecodeError as error:
        # The driver cannot even read the message of SQLite about a damaged file.
        raise DatabaseFailedError(address, "it is malformed, and has text that is none") from error


def _url(address: str) -> URL:
    if "://" not in address:
        path = Path(address)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"Cannot create {path.parent}: {error.strerror}.") from error
        return URL.create("sqlite", database=str(path))
    try:
        backend = make_url(address).get_backend_name()
    except (ArgumentError, ValueError) as error:
        # It may hold a password.
        raise StoreError(
            "The address of the database cannot be read. Give the path of a file, or "
            "postgresql://USER@HOST:PORT/NAME."
        ) from error
    if backend not in {"sqlite", "postgresql"}:
        raise StoreError(
            f"{_shown(address)} is not a database that Inferometer knows. Give the path of a file, "
            "or postgresql://USER@HOST/NAME."
        )
    url = make_url(address)
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def _shown(address: str) -> str:
    """Return the address without its password."""
    return address if "://" not in address else make_url(address).render_as_string()


def _lower(text: object) -> object:
    return text.lower() if isinstance(text, str) else text


def _options(url: URL) -> dict[str, Any]:
    if url.get_backend_name() == "sqlite":
        return {"connect_args": {"timeout": _BUSY_SECONDS}}
    return {"pool_pre_ping": True}


def _advice(reason: str) -> str:
    if "disk" in reason and "full" in reason:
        return " Free some disk space, then repeat the command: nothing was half-written."
    if "disk I/O error" in reason:
        return " Free some space if its disk is full, or check the disk; then repeat the command."
    if "not a database" in reason or "malformed" in reason:
        return " Give another file, or restore this one from a copy."
    if "readonly" in reason or "unable to open" in reason:
        return " Check that you may write this file and its folder."
    if "locked" in reason or "lock timeout" in reason:
        return " Another program keeps it busy: wait for it, and repeat the command."
    return ""


def _prepare_sqlite(engine: Engine, address: str) -> None:
    """Have transactions begin when they say so, and let readers go on while one writes.

    By default the driver begins transactions by itself, and not before statements that change
    tables (SQLAlchemy, "Serializable isolation / Savepoints / Transactional DDL"). A file that was
    deleted or replaced is written no more: what was kept in it would be lost. It is not read
    either, so that nothing is shown that is gone.
    """
    file = Path(engine.url.database or "").absolute()

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()
        # Used by conditions: SQLite's own function knows no letters beyond ASCII.
        connection.create_function("unicode_lower", 1, _lower, deterministic=True)
        record.info[_FILE] = _identity(file)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        read_only = connection.get_execution_options().get("read_only", False)
        found = _identity(file)
        if found != connection.info[_FILE]:
            if found is not None:
                # The next attempt opens the file that has taken its place.
                connection.invalidate()
            written = "" if read_only else " Nothing was written."
            raise StoreError(
                f"The database {_shown(address)} is no longer there: its file was moved, deleted "
                f"or replaced.{written} Put it back and repeat the request."
            )
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


def _prepare_postgresql(engine: Engine) -> None:
    """Have queries neither compiled nor spread over processes, and indexes preferred.

    To compile takes longer than any query of a page. Processes are started for each query, and on
    a busy machine the slowest of them decides. The default for reading in no order is that of a
    disk that has to turn. Writers wait for one another no longer than those of SQLite.
    """

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _: Any) -> None:
        connection.execute("SET jit = off")
        connection.execute("SET max_parallel_workers_per_gather = 0")
        connection.execute("SET random_page_cost = 1.1")
        connection.execute(f"SET lock_timeout = '{_BUSY_SECONDS:.0f}s'")
        connection.commit()


def _identity(file: Path) -> tuple[int, int] | None:
    """Return which file a path leads to, None if to none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _migrate(engine: Engine, address: str, index: Callable[[Connection], None]) -> None:
    """Bring schema and index up to date, by one process at a time and in one transaction."""
    with engine.connect().execution_options(read_only=True) as connection:
        found = _revision(connection)
    if found == HEAD:
        return
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(4712018)"))
        found = _revision(connection)
        if found == HEAD:
            return
        if found is not None and found > HEAD:
            raise StoreError(
                f"The database {_shown(address)} has schema {found}, and this program knows schema "
                f"{HEAD}. Use a newer version of Inferometer."
            )
        if found is None:
            METADATA.create_all(connection)
            connection.execute(insert(SCHEMA_VERSION).values(version_num=HEAD))
            return
        # Alembic takes longer to import than the rest, and is seldom needed.
        from inferometer_results.store.migrations import upgrade  # noqa: PLC0415

        upgrade(connection)
        index(connection)


def _revision(connection: Connection) -> str | None:
    """Return the revision of the schema; None if the database is empty."""
    names = set(inspect(connection).get_table_names())
    if SCHEMA_VERSION.name not in names:
        if names:
            raise StoreError(
                "The database holds tables of another program: "
                f"{', '.join(sorted(names)[:3])}. Give a database of its own."
            )
        return None
    return str(connection.execute(select(SCHEMA_VERSION.c.version_num)).scalar_one())
