"""One HTTP/1.1 connection: reads requests, answers them and ends.

Requests of one connection are answered one after another. What is sent ahead waits in the buffer,
and reading pauses once that holds enough.
"""

import asyncio
from collections.abc import Coroutine
from enum import Enum
from http import HTTPStatus
from time import monotonic_ns
from typing import Protocol, cast

from typing_extensions import override

from inferometer_serving.errors import RequestRefusedError
from inferometer_serving.http.body import ChunkedBody, SizedBody
from inferometer_serving.http.errors import HttpError
from inferometer_serving.http.head import HEAD_END, MAX_HEAD_BYTES, Head, head_too_large, parse_head
from inferometer_serving.http.infer import Answer
from inferometer_serving.http.inference import Inference, answered_now
from inferometer_serving.http.outbox import Outbox
from inferometer_serving.http.pages import CHANGES, apply_change, page
from inferometer_serving.http.reply import Reply, head_of, refusal_reply
from inferometer_serving.http.routes import Endpoint, Route
from inferometer_serving.infer.tensors import Raw
from inferometer_serving.metrics import Exposition
from inferometer_serving.server_state import Phase, ServerState
from inferometer_serving.tracing import RequestTrace

_READ_AHEAD_BYTES = 65536
_LINGER_SECONDS = 2.0
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Stage(Enum):
    """What a connection waits for."""

    HEAD = "a request's head"
    BODY = "a body of known length"
    CHUNKS = "a body in chunks"
    AWAY = "an inference, or a change of the model, elsewhere"
    END = "the client's end, after the last answer"


