"""Receiver of spans: takes messages in OTLP/HTTP while a run measures."""

import asyncio
import zlib
from contextlib import suppress

from aiohttp import web

from inferometer_loadgen.reporting.http_endpoint import HttpEndpoint, text_response
from inferometer_loadgen.tracing.spans import (
    ReceivedSpan,
    UnreadableSpansError,
    read_json,
    read_protobuf,
)

_PATH = "/v1/traces"
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_MOST_MESSAGE_BYTES = 16 << 20
_MOST_BYTES = 128 << 20


class OtlpReceiver:
    """Holds messages as they came; they are read once the load of a step is over."""

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

    def spans(self) -> list[ReceivedSpan]:
        """Read the messages that came, and return all spans since `forget`."""
        messages, self._messages = self._messages, []
        for kind, body in messages:
            try:
                self._spans += read_json(body) if kind == _JSON else read_protobuf(body)
            except UnreadableSpansError as error:
                self.notes[f"A message to the receiver of spans was not read: {error}."] = None
        return self._spans

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != _PATH:
            return text_response(404, f"Not found. Send spans to {_PATH}.")
        if request.method != "POST":
            return text_response(405, f"{_PATH} takes POST.")
        kind = request.content_type
        if kind not in {_PROTOBUF, _JSON}:
            return text_response(415, f"Send {_PROTOBUF} or {_JSON}.")
        body = await _body(request)
        if body is None:
            return text_response(413, f"A message has at most {_MOST_MESSAGE_BYTES} bytes.")
        if self._held_bytes + len(body) > _MOST_BYTES:
            self.notes[
                f"Spans beyond {_MOST_BYTES >> 20} MiB were not taken: trace fewer queries."
            ] = None
            return text_response(429, "The receiver is full.")
        self._messages.append((kind, body))
        self._held_bytes += len(body)
        self._came.set()
        return web.Response(body=b"{}" if kind == _JSON else b"", content_type=kind)


async def _body(request: web.BaseRequest) -> bytes | None:
    """Return the decoded body; None if it is too long or ends early."""
    parts, size = [], 0
    try:
        async for part in request.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > _MOST_MESSAGE_BYTES:
                return None
    except (web.RequestPayloadError, zlib.error):
        return None
    return b"".join(parts)
