"""How is what a server said made fit for a failure's message?"""

from inferometer_loadgen.wire.contract import MESSAGE_LIMIT


def bounded(text: str) -> str:
    """One line of printable text of at most MESSAGE_LIMIT characters."""
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
