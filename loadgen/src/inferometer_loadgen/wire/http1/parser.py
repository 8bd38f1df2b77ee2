"""Parser of HTTP/1.1 replies: finds where a reply ends and whether it is good.

It takes bytes in any pieces and does no input or output.
"""

import json
import re
from enum import Enum
from typing import Any

import orjson

from inferometer_loadgen.wire.content_coding import UndecodableError, decode_body
from inferometer_loadgen.wire.contract import (
    MAX_BUFFERED_REPLY_BYTES,
    Failure,
    FailureKind,
    ReplyBody,
    printable_line,
)
from inferometer_loadgen.wire.http1.head import (
    CHUNKED,
    HEAD_LIMIT_BYTES,
    ReplyError,
    ReplyHead,
    parse_head,
)

_PREFIX = b"HTTP/1."
_ERROR_BODY_BYTES = 4_096
"""Kept size of a body with status 200 that may be an error: enough for its message."""
_STATUS_BODY_BYTES = 65_536
"""Kept size of a body with another status: the cause stands at the end of a traceback."""
_BARE_LF = re.compile(rb"([^\r\n]{0,40})(?<!\r)\n")
_ERROR = re.compile(rb'"error"\s*:')
_CHUNK_LINE_BYTES = 16_384
_HEX = frozenset(b"0123456789abcdefABCDEF")


