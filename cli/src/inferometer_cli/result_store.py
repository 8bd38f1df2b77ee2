"""The store of results, as commands open it."""

import getpass
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from inferometer_api.timestamps import format_time
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.terminal import error_console, print_error, print_message

if TYPE_CHECKING:
    from rich.progress import Progress

    from inferometer_results.store.index_rows import JournalRow
    from inferometer_results.store.store import Store

_SHOWN_SECONDS = 5.0
"""Lines of progress are so far apart, and the first one comes so late."""
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="FILE|URL",
        help="SQLite file, or postgresql://USER@HOST/NAME. "
        "[default: $INFEROMETER_DATABASE, or $XDG_DATA_HOME/inferometer/results.db]",
        show_default=False,
    ),
]
SaveOption = Annotated[
    bool,
    typer.Option(
        "--save/--no-save",
        help="Keep the result in this machine's database too (`inferometer results`).",
    ),
]
WhereOption = Annotated[
    str,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Such as 'model=resnet50 and p99<50ms'; and, or, not, brackets; = != < <= > >= and "
        "~ (contains). `inferometer results fields` lists the fields.",
        show_default=False,
    ),
]


@contextmanager
def open_store(database: str | None, *, must_exist: bool = False) -> Iterator["Store"]:
    """Open the store; its errors and those of a search end the command.

    `must_exist`: refuse a file that a user names and that is not there, instead of making it.
    """
    from inferometer_results.store.database import StoreError, default_address
    from inferometer_results.store.search_fields import SearchError
    from inferometer_results.store.store import Store

    if must_exist and database and "://" not in database and not Path(database).exists():
        raise RefusedError(
            f"There is no database {database}. Check --database; `inferometer results import` "
            "makes a new one."
        )
    address = database or default_address()
    try:
        # An older database is indexed again when it is opened.
        with (
            text_arguments(),
            IndexProgress() as progress,
            Store(address, on_indexed=progress) as store,
        ):
            yield store
    except SearchError as error:
        raise RefusedError(str(error)) from error
    except StoreError as error:
        raise FailedError(str(error)) from error


class IndexProgress:
    """Shows how many results are indexed and the time left: a bar on a terminal, lines elsewhere.

    An index that is made at once shows nothing.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: float | None = None
        self._shown = 0.0
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def __call__(self, done: int, total: int) -> None:
        """Show that so many results of all are indexed."""
        now = self._clock()
        if self._began is None:
            self._began = self._shown = now
        if done >= total:
            self._end()
        elif self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done)
        elif now - self._shown >= _SHOWN_SECONDS:
            self._shown = now
            self._show(done, total, (now - self._began) * (total - done) / done)

    def _show(self, done: int, total: int, seconds_left: float) -> None:
        from rich.progress import Progress

        from inferometer_results.quantity import long_duration

        console = error_console()
        if not console.is_terminal or console.is_dumb_terminal:
            left = long_duration(seconds_left)
            print_message(f"Indexing results: {done:,} of {total:,}, {left} left.")
            return
        self._bar = Progress(console=console, transient=True)
        self._bar.add_task("Indexing results", total=total, completed=done)
        self._bar.start()

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextmanager
def text_arguments() -> Iterator[None]:
    """Refuse an argument whose bytes are no UTF-8, which no database and no address can have."""
    try:
        yield
    except UnicodeEncodeError as error:
        if not any("\ud800" <= each <= "\udfff" for each in error.object):
            raise
        raise RefusedError(
            f"{error.object!a} is not UTF-8. Check the arguments of the command."
        ) from error


def keep(result: Path) -> str:
    """Keep the result of a run of this machine; return its ID. Raises FailedError and OSError."""
    from inferometer_results.store.index_rows import Origin

    with open_store(None) as store:
        origin = Origin("run", format_time(datetime.now(tz=UTC)))
        return store.add(result.read_bytes(), origin, source=str(result)).id


def try_to_keep(result: Path) -> str:
    """Keep a result; return its ID. Without it the run is complete all the same: "", with why."""
    try:
        return keep(result)
    except (FailedError, OSError) as error:
        print_error(f"The result is not in the database. {error}")
        return ""


def entry(action: str, text: str) -> "JournalRow":
    """Return an entry of the journal by this user, now."""
    from inferometer_results.store.index_rows import JournalRow

    return JournalRow(format_time(datetime.now(tz=UTC)), _user(), action, text)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
