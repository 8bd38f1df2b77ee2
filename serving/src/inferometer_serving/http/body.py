"""How does a body come out of its chunks and its compression, without growing past its limit?"""

import gzip
import re
import zlib
from http import HTTPStatus

from inferometer_serving.errors import Refusal, RequestRefusedError, invalid
from inferometer_serving.http.errors import HttpError
from inferometer_serving.infer.tensors import Raw

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_LONGEST_LINE_BYTES = 4096
_MOST_TRAILER_LINES = 64
_FASTEST = 1  # tensors barely compress; time matters more


def too_large(limit_bytes: int) -> str:
    """Return the sentence for a body over the limit."""
    return (
        f"The request's body is larger than the {limit_bytes:,} bytes that this server takes: "
        "send less at once, or start the server with a larger --max-body-bytes."
    )


class ChunkedBody:
    """A chunked body as it comes in (RFC 9112, section 7.1)."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.rest = b""
        """What has come and is not yet used: to be given again, with what comes next."""
        self._body = bytearray()
        self._total_bytes = 0
        self._missing_bytes = 0
        """Of the chunk that is coming in, its closing line end included."""
        self._trailer_lines_left = _MOST_TRAILER_LINES
        self._in_trailer = False

    def feed(self, data: bytes) -> bytes | None:
        """Take what has come; return what is left behind the body's end, None before it.

        Raises HttpError where the chunks are damaged or more than the limit.
        """
        while True:
            if self._missing_bytes:
                data = self._take(data)
                if self._missing_bytes:
                    self.rest = data
                    return None
            end = data.find(b"\r\n")
            if end < 0:
                if len(data) > _LONGEST_LINE_BYTES:
                    raise _bad()
                self.rest = data
                return None
            line, data = data[:end], data[end + 2 :]
            if self._in_trailer:
                if not line:
                    return data
                self._trailer_lines_left -= 1
                if not self._trailer_lines_left:
                    raise _bad()
                continue
            self._begin(line)

    @property
    def body(self) -> bytes:
        """Return all that has come so far."""
        return bytes(self._body)

    def _begin(self, line: bytes) -> None:
        found = _SIZE_LINE.fullmatch(line)
        if found is None:
            raise _bad()
        size = int(found[1], 16)
        if size == 0:
            self._in_trailer = True
            return
        self._total_bytes += size
        if self._total_bytes > self._limit_bytes:
            raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_large(self._limit_bytes))
        self._missing_bytes = size + 2

    def _take(self, data: bytes) -> bytes:
        """Move what belongs to the current chunk from `data`; return the rest."""
        content = data[: max(self._missing_bytes - 2, 0)]
        if content:
            self._body += content
            self._missing_bytes -= len(content)
            data = data[len(content) :]
        if self._missing_bytes == 2 and len(data) >= 2:
            if data[:2] != b"\r\n":
                raise _bad()
            self._missing_bytes = 0
            data = data[2:]
        return data


def decompress(body: Raw, encoding: str, limit_bytes: int) -> bytes:
    """Return the decompressed body. Raises RequestRefusedError where it is damaged or too large."""
    # 47: zlib finds out whether there is a gzip or a zlib header
    machine = zlib.decompressobj(47)
    try:
        content = machine.decompress(body, limit_bytes + 1)
    except zlib.error as error:
        raise invalid(f"The request's body is not {encoding}: {error}.") from error
    if len(content) > limit_bytes:
        raise RequestRefusedError(Refusal.TOO_LARGE, too_large(limit_bytes))
    if not machine.eof or machine.unused_data:
        raise invalid(f"The request's body is not one whole {encoding} stream.")
    return content


def compress(body: bytes, encoding: str) -> bytes:
    """Return the compressed body; "deflate" means the zlib format (RFC 9110, section 8.4.1)."""
    if encoding == "gzip":
        return gzip.compress(body, _FASTEST, mtime=0)
    return zlib.compress(body, _FASTEST)


def _bad() -> HttpError:
    return HttpError(HTTPStatus.BAD_REQUEST, "The request's chunked body is damaged.")
