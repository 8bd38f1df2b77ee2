"""Where does a command speak, and what if nobody listens any more?"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import IO

import typer
from rich.console import Console
from typing_extensions import override

from inferometer_cli.exits import FailedError


class _PatientConsole(Console):
    """A console that falls silent when its reader has gone (`| head`), and ends nothing."""

    @override
    def on_broken_pipe(self) -> None:
        _fall_silent(self.file)


def output() -> Console:
    """Return what writes to standard output."""
    return _PatientConsole()


def progress() -> Console:
    """Return what writes to standard error."""
    return _PatientConsole(stderr=True)


def say(text: str, *, end: str = "\n") -> None:
    """Write to standard output; a reader that has seen enough is no fault."""
    with written_out():
        typer.echo(text + end, nl=False)


def tell(text: str) -> None:
    """Write a line to standard error; a reader that has seen enough is no fault."""
    with contextlib.suppress(OSError):
        typer.echo(text, err=True)


@contextlib.contextmanager
def written_out() -> Iterator[None]:
    """Flush standard output at the block's end; raises FailedError where it takes nothing."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _fall_silent(sys.stdout)
    except OSError as error:
        _fall_silent(sys.stdout)
        raise FailedError(f"Standard output takes nothing more: {error.strerror}.") from error


def _fall_silent(stream: IO[str]) -> None:
    # What is still buffered must go somewhere, or Python complains once more at its exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