class ReplyParser:
    """Parser of one reply after another.

    ``start`` is called for each request. ``feed`` and ``finish`` return True once its reply is
    complete or can no longer become complete. Then ``failure`` is None if the reply was good,
    ``reply`` holds its body if that was to be kept, and ``reusable`` is true if the connection may
    carry more requests. ``fits_template`` is true if the reply came in one piece, was good by its
    header block alone, and holds JSON and binary tensors.
    """

    __slots__ = (
        "_chunks",
        "_head",
        "_keep",
        "_limit",
        "_parts",
        "_received",
        "_rest",
        "_stored_bytes",
        "failure",
        "fits_template",
        "reply",
        "reusable",
    )

    def __init__(self) -> None:
        self.start(False)

    def start(self, keep: bool) -> None:  # noqa: FBT001 - by position on the hot path
        """Expect a new reply; `keep` says whether to keep its body."""
        self.failure: Failure | None = None
        self.reply: ReplyBody | None = None
        self.reusable = True
        self.fits_template = False
        self._keep = keep
        self._rest = b""
        self._head: ReplyHead | None = None

    def feed(self, data: bytes) -> bool:
        """Take bytes that were read; return True once the reply is over."""
        try:
            if self._head is None:
                return self._feed_head(data)
            return self._feed_body(self._head, data, 0)
        except (ReplyError, UndecodableError) as error:
            return self._fail(FailureKind.PROTOCOL, str(error))

    def finish(self, reason: str, *, clean: bool) -> bool:
        """End the reply with its connection; return True. `clean`: the server ended it in order."""
        head = self._head
        if head is None:
            where = "before any of it arrived" if not self._rest else "within its headers"
            return self._fail(FailureKind.CONNECTION, f"The reply was cut off {where}: {reason}")
        if clean and head.length is None:
            try:
                return self._end(head)
            except (ReplyError, UndecodableError) as error:
                return self._fail(FailureKind.PROTOCOL, str(error))
        whole = "" if head.length in (None, CHUNKED) else f" of {head.length}"
        return self._fail(
            FailureKind.CONNECTION,
            f"The reply was cut off after {self._received}{whole} bytes of its body: {reason}",
        )

    def received_so_far(self) -> str:
        """Return what has arrived of a reply that is not over, as a clause."""
        head = self._head
        if head is None:
            return "only a part of its headers had arrived" if self._rest else ""
        if head.length is None:
            return (
                f"{self._received} bytes of its body had arrived, which ends only with the "
                "connection"
            )
        of = "" if head.length == CHUNKED else f" of {head.length}"
        return f"{self._received}{of} bytes of its body had arrived"

    def _feed_head(self, data: bytes) -> bool:
        if self._rest:
            data = self._rest + data
        start = 0
        while True:
            end = data.find(b"\r\n\r\n", start) + 4
            if end == 3:
                return self._keep_partial_head(data[start:])
            head = parse_head(data[start:end])
            if head.good and head.length == len(data) - end:
                if head.json_length is None:
                    self.failure = _hidden_error(data[end : end + _ERROR_BODY_BYTES], head.length)
                elif not start and not self._rest:
                    self.fits_template = True
                if self._keep and self.failure is None:
                    self.reply = ReplyBody(data[end:], head.json_length)
                return True
            if head.status >= 200:
                break
            if head.status == 101:
                raise ReplyError(
                    "The server switched to another protocol, which the client did not request."
                )
            start = end
        self._head = head
        self._received = self._stored_bytes = 0
        self._parts: list[bytes] = []
        self._limit = self._kept_bytes(head)
        self._chunks = _ChunkReader() if head.length == CHUNKED else None
        return self._feed_body(head, data, end)

    def _kept_bytes(self, head: ReplyHead) -> int:
        """Return how much of a body is kept; -1: all of it."""
        if head.status != 200:
            return -1 if head.codings else _STATUS_BODY_BYTES
        if self._keep or (head.codings and head.json_length is None):
            return -1
        return _ERROR_BODY_BYTES if head.json_length is None else 0

    def _keep_partial_head(self, rest: bytes) -> bool:
        if not rest.startswith(_PREFIX[: len(rest)]):
            raise ReplyError(
                f"The reply begins with {rest[:40]!r}, which is not an HTTP/1 status line."
            )
        if broken := _BARE_LF.search(rest):
            raise ReplyError(f"The reply's line {broken[1]!r} ends without a CR before its LF.")
        if len(rest) > HEAD_LIMIT_BYTES:
            raise ReplyError(f"The reply's headers are longer than {HEAD_LIMIT_BYTES} bytes.")
        self._rest = rest
        return False

    def _feed_body(self, head: ReplyHead, data: bytes, position: int) -> bool:
        if self._chunks is not None:
            spans, position = self._chunks.feed(data, position)
            for start, end in spans:
                self._take(data, start, end)
            if not self._chunks.done:
                return False
        elif head.length is None:
            self._take(data, position, len(data))
            return False
        else:
            end = min(len(data), position + head.length - self._received)
            self._take(data, position, end)
            position = end
            if self._received < head.length:
                return False
        if position < len(data):
            raise ReplyError(f"{len(data) - position} bytes follow the end of the reply.")
        return self._end(head)

    def _take(self, data: bytes, start: int, end: int) -> None:
        self._received += end - start
        limit = self._limit
        if limit < 0:
            self._parts.append(data[start:end])
            if self._received > MAX_BUFFERED_REPLY_BYTES:
                self._keep_begin()  # of a compressed body, which then cannot be decoded
        elif self._stored_bytes < limit:
            part = data[start : min(end, start + limit - self._stored_bytes)]
            self._stored_bytes += len(part)
            self._parts.append(part)

    def _keep_begin(self) -> None:
        """Keep only the beginning, which would hold an error."""
        self._keep = False
        self._limit = _ERROR_BODY_BYTES
        begin = b""
        for part in self._parts:
            begin += part[: _ERROR_BODY_BYTES - len(begin)]
            if len(begin) == _ERROR_BODY_BYTES:
                break
        self._parts, self._stored_bytes = [begin], len(begin)

    def _end(self, head: ReplyHead) -> bool:
        """End a reply whose framing is whole; raises ReplyError or UndecodableError."""
        self.reusable = head.reusable
        body, received = self._body(), self._received
        if head.codings and self._limit:
            body = decode_body(body, head.codings, MAX_BUFFERED_REPLY_BYTES)
            received = len(body)
        is_decoded = self._limit or not head.codings
        if head.status != 200:
            self.failure = Failure(FailureKind.STATUS, _status_sentence(head, body))
        elif head.json_length is not None and head.json_length > received and is_decoded:
            raise ReplyError(
                f"The reply's JSON part should have {head.json_length} bytes, "
                f"but its body has {received}."
            )
        elif head.json_length is None and (
            hidden := _hidden_error(body[:_ERROR_BODY_BYTES], received)
        ):
            self.failure = hidden
        elif self._keep:
            self.reply = ReplyBody(body, head.json_length)
        return True

    def _body(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def _fail(self, kind: FailureKind, message: str) -> bool:
        self.failure = Failure(kind, printable_line(message))
        self.reply = None
        self.reusable = False
        return True


def _status_sentence(head: ReplyHead, body: bytes) -> str:
    """Return status, reason, and the protocol's error text or else the body's beginning."""
    text = _error_text(body, _json(body))
    return printable_line(
        f"HTTP status {head.status} {head.reason}" + (f": {text}" if text else "")
    )


def _hidden_error(begin: bytes, length: int) -> Failure | None:
    """Return the failure that some servers send with status 200: {"error": ...}.

    `begin` is the body or its beginning, which suffices because outputs come early.
    """
    if b'"error"' not in begin or not _ERROR.search(begin):  # cheap for most replies
        return None
    document = _json(begin) if length <= _ERROR_BODY_BYTES else None
    if document is None:
        is_hidden = b'"outputs"' not in begin
    else:
        is_hidden = isinstance(document, dict) and "error" in document and "outputs" not in document
    if not is_hidden:
        return None
    sentence = printable_line(f"HTTP status 200 with an error: {_error_text(begin, document)}")
    return Failure(FailureKind.STATUS, sentence)


def _json(body: bytes) -> Any:
    """Return a JSON document; None if it is invalid or null.

    Python's own reader accepts what Python's writer produces: lone surrogates, NaN.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _error_text(body: bytes, document: Any) -> str:
    if isinstance(document, dict) and isinstance(document.get("error"), str):
        return str(document["error"])
    return body.decode("utf-8", "replace")


class _Expects(Enum):
    SIZE = "a chunk's size"
    DATA = "a chunk's data"
    DATA_END = "the line end behind a chunk"
    TRAILER = "a trailer"


class _ChunkReader:
    """Reader of a chunked body (RFC 9112, section 7.1) in any pieces; it scans each byte once.

    ``done`` is true once the last chunk and the trailers have been read.
    """

    __slots__ = ("_expects", "_left", "_line", "done")

    def __init__(self) -> None:
        self.done = False
        self._expects = _Expects.SIZE
        self._left = 0
        self._line = b""

    def feed(self, data: bytes, position: int) -> tuple[list[tuple[int, int]], int]:
        """Return the spans of ``data`` that belong to the body, and the position behind them.

        Raises ReplyError if the chunks are malformed.
        """
        spans: list[tuple[int, int]] = []
        while position < len(data) and not self.done:
            if self._expects is _Expects.DATA:
                end = min(position + self._left, len(data))
                spans.append((position, end))
                self._left -= end - position
                position = end
                if not self._left:
                    self._expects = _Expects.DATA_END
                continue
            line_end = data.find(b"\n", position) + 1
            self._line += data[position : line_end or len(data)]
            position = line_end or len(data)
            if len(self._line) > _CHUNK_LINE_BYTES:
                raise ReplyError(f"{self._expects.value.capitalize()} in the reply never ends.")
            if line_end:
                line, self._line = self._line, b""
                self._read_line(line)
        return spans, position

    def _read_line(self, line: bytes) -> None:
        if not line.endswith(b"\r\n"):
            raise ReplyError(f"The reply has {line[:80]!r} instead of {self._expects.value}.")
        text = line[:-2]
        match self._expects:
            case _Expects.SIZE:
                self._left = _chunk_size(text)
                self._expects = _Expects.DATA if self._left else _Expects.TRAILER
            case _Expects.DATA_END:
                if text:
                    raise ReplyError(f"A chunk of the reply is followed by {text[:80]!r}.")
                self._expects = _Expects.SIZE
            case _:
                self.done = not text


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip(b" \t")
    if not 0 < len(digits) <= 15 or not _HEX.issuperset(digits):
        raise ReplyError(f"The reply has {line[:80]!r} instead of a chunk's size.")
    return int(digits, 16)
