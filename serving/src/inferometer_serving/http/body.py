"""Request bodies: received into memory, joined from chunks, decompressed, and limited in size."""

import gzip
import zlib
from http import HTTPStatus

import httptools
import numpy as np

from inferometer_serving.errors import RefusalReason, RequestRefusedError, invalid
from inferometer_serving.http.errors import HttpError
from inferometer_serving.infer.tensors import Array, Raw

_ALIGNMENT_BYTES = 64
_KEEP_UP_TO_BYTES = 4 << 20
_CHUNKED_HEAD = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
_BODY_END = b"\n\r\n"
_MAX_OVERHEAD_BYTES = 16384
_FASTEST = 1  # tensors barely compress; time matters more


def too_large(limit_bytes: int) -> str:
    """Return the message for a body over the limit."""
    return (
        f"The request's body is larger than the server's limit of {limit_bytes:,} bytes: "
        "send less at once, or start the server with a larger --max-body-bytes."
    )


class SizedBody:
    """One connection's memory for bodies of known length, reused while it is large enough.

    The socket is read straight into the memory that the model computes on. For an image this saves
    two copies and their page faults: a percent of the inference itself.
    """

    def __init__(self) -> None:
        self._storage: Array = np.empty(0, dtype=np.uint8)
        self._body = memoryview(b"")
        self._filled_bytes = 0

    def begin(self, size: int, json_bytes: int, first: bytes) -> None:
        """Start a body of `size` bytes that begins with `first`.

        The bytes after the first `json_bytes` are aligned as the client's own tensors are.
        """
        start = -json_bytes % _ALIGNMENT_BYTES
        needed = start + size + _ALIGNMENT_BYTES
        storage = self._storage
        if storage.nbytes < needed:
            storage = np.empty(needed, dtype=np.uint8)
            # a connection that may never send as much again must not hold much memory
            self._storage = storage if needed <= _KEEP_UP_TO_BYTES else self._storage
        start += -storage.ctypes.data % _ALIGNMENT_BYTES
        self._body = storage.data[start : start + size]
        self._body[: len(first)] = first
        self._filled_bytes = len(first)

    @property
    def space(self) -> memoryview:
        """Return the memory that is still to be filled."""
        return self._body[self._filled_bytes :]

    def fill(self, count: int) -> bool:
        """Count bytes that were written into `space`; return whether the body is complete."""
        self._filled_bytes += count
        return self._filled_bytes == len(self._body)

    def take(self) -> memoryview:
        """Return the body, which stays unchanged until the next one begins."""
        body, self._body = self._body, memoryview(b"")
        return body


class ChunkedBody:
    """A body in chunks (RFC 9112, section 7.1), parsed by llhttp."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._body = bytearray()
        self._overhead_bytes = 0
        """Received since the last piece of the body: sizes, extensions and trailers."""
        self._is_complete = False
        self._last = b""
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(_CHUNKED_HEAD)

    def feed(self, data: bytes) -> bytes | None:
        """Parse what was received; return the bytes after the body's end, None before it.

        Raises HttpError if the chunks are damaged or exceed the limit.
        """
        # llhttp would go on with the next request and does not say where a body ends. It always
        # ends with an empty line, so feeding stops after each.
        searched = self._last + data
        fed = len(self._last)
        end = searched.find(_BODY_END)
        while end >= 0:
            end += len(_BODY_END)
            self._feed(searched[fed:end])
            if self._is_complete:
                return searched[end:]
            fed = end
            end = searched.find(_BODY_END, end - 1)
        self._feed(searched[fed:])
        self._last = searched[-(len(_BODY_END) - 1) :]
        return None

    @property
    def body(self) -> bytes:
        """Return the content of the chunks received so far."""
        return bytes(self._body)

    def on_body(self, content: bytes) -> None:
        """Append the content of a chunk: called by the parser."""
        self._overhead_bytes = 0
        self._body += content
        if len(self._body) > self._limit_bytes:
            raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_large(self._limit_bytes))

    def on_message_complete(self) -> None:
        """Note the end of the body: called by the parser."""
        self._is_complete = True

    def _feed(self, data: bytes) -> None:
        self._overhead_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, HttpError):
                raise error.__context__ from None
            raise
        except httptools.HttpParserError as error:
            sentence = f"The request's chunked body is damaged: {error}."
            raise HttpError(HTTPStatus.BAD_REQUEST, sentence) from error
        if self._overhead_bytes > _MAX_OVERHEAD_BYTES:
            sentence = "The request's chunked body has too many extensions or trailers."
            raise HttpError(HTTPStatus.BAD_REQUEST, sentence)


def decompress(body: Raw, encoding: str, limit_bytes: int) -> bytes:
    """Return the decompressed body. Raises RequestRefusedError if it is damaged or too large."""
    # 47: zlib detects whether the header is gzip's or zlib's
    machine = zlib.decompressobj(47)
    try:
        content = machine.decompress(body, limit_bytes + 1)
    except zlib.error as error:
        raise invalid(f"The request's body is not {encoding}: {error}.") from error
    if len(content) > limit_bytes:
        raise RequestRefusedError(RefusalReason.TOO_LARGE, too_large(limit_bytes))
    if not machine.eof or machine.unused_data:
        raise invalid(f"The request's body is not one complete {encoding} stream.")
    return content


def compress(body: bytes, encoding: str) -> bytes:
    """Return the compressed body; "deflate" means the zlib format (RFC 9110, section 8.4.1)."""
    if encoding == "gzip":
        return gzip.compress(body, _FASTEST, mtime=0)
    return zlib.compress(body, _FASTEST)
