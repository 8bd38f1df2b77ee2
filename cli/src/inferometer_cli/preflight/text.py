"""How does a person read what a preflight found?"""

from collections.abc import Iterator, Sequence

from inferometer_cli.grid import printable
from inferometer_cli.preflight.check import Check, State


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
