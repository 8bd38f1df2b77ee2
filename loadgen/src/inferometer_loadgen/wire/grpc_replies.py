"""What do the header blocks of a gRPC reply say?

Both readers are functions of the block's bytes alone, so that blocks seen before cost a look-up.
"""

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from inferometer_loadgen.wire import hpack
from inferometer_loadgen.wire.contract import Failure, FailureKind
from inferometer_loadgen.wire.hpack_alike import AlikeBlocks, alike
from inferometer_loadgen.wire.sentences import bounded

_WANTED = frozenset(
    (b":status", b"content-type", b"grpc-encoding", b"grpc-status", b"grpc-message")
)
# fmt: off
_STATUS_NAMES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)
# fmt: on


class Opening(NamedTuple):
    """The verdict on a block that opens a reply: an interim one says nothing yet."""

    interim: bool
    failure: Failure | None


GOOD_OPENING = Opening(interim=False, failure=None)
"""The one opening that lets a message follow; compare by identity."""


@lru_cache(maxsize=256)
def read_opening(block: bytes) -> Opening:
    """Judge the headers before a message; raises HpackError."""
    fields = dict(hpack.decode(block, _WANTED))
    if fields.get(b":status", b"").startswith(b"1"):
        return Opening(interim=True, failure=None)
    failure = _opening_failure(fields)
    return GOOD_OPENING if failure is None else Opening(interim=False, failure=failure)


def good_openings_like(block: bytes) -> AlikeBlocks:
    """Return the blocks that are good openings as this one is; raises HpackError."""
    return alike(block, _WANTED)


@lru_cache(maxsize=256)
def read_trailers(block: bytes) -> Failure | None:
    """Judge the headers behind a message; raises HpackError."""
    return _closing_failure(dict(hpack.decode(block, _WANTED)))


@lru_cache(maxsize=256)
def read_trailers_only(block: bytes) -> Failure | None:
    """Judge headers that open and end a reply at once; raises HpackError."""
    fields = dict(hpack.decode(block, _WANTED))
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
            FailureKind.STATUS, bounded(f"HTTP status {status}, with no grpc-status behind it.")
        )
    if not content_type.startswith("application/grpc"):
        return Failure(
            FailureKind.PROTOCOL,
            bounded(f"The reply's content-type is {content_type!r}, not application/grpc."),
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
            FailureKind.PROTOCOL, bounded(f"The reply's grpc-status is {number!r}, no number.")
        )
    code = int(number)
    if not code:
        return None
    name = f" {_STATUS_NAMES[code]}" if code < len(_STATUS_NAMES) else ""
    # Percent-encoded UTF-8 by gRPC's own rule; what breaks it is shown as far as it goes.
    message = unquote(fields.get(b"grpc-message", b"").decode("latin-1"), errors="replace")
    return Failure(
        FailureKind.STATUS,
        bounded(f"grpc-status {code}{name}" + (f": {message}" if message else "")),
    )
