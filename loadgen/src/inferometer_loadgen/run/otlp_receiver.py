"""Receiver of spans: takes messages in OTLP/HTTP while a run measures."""

import asyncio
import zlib
from collections.abc import Container
from contextlib import suppress

from aiohttp import web

from inferometer_loadgen.reporting.http_endpoint import HttpEndpoint, text_response
from inferometer_loadgen.tracing.spans import (
    ReceivedSpan,
    UnreadableSpansError,
    check_json,
    parse_protobuf,
    read_json,
    read_protobuf,
)

_PATH = "/v1/traces"
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_MOST_MESSAGE_BYTES = 4 << 20
"""As in OTLP by gRPC. Exporters send some 512 spans at once, which take 0.2 MB; 4 MiB of the
smallest spans take some 100 times as much once they are parsed."""
_MOST_BYTES = 128 << 20
_MOST_SPANS = 200_000
"""Of one step: they take some 100 MB."""
_MOST_NOTES = 16
"""Of one step: what is refused is not held, so that nothing else limits their number."""
_NOTED = frozenset({413, 415})
"""Statuses of a message that may hold spans: too large, or in a form that is not read."""
_TOO_LARGE = f"A message has at most {_MOST_MESSAGE_BYTES} bytes."
_PLAIN = "identity"
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class _RefusedError(Exception):
    """A request is answered with another status than 200; the message is the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class OtlpReceiver:
    """Holds messages as they came; their spans are read once the load of a step is over.

    Bytes that hold no message are refused at once with 400, so that no exporter sends them again.
    A message in JSON whose single spans are at fault is taken, because checking each would delay
    the load; `notes` names it later.
    """

    def __init__(self) -> None:
        self._endpoint = HttpEndpoint(self._respond)
        self._messages: list[tuple[str, bytes]] = []
        self._held_bytes = 0
        self._spans: list[ReceivedSpan] = []
        self._came = asyncio.Event()
        self.notes: dict[str, None] = {}
        """What could not be taken or read, one sentence each."""

    async def listen(self, host: str | None, port: int) -> int:
        """Listen on an address, or on all if it is None, and return the port; raises OSError."""
        return await self._endpoint.listen(host, port)

    async def close(self) -> None:
        """Stop listening."""
        await self._endpoint.close()

    def forget(self) -> None:
        """Forget all that came so far: it belongs to an earlier step."""
        self._messages.clear()
        self._spans.clear()
        self.notes.clear()
        self._held_bytes = 0

    async def wait(self, seconds: float) -> bool:
        """Wait for another message; return whether one came within so many seconds."""
        self._came.clear()
        if self._messages:
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._came.wait()
        return bool(self._messages)

    def spans(self, trace_ids: Container[str]) -> list[ReceivedSpan]:
        """Read the messages that came, and return the spans of some traces since `forget`."""
        messages, self._messages = self._messages, []
        for kind, body in messages:
            if len(self._spans) >= _MOST_SPANS:
                self.notes[f"Spans beyond {_MOST_SPANS:,} were not read: trace fewer queries."] = (
                    None
                )
                break
            read = read_json if kind == _JSON else read_protobuf
            try:
                self._spans += read(body, trace_ids)
            except UnreadableSpansError as error:
                self._note_unreadable(error)
        return self._spans

    def _note_unreadable(self, error: UnreadableSpansError) -> None:
        self._note(f"A message to the receiver of spans was not read: {error}.")

    def _note(self, sentence: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes[sentence] = None

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            _check_request(request)
            kind, body = request.content_type, await _body(request)
            _check(kind, body)
            self._hold(kind, body)
        except _RefusedError as refused:
            if refused.status in _NOTED:
                self._note(f"A message to the receiver of spans was refused: {refused}")
            return text_response(refused.status, str(refused))
        except UnreadableSpansError as error:
            self._note_unreadable(error)
            return text_response(400, f"The message cannot be read: {error}.")
        return web.Response(body=b"{}" if kind == _JSON else b"", content_type=kind)

    def _hold(self, kind: str, body: bytes) -> None:
        if self._held_bytes + len(body) > _MOST_BYTES:
            self.notes[
                f"Spans beyond {_MOST_BYTES >> 20} MiB were not taken: trace fewer queries."
            ] = None
            raise _RefusedError(429, "The receiver is full.")
        self._messages.append((kind, body))
        self._held_bytes += len(body)
        self._came.set()


def _check_request(request: web.BaseRequest) -> None:
    if request.path != _PATH:
        raise _RefusedError(404, f"Not found. Send spans to {_PATH}.")
    if request.method != "POST":
        raise _RefusedError(405, f"{_PATH} takes POST.")
    if request.content_type not in {_PROTOBUF, _JSON}:
        raise _RefusedError(415, f"Send {_PROTOBUF} or {_JSON}.")
    if _encoding(request) not in {_PLAIN, "gzip", "deflate"}:
        raise _RefusedError(415, "Send gzip, deflate, or a body that is not compressed.")


def _encoding(request: web.BaseRequest) -> str:
    return request.headers.get("Content-Encoding", _PLAIN).lower()


def _check(kind: str, body: bytes) -> None:
    if kind == _JSON:
        check_json(body)
    else:
        parse_protobuf(body)


async def _body(request: web.BaseRequest) -> bytes:
    """Return the decompressed body; raises _RefusedError or UnreadableSpansError."""
    parts, size = [], 0
    try:
        async for part in request.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > _MOST_MESSAGE_BYTES:
                raise _RefusedError(413, _TOO_LARGE)
    except web.RequestPayloadError as error:
        raise UnreadableSpansError("it ends early") from error
    body = b"".join(parts)
    return body if _encoding(request) == _PLAIN else _decompressed(body)


def _decompressed(body: bytes) -> bytes:
    decompressor = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        found = decompressor.decompress(body, _MOST_MESSAGE_BYTES + 1)
    except zlib.error as error:
        raise UnreadableSpansError(f"it is not compressed as it says ({error})") from error
    if len(found) > _MOST_MESSAGE_BYTES:
        raise _RefusedError(413, _TOO_LARGE)
    if not decompressor.eof:
        raise UnreadableSpansError("its compressed bytes end early")
    return found
