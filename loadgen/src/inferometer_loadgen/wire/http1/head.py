"""Reads the header block of an HTTP/1.1 reply (RFC 9112)."""

import re
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

from inferometer_loadgen.wire.content_coding import READABLE_CODINGS

HEAD_LIMIT_BYTES = 65_536
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5]\d\d)(?: ([^\r\n]*))?\r\n")
_LINES = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[^\r\n]*+\r\n)*+")
MEANINGFUL = (
    b"content-length",
    b"connection",
    b"content-encoding",
    b"transfer-encoding",
    b"inference-header-content-length",
)
"""Headers that the client interprets, in lower case."""
# The first letter is matched first: proxies add many lines that the client ignores.
_WANTED = re.compile(rb"\n(?=[citCIT])(?i:(" + b"|".join(MEANINGFUL) + rb")):([^\r\n]*)")
_FOLD = re.compile(rb"\r\n[ \t]+")
"""Obsolete line folding, which must still be accepted (RFC 9112, section 5.2)."""
_NO_BODY = frozenset((204, 304))


class ReplyError(ValueError):
    """A reply violates HTTP/1.1; the message says how."""


class ReplyHead(NamedTuple):
    """The part of a reply's header block that is needed to read and judge its body.

    ``length`` is the body's length in bytes: -1 if the body is chunked, None if it ends with the
    connection. ``json_length`` is the Inference-Header-Content-Length. ``codings`` are those of the
    body in the order of their application. ``good`` is true for the common case: status 200, a body
    of known length without codings, and a connection that stays open.
    """

    status: int
    reason: str
    length: int | None
    json_length: int | None
    reusable: bool
    codings: tuple[bytes, ...]
    good: bool


CHUNKED = -1


# Every reply has the same block until its Date changes. The cache is bounded because proxies
# write a new id into each reply.
@lru_cache(maxsize=256)
def parse_head(block: bytes) -> ReplyHead:
    """Return the parsed header block, which ends with its empty line; raises ReplyError."""
    matched = _STATUS_LINE.match(block)
    if matched is None:
        line = block.partition(b"\r\n")[0][:80]
        raise ReplyError(f"The reply begins with {line!r}, which is not an HTTP/1 status line.")
    status = int(matched[2])
    fields = _fields(block, matched.end())
    codings = _codings(fields)
    length = None if status >= 200 else 0
    if status in _NO_BODY:
        length = 0
    elif status >= 200:
        length = _body_length(fields)
    json_length = _one_number(fields, b"inference-header-content-length")
    sized = None if codings else length
    if json_length is not None and sized is not None and 0 <= sized < json_length:
        raise ReplyError(
            f"The reply's JSON part should have {json_length} bytes, but its body has {length}."
        )
    reusable = length is not None and _stays_open(matched[1], fields)
    return ReplyHead(
        status=status,
        reason=_reason(status, matched[3]),
        length=length,
        json_length=json_length,
        reusable=reusable,
        codings=codings,
        good=status == HTTPStatus.OK and reusable and length != CHUNKED and not codings,
    )


def _fields(block: bytes, start: int) -> dict[bytes, bytes]:
    """Return the values of meaningful headers; repeated ones are joined by commas."""
    lines_end = len(block) - 2
    if _LINES.fullmatch(block, start, lines_end) is None:
        block = block[:start] + _FOLD.sub(b" ", block[start:])
        lines_end = len(block) - 2
    if _LINES.fullmatch(block, start, lines_end) is None:
        lines = block[start : lines_end - 2]
        broken = next(line for line in lines.split(b"\r\n") if not _LINES.fullmatch(line + b"\r\n"))
        raise ReplyError(f"The reply's header line {broken[:80]!r} has no name and value.")
    fields: dict[bytes, bytes] = {}
    for name, spaced in _WANTED.findall(block, start - 1):
        key, value = name.lower(), spaced.strip(b" \t")
        fields[key] = fields[key] + b"," + value if key in fields else value
    return fields


def _tokens(fields: dict[bytes, bytes], name: bytes) -> list[bytes]:
    return [token.strip().lower() for token in fields.get(name, b"").split(b",") if token.strip()]


def _one_number(fields: dict[bytes, bytes], name: bytes) -> int | None:
    if name not in fields:
        return None
    if fields[name].isdigit() and len(fields[name]) <= 18:
        return int(fields[name])
    values = {value.strip() for value in fields[name].split(b",")}
    text = values.pop()
    if values or not text.isdigit() or len(text) > 18:
        raise ReplyError(f"The reply's {name.decode()} is {fields[name][:80]!r}, not one number.")
    return int(text)


def _body_length(fields: dict[bytes, bytes]) -> int | None:
    codings = _tokens(fields, b"transfer-encoding")
    if not codings:
        return _one_number(fields, b"content-length")
    if codings != [b"chunked"]:
        raise ReplyError(f"The reply's transfer-encoding is {codings}; only chunked is supported.")
    return CHUNKED


def _codings(fields: dict[bytes, bytes]) -> tuple[bytes, ...]:
    codings = [coding for coding in _tokens(fields, b"content-encoding") if coding != b"identity"]
    for coding in codings:
        if coding not in READABLE_CODINGS:
            name = coding[:80].decode("latin-1")
            raise ReplyError(
                f"The reply's body is encoded as {name!r}, which the client did not request and "
                "cannot read."
            )
    return tuple(codings)


def _stays_open(minor_version: bytes, fields: dict[bytes, bytes]) -> bool:
    # RFC 9112, section 6.1: an intermediary may have interpreted it differently.
    if b"transfer-encoding" in fields and (b"content-length" in fields or minor_version == b"0"):
        return False
    options = _tokens(fields, b"connection")
    if minor_version == b"0":
        return b"keep-alive" in options
    return b"close" not in options


def _reason(status: int, phrase: bytes | None) -> str:
    if phrase:
        return phrase.decode("latin-1")
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "without a reason"
