"""One check before a run: its outcome, and how checks are printed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from inferometer_cli.terminal import printable

State = Literal["ok", "warning", "blocked", "unknown"]

Json = Mapping[str, Any]
"""A raw object of the Kubernetes API."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read."""

    why: str
    """A sentence."""
    absent: bool = False
    """Whether the cluster answered that it does not exist."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked."""

    state: State
    about: str
    """The subject, in a word or two."""
    message: str
    """What was found, and what to do unless it is ok."""


def ok(about: str, message: str) -> Check:
    """Return a check that found nothing wrong."""
    return Check("ok", about, message)


def warning(about: str, message: str) -> Check:
    """Return a check that found something that delays or qualifies the run."""
    return Check("warning", about, message)


def blocked(about: str, message: str) -> Check:
    """Return a check that found something that prevents the run."""
    return Check("blocked", about, message)


def unknown(about: str, message: str) -> Check:
    """Return a check that could not be made."""
    return Check("unknown", about, message)


def lines(checks: Sequence[Check]) -> Iterator[str]:
    """Yield a line for each check: its state, what it is about, what was found."""
    width = max(len(check.about) for check in checks)
    for check in checks:
        message = " ".join(printable(check.message).split())
        yield f"{check.state:<7}  {check.about:<{width}}  {message}"


def summary(checks: Sequence[Check], what: str) -> str:
    """Return the outcome of all checks for `what`: a file in a namespace."""
    blocking = _count(checks, "blocked")
    verb = "problem blocks" if blocking == 1 else "problems block"
    outcome = f"{blocking} {verb} {what}" if blocking else f"Nothing blocks {what}"
    warnings, unknowns = _count(checks, "warning"), _count(checks, "unknown")
    more = [
        f"{count} {word}"
        for count, word in (
            (warnings, "warning" if warnings == 1 else "warnings"),
            (unknowns, "unknown"),
        )
        if count
    ]
    return f"{'; '.join((outcome, *more))}."


def _count(checks: Sequence[Check], state: State) -> int:
    return sum(check.state == state for check in checks)
