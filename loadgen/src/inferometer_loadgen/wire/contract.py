"""Contract between the driver of a load and a wire protocol.

A connection sends requests whose bytes were prepared before the measurement and answers each one
exactly once through ``OnReply``, unless the driver cancelled it or closed the connection first.
"""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from inferometer_loadgen.wire.tls import ClientTls


class FailureKind(StrEnum):
    """Kind of a failed request; errors are counted by it.

    ``STATUS`` is an error that the server reports, ``PROTOCOL`` a reply that violates HTTP or gRPC,
    ``CONNECTION`` a connection that was lost or refused. The wire layer never produces the other
    two: the driver gives up on a request (``TIMEOUT``), or finds that its outputs do not match the
    model (``CONTENT``).
    """

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    STATUS = "status"
    PROTOCOL = "protocol"
    CONTENT = "content"


MESSAGE_LIMIT = 500
"""Maximum length of a failure's message, in characters."""


MAX_BUFFERED_REPLY_BYTES = 256 * 1024 * 1024
"""Maximum size of a body that is kept for a check; a longer one may never end."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of one request: its kind, and one sentence that says what went wrong."""

    kind: FailureKind
    message: str


class ConnectionFailedError(OSError):
    """A connection could not be opened; the message names host, port and reason."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """Server and model that requests go to.

    ``path_prefix`` is the path of the server's URL, "" or "/some/where" without a final slash. HTTP
    prepends it to the paths of the Open Inference Protocol; gRPC ignores it.
    """

    protocol: Literal["HTTP", "GRPC"]
    host: str
    port: int
    model_name: str
    model_version: str = ""
    path_prefix: str = ""
    tls: ClientTls | None = None
    """None: the connection is not encrypted."""
    compression: Literal["gzip", "deflate"] | None = None
    """Coding of gRPC's requests, and the one that replies may have; None: neither is compressed."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Extra headers of every request (metadata with gRPC). They may be secret."""


@dataclass(frozen=True, slots=True)
class EncodedRequest:
    """One inference request as tritonclient encoded it.

    HTTP: ``payload`` is the JSON with the binary tensors behind it and ``json_length`` the length
    of the JSON in bytes, or None if no binary tensor follows. gRPC: ``payload`` is a serialized
    ``ModelInferRequest`` (which names the model itself) and ``json_length`` is None.
    """

    payload: bytes
    json_length: int | None = None


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """Wire bytes of one request, made by ``prepare``; only a connection interprets them.

    It may be sent any number of times, on any connection to the target it was prepared for.
    """

    pieces: tuple[bytes, ...]


class ReplyBody(NamedTuple):
    """Body of a good reply that was sent with ``keep_reply``.

    HTTP: the whole body and the length of its JSON part (None if all of it is JSON). gRPC: the
    serialized ``ModelInferResponse`` and None.
    """

    body: bytes
    json_length: int | None


OnReply = Callable[[int, Failure | None, ReplyBody | None], None]
"""Called with the token of the request, its failure or None, and the body if it was kept.

The connection calls it in the turn of the event loop that read the reply's last byte. The callback
may send the next request, cancel or close. The connection's counts already include this reply.
"""


