"""The store of results, as commands open it."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferometer_api.timestamps import format_time
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.terminal import print_error

if TYPE_CHECKING:
    from inferometer_results.store.index_rows import JournalRow
    from inferometer_results.store.store import Store

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="FILE|URL",
        envvar="INFEROMETER_DATABASE",
        help="SQLite file, or postgresql://USER@HOST/NAME. "
        "[default: $XDG_DATA_HOME/inferometer/results.db]",
        show_default=False,
        show_envvar=True,
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
def opened(database: str | None) -> Iterator["Store"]:
    """Open the store; its errors and those of a search end the command."""
    from inferometer_results.store.condition import SearchError
    from inferometer_results.store.database import StoreError, default_address
    from inferometer_results.store.store import Store

    try:
        with text_arguments(), Store(database or default_address()) as store:
            yield store
    except SearchError as error:
        raise RefusedError(str(error)) from error
    except StoreError as error:
        raise FailedError(str(error)) from error


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

    with opened(None) as store:
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
