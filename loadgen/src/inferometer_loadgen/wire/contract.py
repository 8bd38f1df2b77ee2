"""What do the driver of a load and a wire protocol say to each other?

A connection sends requests whose bytes were prepared before the measurement and answers each one
exactly once through ``OnReply``, unless the driver cancelled it or closed the connection first.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from inferometer_loadgen.wire.tls import Tls


class FailureKind(StrEnum):
    """Why a request has no good answer: the key by which errors are counted.

    ``TIMEOUT`` and ``CONTENT`` are never made here: the driver gives up on a request, or finds
    that its outputs do not fit. ``STATUS`` is the server's own error, ``PROTOCOL`` a reply that
    breaks HTTP or gRPC, ``CONNECTION`` a connection that was lost or refused.
    """

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    STATUS = "status"
    PROTOCOL = "protocol"
    CONTENT = "content"


MESSAGE_LIMIT = 500
"""The longest message of a failure, in characters."""


KEPT_REPLY_BYTES = 256 * 1024 * 1024
"""The longest body that is kept to be looked at: a longer one may never end."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One request's failure: its kind, and one sentence that says what the server did or said."""

    kind: FailureKind
    message: str


class ConnectionFailedError(OSError):
    """A connection could not be opened; the message is a sentence that names host, port and why."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go and for which model.

    ``path_prefix`` is the path of the server's URL ("" or "/some/where", no slash at its end); it
    is put before the paths of the Open Inference Protocol and means nothing to gRPC.
    """

    protocol: Literal["HTTP", "GRPC"]
    host: str
    port: int
    model_name: str
    model_version: str = ""
    path_prefix: str = ""
    tls: Tls | None = None
    """None: the connection is not encrypted."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Of every request, beside its own; metadata with gRPC. They may be secret."""


@dataclass(frozen=True, slots=True)
class EncodedRequest:
    """One inference request as tritonclient encoded it.

    HTTP: ``payload`` is the JSON with the binary tensors behind it and ``json_length`` the length
    of the JSON in bytes, or None where no binary tensor follows. gRPC: ``payload`` is a serialized
    ``ModelInferRequest`` (which names the model itself) and ``json_length`` is None.
    """

    payload: bytes
    json_length: int | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """The wire bytes of one request, made by ``prepare`` and opaque to everyone but a connection.

    It may be sent any number of times, on any connection to the target it was prepared for.
    """

    pieces: tuple[bytes, ...]


class Reply(NamedTuple):
    """The body of a good reply that was asked to be kept.

    HTTP: the whole body and the length of its JSON part (None where all of it is JSON). gRPC: the
    serialized ``ModelInferResponse`` and None.
    """

    body: bytes
    json_length: int | None


OnReply = Callable[[int, Failure | None, Reply | None], None]
"""Called with the token of the request, its failure or None, and the reply if it was kept.

It is called in the loop turn that read the reply's last byte, and may send the next request (or
cancel, or close) from within. The connection's own counts are already those after this reply.
"""


class Connection(Protocol):
    """One connection to a server, which comes back by itself after a loss.

    Its capacity is 0 while not connected and else 1 for HTTP and, for gRPC, the streams asked for
    or the server's limit, whichever is less. A request is never sent twice: what was outstanding
    when the connection was lost fails.
    """

    @property
    def capacity(self) -> int:
        """How many requests may be outstanding now."""

    @property
    def outstanding(self) -> int:
        """How many requests have been sent and not been answered or cancelled."""

    @property
    def connected(self) -> bool:
        """Whether it is there; a server may allow no request on it all the same."""

    @property
    def last_error(self) -> str:
        """Why the last attempt to open it again failed, as a sentence; empty where none did."""

    @property
    def reconnects(self) -> int:
        """How often the connection has been opened again after its first time."""

    def send(self, prepared: Prepared, token: int, keep_reply: bool = False) -> None:  # noqa: FBT001, FBT002 - by position on the hot path: a keyword costs time there
        """Send one request; the caller has seen that ``outstanding < capacity``.

        ``token`` names the request in ``OnReply``, ``cancel`` and nowhere else; it must not be
        outstanding already. With ``keep_reply`` the reply's body is kept and passed on; without
        it, or where it is longer than ``KEPT_REPLY_BYTES``, the body is counted and dropped, but status,
        framing and lengths are checked as well.
        """

    def cancel(self, token: int) -> str:
        """Forget an outstanding request: ``OnReply`` will not be called for it.

        Returns how far it had come, as a clause; empty where nothing of its reply came. HTTP
        closes the connection and opens it again; gRPC resets the stream and goes on.
        """

    async def close(self) -> None:
        """Close for good; what is outstanding is forgotten without a call of ``OnReply``."""


def no_answer_message(within: str, came: str) -> str:
    """Say that a query was given up after so long; ``came`` is what ``cancel`` returned."""
    if came:
        return f"There was no whole answer within {within}: {came}."
    return f"There was no answer within {within}."


OnCapacity = Callable[[Connection], None]
"""Called when a connection's capacity has grown: it came back, or the server allows more streams.

It is not called for the room that a reply or a ``cancel`` makes: the driver knows of those.
"""


SHORTEST_SECRET = 4
"""What is shorter is in every other sentence, and no secret."""

_secrets: set[str] = set()


def register_secrets(values: Iterable[str]) -> None:
    """Let none of these values stand in a message of this process from now on.

    A server may send a header back in its refusal: of `Bearer abc` the credentials alone, too.
    """
    for value in values:
        found = {value, value.partition(" ")[2].strip()}
        _secrets.update(each for each in found if len(each) >= SHORTEST_SECRET)


def redact(text: str) -> str:
    """Return a text with `***` for each value that is concealed."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def printable_line(text: str) -> str:
    """One line of printable text of at most MESSAGE_LIMIT characters, without what is concealed."""
    text = redact(text)
    head = text[: 2 * MESSAGE_LIMIT]
    line = " ".join("".join(c if c.isprintable() else " " for c in head).split())
    if len(line) <= MESSAGE_LIMIT and len(text) <= 2 * MESSAGE_LIMIT:
        return line
    return line[: MESSAGE_LIMIT - 1] + "…"


def close_reason(error: Exception | None) -> str:
    """Why a connection ended, as a clause."""
    if error is None:
        return "the server closed the connection."
    return f"{error}."
