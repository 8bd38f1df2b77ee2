"""Standard output and standard error, which tolerate a reader that has gone away."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

import typer
from rich.console import Console
from typing_extensions import override

from inferometer_cli.exits import ExitCode, FailedError, RefusedError, StoppedError
from inferometer_results.store.scenario_rows import short_id

ProgressFormat = Literal["auto", "plain", "json"]
"""How standard error is written; auto: a moving line on a terminal, plain lines elsewhere."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class _MessageStyle:
    """Whether messages are lines for people or objects for programs."""

    is_json = False


_STYLE = _MessageStyle()


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


def printable(text: str) -> str:
    """Return the text without control characters, which could control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else REPLACEMENT for c in text)


def print_message(text: str) -> None:
    """Write a line to standard error, without control characters; ignore a closed pipe."""
    if _STYLE.is_json:
        print_event("message", message=text.strip())
        return
    with contextlib.suppress(OSError):
        typer.echo(printable(text), err=True)


def print_error(sentence: str) -> None:
    """Write why a command failed to standard error."""
    if _STYLE.is_json:
        print_event("error", message=sentence)
    else:
        print_message(f"inferometer: {sentence}")


def print_paths(*, result: Path, report: Path, stored: str = "") -> None:
    """Write to standard error where a result and its report are, and its ID in the database."""
    if _STYLE.is_json:
        print_event("result", result=str(result), report=str(report), stored=stored)
    else:
        id_ = f"\nstored  {short_id(stored)}" if stored else ""
        print_message(f"\nresult  {result}\nreport  {report}{id_}")


def print_event(event: str, **facts: object) -> None:
    """Write an object of JSON to standard error, as one line; ignore a closed pipe."""
    with contextlib.suppress(OSError):
        typer.echo(json.dumps({"event": event, **facts}, ensure_ascii=False), err=True)


@contextlib.contextmanager
def message_format(wanted: ProgressFormat) -> Iterator[None]:
    """Write all messages of the block as JSON, if that is wanted, and the error that ends it."""
    if wanted != "json":
        yield
        return
    _STYLE.is_json = True
    try:
        yield
    except RefusedError as refusal:
        print_error(str(refusal))
        raise typer.Exit(ExitCode.REFUSED) from refusal
    except FailedError as fault:
        print_error(str(fault))
        raise typer.Exit(ExitCode.FAILED) from fault
    except StoppedError as ended:
        print_error("interrupted." if ended.code == ExitCode.INTERRUPTED else "terminated.")
        raise typer.Exit(int(ended.code or 0)) from ended
    finally:
        _STYLE.is_json = False


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
