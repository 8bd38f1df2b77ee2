"""Decoder of compressed bodies and messages.

The client requests none, but some proxies compress all the same.
"""

import gzip
import zlib
from collections.abc import Sequence
from typing import Literal

READABLE_CODINGS = frozenset((b"gzip", b"x-gzip", b"deflate"))
"""Codings of a body that are read, although the client requests none by default."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


def encode_message(message: bytes, coding: Literal["gzip", "deflate"]) -> bytes:
    """Return a compressed message; the same message always gives the same bytes."""
    return gzip.compress(message, mtime=0) if coding == "gzip" else zlib.compress(message)


class UndecodableError(ValueError):
    """A body cannot be decoded; the message says why."""


def decode_body(body: bytes, codings: Sequence[bytes], limit_bytes: int) -> bytes:
    """Return a body without its codings, which are listed in the order of their application.

    Raises UndecodableError if a coding is unknown, the data are invalid, or the result is longer
    than the limit.
    """
    for coding in reversed(codings):
        if not body or coding in {b"", b"identity"}:
            continue
        if coding not in READABLE_CODINGS:
            name = coding[:80].decode("latin-1")
            raise UndecodableError(f"The body is encoded as {name!r}, which cannot be read.")
        body = _inflate(body, coding, limit_bytes)
    return body


def _inflate(body: bytes, coding: bytes, limit_bytes: int) -> bytes:
    if coding != b"deflate":
        window = _GZIP_WINDOW
    elif body[:1] and body[0] & 0x0F == zlib.DEFLATED and int.from_bytes(body[:2], "big") % 31 == 0:
        window = zlib.MAX_WBITS
    else:
        window = -zlib.MAX_WBITS  # Some servers send deflate without zlib's frame.
    reader = zlib.decompressobj(window)
    try:
        text = reader.decompress(body, limit_bytes + 1)
    except zlib.error:
        raise UndecodableError(f"The reply's body is not valid {coding.decode()} data.") from None
    if len(text) > limit_bytes:
        raise UndecodableError(f"The reply's body has more than {limit_bytes} bytes when decoded.")
    if not reader.eof:
        raise UndecodableError(f"The reply's body ends within its {coding.decode()} data.")
    return text