class Connection(Protocol):
    """One connection to a server, which reopens itself after a loss.

    Its capacity is 0 while not connected. Else it is 1 for HTTP; for gRPC it is the configured
    number of streams or the server's limit, whichever is less. Requests that are outstanding when
    the connection is lost fail. One exception is sent a second time: an HTTP request that followed
    an error reply at once and met a connection that the server had closed.
    """

    @property
    def capacity(self) -> int:
        """Number of requests that may be outstanding now."""

    @property
    def outstanding(self) -> int:
        """Number of requests that were sent and neither answered nor cancelled."""

    @property
    def connected(self) -> bool:
        """Whether it is open; even then the server may allow no request on it."""

    @property
    def last_error(self) -> str:
        """Why the last attempt to reopen it failed, as a sentence; empty if none did."""

    @property
    def reconnects(self) -> int:
        """How often the connection was reopened."""

    @property
    def resent_token(self) -> int | None:
        """The request that was sent a second time when the connection was last reopened."""

    def send(self, prepared: PreparedRequest, token: int, keep_reply: bool = False) -> None:  # noqa: FBT001, FBT002 - by position on the hot path: a keyword costs time there
        """Send one request; the caller has checked that ``outstanding < capacity``.

        ``token`` names the request in ``OnReply`` and ``cancel``; it must not be outstanding
        already. With ``keep_reply`` the reply's body is passed to ``OnReply``. Without it, or if
        the body is longer than ``MAX_BUFFERED_REPLY_BYTES``, the body is counted and dropped;
        status, framing and lengths are checked in both cases.
        """

    def send_traced(
        self,
        prepared: PreparedRequest,
        token: int,
        keep_reply: bool,  # noqa: FBT001 - as in `send`
        traceparent: str,
    ) -> None:
        """Send one request with the header traceparent, as `send` does."""

    def first_byte_ns(self, token: int) -> int:
        """Return when the reply to a traced request began to arrive, by the monotonic clock.

        Called once, when it is answered; 0 if it arrived at once.
        """

    def cancel(self, token: int) -> str:
        """Forget an outstanding request: ``OnReply`` will not be called for it.

        Returns what had arrived of its reply, as a clause; empty if nothing had. HTTP closes the
        connection and reopens it; gRPC resets the stream.
        """

    async def close(self) -> None:
        """Close for good; outstanding requests are forgotten without a call of ``OnReply``."""


def no_answer_message(timeout: str, received: str) -> str:
    """Return the message of a query that timed out; ``received`` is what ``cancel`` returned."""
    if received:
        return f"There was no whole answer within {timeout}: {received}."
    return f"There was no answer within {timeout}."


OnCapacity = Callable[[Connection], None]
"""Called when a connection's capacity grew: it was reopened, or the server allows more streams.

It is not called for the capacity that a reply or a ``cancel`` frees.
"""


SHORTEST_SECRET = 4
"""Shorter values are not redacted: they occur in ordinary text and cannot be secrets."""

_secrets: set[str] = set()


def register_secrets(values: Iterable[str]) -> None:
    """Redact these values in every later message of this process.

    A server may echo a header in its error: of `Bearer abc`, possibly only the credentials.
    """
    for value in values:
        found = {value, value.partition(" ")[2].strip()}
        _secrets.update(each for each in found if len(each) >= SHORTEST_SECRET)


def redact(text: str) -> str:
    """Return a text with each registered secret replaced by `***`."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


_CUT = " … "
"""Marks where the middle of a long text was left out."""


def printable_line(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return one printable line of at most `limit` characters, with secrets redacted.

    A long text loses its middle: the cause of a traceback stands at its end.
    """
    text = redact(text)
    if len(text) > 4 * limit:  # before the costly part
        head, tail = _one_line(text[: 2 * limit]), _one_line(text[-2 * limit :])
        return _joined(head, tail, limit)
    line = _one_line(text)
    return line if len(line) <= limit else _joined(line, line, limit)


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _joined(head: str, tail: str, limit: int) -> str:
    """Return the begin of one text and the end of another."""
    room = limit - len(_CUT)
    return f"{head[: room - room // 2].rstrip()}{_CUT}{tail[-(room // 2) :].lstrip()}"


_ERRNO = re.compile(r"\[Errno (\d+)\]")


def connection_error_text(error: OSError) -> str:
    """Return the operating system's words for an error, without those of a library."""
    number = error.errno
    if not number and (found := _ERRNO.search(str(error))):
        number = int(found[1])
    if number and number > 0:
        return os.strerror(number)
    return error.strerror or str(error)


def close_reason(error: Exception | None) -> str:
    """Return why a connection ended, as a clause."""
    if error is None:
        return "the server closed the connection."
    text = connection_error_text(error) if isinstance(error, OSError) else str(error)
    return f"{text.rstrip('.')}."
