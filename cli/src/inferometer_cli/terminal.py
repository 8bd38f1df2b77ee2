"""Standard output and standard error, which tolerate a reader that has gone away."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import IO

import typer
from rich.console import Console
from typing_extensions import override

from inferometer_cli.exits import FailedError


class _PipeTolerantConsole(Console):
    """A console that goes silent, instead of exiting, when its reader has gone (`| head`)."""

    @override
    def on_broken_pipe(self) -> None:
        _silence(self.file)


def output_console() -> Console:
    """Return a console on standard output."""
    return _PipeTolerantConsole()


def error_console() -> Console:
    """Return a console on standard error."""
    return _PipeTolerantConsole(stderr=True)


def print_output(text: str, *, end: str = "\n") -> None:
    """Write to standard output; ignore a closed pipe."""
    with flushed_output():
        typer.echo(text + end, nl=False)


def print_message(text: str) -> None:
    """Write a line to standard error; ignore a closed pipe."""
    with contextlib.suppress(OSError):
        typer.echo(text, err=True)


@contextlib.contextmanager
def flushed_output() -> Iterator[None]:
    """Flush standard output after the block. Raises FailedError if it cannot be written."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
    except OSError as error:
        _silence(sys.stdout)
        raise FailedError(f"Cannot write to standard output: {error.strerror}.") from error


def _silence(stream: IO[str]) -> None:
    # The buffered rest must go somewhere, or Python reports the error again at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
