"""What was looked at before a run, and what came of it?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from inferometer_cli.text_table import printable

State = Literal["ok", "warning", "stops", "not known"]

Json = Mapping[str, Any]
"""A raw object of the Kubernetes API."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read."""

    why: str
    """A sentence."""
    absent: bool = False
    """Whether the cluster says that it does not exist."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    state: State
    about: str
    """What it is about, in a word or two."""
    said: str
    """What was found, and what to do where it is not ok."""


def ok(about: str, said: str) -> Check:
    """Return a check that found nothing wrong."""
    return Check("ok", about, said)


def warning(about: str, said: str) -> Check:
    """Return a check that found something which the run will live with, or may wait for."""
    return Check("warning", about, said)


def stops(about: str, said: str) -> Check:
    """Return a check that found what would stop the run."""
    return Check("stops", about, said)


def not_known(about: str, said: str) -> Check:
    """Return a check that could not be made."""
    return Check("not known", about, said)


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return names in a row, no more than a person reads."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def lines(checks: Sequence[Check]) -> Iterator[str]:
    """Yield a line for each check: its state, what it is about, what was found."""
    width = max(len(check.about) for check in checks)
    for check in checks:
        said = " ".join(printable(check.said).split())
        yield f"{check.state:<9}  {check.about:<{width}}  {said}"


def summary(checks: Sequence[Check], what: str) -> str:
    """Return what all checks come down to for `what`: a file in a namespace."""
    stopping = _count(checks, "stops")
    verb = "thing stops" if stopping == 1 else "things stop"
    told = f"{stopping} {verb} {what}" if stopping else f"Nothing stops {what}"
    warnings, open_ = _count(checks, "warning"), _count(checks, "not known")
    more = [
        f"{count} {word}"
        for count, word in (
            (warnings, "warning" if warnings == 1 else "warnings"),
            (open_, "thing is not known" if open_ == 1 else "things are not known"),
        )
        if count
    ]
    return f"{'; '.join((told, *more))}."


def _count(checks: Sequence[Check], state: State) -> int:
    return sum(check.state == state for check in checks)
