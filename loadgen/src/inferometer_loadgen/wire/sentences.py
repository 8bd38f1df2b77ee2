"""How is what a server said made fit for a failure's message?"""

from collections.abc import Iterable

from inferometer_loadgen.wire.contract import MESSAGE_LIMIT

SHORTEST_SECRET = 4
"""What is shorter is in every other sentence, and no secret."""

_secrets: set[str] = set()


def conceal(values: Iterable[str]) -> None:
    """Let none of these values stand in a message of this process from now on.

    A server may send a header back in its refusal: of `Bearer abc` the credentials alone, too.
    """
    for value in values:
        found = {value, value.partition(" ")[2].strip()}
        _secrets.update(each for each in found if len(each) >= SHORTEST_SECRET)


def concealed(text: str) -> str:
    """Return a text with `***` for each value that is concealed."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def bounded(text: str) -> str:
    """One line of printable text of at most MESSAGE_LIMIT characters, without what is concealed."""
    text = concealed(text)
    head = text[: 2 * MESSAGE_LIMIT]
    line = " ".join("".join(c if c.isprintable() else " " for c in head).split())
    if len(line) <= MESSAGE_LIMIT and len(text) <= 2 * MESSAGE_LIMIT:
        return line
    return line[: MESSAGE_LIMIT - 1] + "…"


def reason_of(error: Exception | None) -> str:
    """Why a connection ended, as a clause."""
    if error is None:
        return "the server closed the connection."
    return f"{error}."