class ConnectionOwner(Protocol):
    """What a connection needs of its server."""

    state: ServerState
    exposition: Exposition
    heads: dict[bytes, Head]
    loop: asyncio.AbstractEventLoop
    outbox: Outbox
    receive_buffer: memoryview
    """Where all but large bodies arrive; its content is taken before control goes back."""

    def keep_head(self, raw_head: bytes, head: Head) -> None:
        """Remember a head: clients send the same one again and again."""

    def opened(self, connection: "HttpConnection") -> None:
        """Learn of a new connection."""

    def closed(self, connection: "HttpConnection") -> None:
        """Learn that a connection is gone."""

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Run a coroutine as a task of the server."""


class HttpConnection(asyncio.BufferedProtocol):
    """One client's connection."""

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._state = owner.state
        self._requests = owner.state.metrics.requests
        self._transport: asyncio.Transport | None = None
        self._stage = Stage.HEAD
        self._buffer = b""
        self._head: Head | None = None
        self._sized = SizedBody()
        self._chunked: ChunkedBody | None = None
        self._inference: Inference | None = None
        self._trace: RequestTrace | None = None
        """Of the request that is read or answered, if it is traced."""
        self._may_write = True
        self.waiting_since: float | None = None
        """When the last piece of an unfinished request came, by the loop's clock."""

    @property
    def is_busy(self) -> bool:
        """Return whether a request has begun and is not yet answered."""
        return self._stage in (Stage.BODY, Stage.CHUNKS, Stage.AWAY)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._owner.opened(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._stage = Stage.END
        self._buffer = b""
        if self._inference is not None:
            self._inference.drop()
            self._inference = None
        self._owner.closed(self)

    @override
    def pause_writing(self) -> None:
        self._may_write = False
        if self._transport is not None:
            self._transport.pause_reading()

    @override
    def resume_writing(self) -> None:
        self._may_write = True
        if self._transport is not None:
            self._transport.resume_reading()
        self._serve()

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        return self._sized.space if self._stage is Stage.BODY else self._owner.receive_buffer

    @override
    def buffer_updated(self, nbytes: int) -> None:
        if self._stage is Stage.BODY:
            self.waiting_since = self._owner.loop.time()
            if self._sized.fill(nbytes):
                self._end_body(self._sized.take(), b"")
                self._serve()
        else:
            self._receive(bytes(self._owner.receive_buffer[:nbytes]))

    def _receive(self, data: bytes) -> None:
        match self._stage:
            case Stage.HEAD:
                self._buffer = self._buffer + data if self._buffer else data
                self._serve()
            case Stage.CHUNKS:
                self._take_chunks(data)
                self._serve()
            case Stage.AWAY:
                self._buffer += data
                if len(self._buffer) > _READ_AHEAD_BYTES and self._transport is not None:
                    self._transport.pause_reading()
            case Stage.BODY | Stage.END:
                pass

    def _serve(self) -> None:
        """Answer all whole requests in the buffer, as long as answers can be sent."""
        while self._buffer and self._stage is Stage.HEAD and self._may_write:
            buffer = self._buffer
            end = buffer.find(HEAD_END)
            if end < 0 or not 65 <= buffer[0] <= 90:  # a method begins with A to Z
                if not self._await_head(buffer):
                    return
                continue
            end += len(HEAD_END)
            head = self._owner.heads.get(buffer[:end]) or self._parse(buffer[:end])
            if head is None:
                return
            whole = end + head.content_length
            if len(buffer) < whole or head.is_chunked:
                self._buffer = b""
                self._begin_body(head, buffer[end:])
            else:
                self._buffer = buffer[whole:]
                self._answer(head, buffer[end:whole])

    def _await_head(self, buffer: bytes) -> bool:
        """Return whether the buffer, now without leading line ends, is worth another look."""
        stripped = buffer.lstrip(b"\r\n")  # RFC 9112, section 2.2
        if len(stripped) < len(buffer):
            self._buffer = stripped
            return True
        if not 65 <= buffer[0] <= 90:
            self._refuse(HttpError(HTTPStatus.BAD_REQUEST, "This is no HTTP/1.1 request."))
        elif len(buffer) > MAX_HEAD_BYTES:
            self._refuse(head_too_large())
        else:
            self.waiting_since = self._owner.loop.time()
        return False

    def _parse(self, raw_head: bytes) -> Head | None:
        """Return a head not seen before; None if it was refused."""
        began_ns = monotonic_ns()
        try:
            head = parse_head(raw_head, self._state.options.max_body_bytes)
        except HttpError as error:
            self._refuse(error)
            return None
        if head.traceparent is None:
            self._owner.keep_head(raw_head, head)
        else:
            self._trace = head.begin_trace(began_ns)
        return head

    def _begin_body(self, head: Head, data: bytes) -> None:
        self._head = head
        if head.expects_continue and not data:
            self._write([_CONTINUE])
        if head.is_chunked:
            self._stage = Stage.CHUNKS
            self._chunked = ChunkedBody(self._state.options.max_body_bytes)
            self._take_chunks(data)
        else:
            self._stage = Stage.BODY
            self.waiting_since = self._owner.loop.time()
            self._sized.begin(head.content_length, head.json_bytes or 0, data)

    def _take_chunks(self, data: bytes) -> None:
        self.waiting_since = self._owner.loop.time()
        chunked = self._chunked
        if chunked is None:
            return
        try:
            rest = chunked.feed(data)
        except HttpError as error:
            self._refuse(error)
            return
        if rest is not None:
            self._end_body(chunked.body, rest)

    def _end_body(self, body: Raw, rest: bytes) -> None:
        head, self._head = self._head, None
        self._chunked = None
        self._stage = Stage.HEAD
        self._buffer = rest
        if head is not None:
            self._answer(head, body)

    def _answer(self, head: Head, body: Raw) -> None:
        self.waiting_since = None
        route = head.route
        if isinstance(route, HttpError):
            self._send_reply(head, "none", refusal_reply(route))
        elif route.endpoint is Endpoint.INFER:
            self._infer(head, route, body)
        elif route.endpoint in CHANGES:
            self._change(head, route, body)
        else:
            reply = page(self._state, self._owner.exposition, route, body)
            self._send_reply(head, route.endpoint.value, reply)

    def _infer(self, head: Head, route: Route, body: Raw) -> None:
        state = self._state
        try:
            state.check_model(route.model_name, route.model_version)
            model = state.router(route.model_name)
        except RequestRefusedError as error:
            self._send_reply(head, Endpoint.INFER.value, refusal_reply(error))
            return
        trace = self._trace
        if trace is not None:
            trace.add("receive", trace.began_ns, monotonic_ns())
        answer = answered_now(state, model, head, body, trace)
        if answer is None:
            inference = Inference(state, model, head, trace)
            answer = inference.refused_now(body)
        if answer is not None:
            self._send(head, "infer", *answer)
            return
        self._stage = Stage.AWAY
        self._inference = inference
        inference.later(body, lambda answer: self._back(head, "infer", answer))

    def _change(self, head: Head, route: Route, body: Raw) -> None:
        """Load, unload or measure the model, and answer once that is done."""
        self._stage = Stage.AWAY

        async def change() -> None:
            reply = await apply_change(self._state, route, bytes(body))
            keep_alive = self._keeps_alive(head)
            parts: list[Raw] = [head_of(reply, keep_alive=keep_alive), *reply.body]
            self._back(head, route.endpoint.value, (reply.status, parts))

        self._owner.begin(change())

    def _back(self, head: Head, endpoint: str, answer: Answer) -> None:
        """Send an answer that took a while, and go on with what was sent ahead meanwhile."""
        self._inference = None
        self._stage = Stage.HEAD if self._transport is not None else Stage.END
        self._send(head, endpoint, *answer)
        if self._transport is not None and self._stage is Stage.HEAD and self._may_write:
            self._transport.resume_reading()
            self._serve()

    def _send_reply(self, head: Head, endpoint: str, reply: Reply) -> None:
        parts: list[Raw] = [head_of(reply, keep_alive=self._keeps_alive(head))]
        if not head.is_for_head_only:
            parts += reply.body
        self._send(head, endpoint, reply.status, parts)

    def _send(self, head: Head, endpoint: str, status: int, parts: list[Raw]) -> None:
        self._requests["http", endpoint, status] += 1
        if self._trace is not None:
            self._owner.outbox.trace(self._trace)
            self._trace = None
        self._write(parts)
        if not self._keeps_alive(head):
            self.close()

    def _keeps_alive(self, head: Head) -> bool:
        return head.keep_alive and self._state.phase is not Phase.DRAINING

    def _write(self, parts: list[Raw]) -> None:
        if self._transport is not None:
            self._owner.outbox.put(self._transport, parts)

    def close(self) -> None:
        """End the connection once all that was written is sent."""
        self._stage = Stage.END
        self._buffer = b""
        self._owner.outbox.flush()
        if self._transport is not None:
            self._transport.close()

    def _refuse(self, error: HttpError) -> None:
        """Answer what is no request of ours, and end the connection once the client has read it.

        Closing at once would reset the connection under an answer that the client, still sending,
        has not read.
        """
        self._stage = Stage.END
        self._buffer = b""
        self._chunked = None
        self.waiting_since = None
        reply = refusal_reply(error)
        self._requests["http", "none", reply.status] += 1
        self._write([head_of(reply, keep_alive=False), *reply.body])
        self._owner.outbox.flush()
        if self._transport is not None:
            self._transport.write_eof()
            self._owner.loop.call_later(_LINGER_SECONDS, self.abort)

    def time_out(self) -> None:
        """End a connection whose request does not come to its end."""
        self._refuse(
            HttpError(
                HTTPStatus.REQUEST_TIMEOUT, "The request did not come whole in time: send it again."
            )
        )

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()
