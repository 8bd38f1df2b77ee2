"""Reads a unary gRPC reply: what its header blocks say, and whether its one message is whole.

The readers of header blocks are functions of the block's bytes alone, so a block that was seen
before costs one cache look-up.
"""

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from inferometer_loadgen.wire.content_coding import (
    READABLE_CODINGS,
    UndecodableError,
    decode_body,
)
from inferometer_loadgen.wire.contract import (
    MAX_BUFFERED_REPLY_BYTES,
    Failure,
    FailureKind,
    ReplyBody,
    printable_line,
)
from inferometer_loadgen.wire.grpc import hpack

MEANINGFUL_HEADERS = frozenset(
    (b":status", b"content-type", b"grpc-encoding", b"grpc-status", b"grpc-message")
)
# fmt: off
_STATUS_NAMES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)
# fmt: on


class OpeningVerdict(NamedTuple):
    """Verdict on the first header block of a reply; `interim` is true for a 1xx status.

    `coding` is that of a compressed message; empty if the message cannot be compressed.
    """

    interim: bool
    failure: Failure | None
    coding: bytes = b""


GOOD_OPENING = OpeningVerdict(interim=False, failure=None)
"""The verdict that lets a message follow; compare by identity."""


@lru_cache(maxsize=256)
def read_opening(block: bytes) -> OpeningVerdict:
    """Judge the headers before a message; raises HpackError."""
    fields = dict(hpack.decode(block, MEANINGFUL_HEADERS))
    if fields.get(b":status", b"").startswith(b"1"):
        return OpeningVerdict(interim=True, failure=None)
    failure = _opening_failure(fields)
    coding = fields.get(b"grpc-encoding", b"identity")
    if failure is None and coding == b"identity":
        return GOOD_OPENING
    return OpeningVerdict(interim=False, failure=failure, coding=coding)


@lru_cache(maxsize=256)
def read_trailers(block: bytes) -> Failure | None:
    """Judge the trailers behind a message; raises HpackError."""
    return _closing_failure(dict(hpack.decode(block, MEANINGFUL_HEADERS)))


@lru_cache(maxsize=256)
def read_trailers_only(block: bytes) -> Failure | None:
    """Judge headers that are the whole reply (Trailers-Only); raises HpackError."""
    fields = dict(hpack.decode(block, MEANINGFUL_HEADERS))
    if b"grpc-status" in fields:
        return _closing_failure(fields)
    return _opening_failure(fields) or _closing_failure(fields)


def _opening_failure(fields: dict[bytes, bytes]) -> Failure | None:
    status = fields.get(b":status", b"").decode("latin-1")
    content_type = fields.get(b"content-type", b"").decode("latin-1")
    if not status:
        return Failure(FailureKind.PROTOCOL, "The reply's headers hold no :status.")
    if status != "200":
        return Failure(
            FailureKind.STATUS,
            printable_line(f"HTTP status {status} without a grpc-status."),
        )
    if not content_type.startswith("application/grpc"):
        return Failure(
            FailureKind.PROTOCOL,
            printable_line(f"The reply's content-type is {content_type!r}, not application/grpc."),
        )
    return None


def _closing_failure(fields: dict[bytes, bytes]) -> Failure | None:
    status = fields.get(b"grpc-status")
    if status is None:
        return Failure(FailureKind.PROTOCOL, "The reply ended without a grpc-status.")
    if status == b"0":
        return None
    number = status.decode("latin-1")
    if not number.isascii() or not number.isdigit() or len(number) > 9:
        return Failure(
            FailureKind.PROTOCOL,
            printable_line(f"The reply's grpc-status is {number!r}, not a number."),
        )
    code = int(number)
    if not code:
        return None
    name = f" {_STATUS_NAMES[code]}" if code < len(_STATUS_NAMES) else ""
    # gRPC percent-encodes UTF-8; invalid parts are shown with replacement characters.
    message = unquote(fields.get(b"grpc-message", b"").decode("latin-1"), errors="replace")
    return Failure(
        FailureKind.STATUS,
        printable_line(f"grpc-status {code}{name}" + (f": {message}" if message else "")),
    )


_PREFIX_BYTES = 5
_COMPRESSED = Failure(
    FailureKind.PROTOCOL,
    "The reply's message is compressed in a way that its headers do not name, or that cannot be "
    "read.",
)
_TOO_LONG = Failure(
    FailureKind.PROTOCOL, "The reply holds more than its one message: bytes follow its end."
)


class ReplyStream:
    """One outstanding request and what has arrived of its reply.

    ``keep`` is true if its message is to be kept. ``opened`` is true once the reply's headers have
    arrived. ``left`` is the number of bytes missing from the message; -1 before its length is
    known.
    """

    __slots__ = (
        "_coding",
        "_is_compressed",
        "_parts",
        "_prefix",
        "keep",
        "left",
        "opened",
        "token",
    )

    def __init__(self, token: int, keep: bool) -> None:  # noqa: FBT001 - by position: made once per request
        self.token = token
        self.keep = keep
        self.opened = False
        self.left = -1

    def open(self, coding: bytes = b"") -> None:
        """Note that the reply's headers arrived and are good, and the coding that they name."""
        self.opened = True
        self._coding = coding
        self._is_compressed = False
        self._prefix = b""
        self._parts: list[bytes] = []

    def take(self, data: bytes, start: int, end: int) -> Failure | None:
        """Take a part of the body; return a failure if it is bad."""
        left = self.left
        if left < 0:
            if self._prefix:
                data = self._prefix + data[start:end]
                start, end = 0, len(data)
            if end - start < _PREFIX_BYTES:
                self._prefix = data[start:end]
                return None
            if data[start]:
                if self._coding not in READABLE_CODINGS:
                    return _COMPRESSED
                self._is_compressed = True
            left = int.from_bytes(data[start + 1 : start + 5], "big")
            self.keep &= left <= MAX_BUFFERED_REPLY_BYTES
            start += _PREFIX_BYTES
        left -= end - start
        if left < 0:
            return _TOO_LONG
        self.left = left
        if self.keep:
            self._parts.append(data[start:end])
        return None

    def received_so_far(self) -> str:
        """Return what has arrived, as a clause; empty if nothing has."""
        if not self.opened:
            return ""
        if self.left < 0:
            return "only its headers had arrived"
        return f"its message lacked {self.left} bytes" if self.left else "its trailers were missing"

    def missing(self) -> Failure | None:
        """Return the failure of a reply that ends with a good status and no whole message."""
        if self.left == 0:
            return None
        what = "before its message" if self.left < 0 else f"{self.left} bytes before its message's"
        return Failure(FailureKind.PROTOCOL, f"The reply ended {what} end, with grpc-status 0.")

    def reply(self) -> tuple[Failure | None, ReplyBody | None]:
        """Return the message, which was to be kept, or the failure to decode it."""
        body = b"".join(self._parts)
        if self._is_compressed:
            try:
                body = decode_body(body, [self._coding], MAX_BUFFERED_REPLY_BYTES)
            except UndecodableError as error:
                return Failure(FailureKind.PROTOCOL, str(error)), None
        return None, ReplyBody(body, None)
