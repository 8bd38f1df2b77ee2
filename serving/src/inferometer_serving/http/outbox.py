"""The outbox: groups the writes of replies.

Writing to a socket wakes the client that waits for it, which can cost more than a tiny inference
and everything around it. So answers are held until the requests that came with theirs are computed
too, then go out right after one another, and wake a client of several connections once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic_ns, perf_counter

from inferometer_serving.infer.tensors import Raw
from inferometer_serving.tracing import RequestTrace, SpanLog

_HOLD_SECONDS = 0.0002
"""No longer than this, and the inference then under way, is an answer held for others."""


class Outbox:
    """Holds what is to be written on all connections of a server, in order."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float] = perf_counter,
        spans: SpanLog | None = None,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._held: deque[tuple[asyncio.Transport, list[Raw]]] = deque()
        self._since = 0.0
        self._spans = spans
        self._traced: list[tuple[RequestTrace, int]] = []
        """Requests whose answers are held, and since when."""

    def trace(self, trace: RequestTrace) -> None:
        """End the trace of a request once its answer, which is put next, is written."""
        self._traced.append((trace, monotonic_ns()))

    def put(self, transport: asyncio.Transport, parts: list[Raw]) -> None:
        """Write `parts` soon: once the event loop has turned to all that has come in by now."""
        now = self._clock()
        if not self._held:
            self._since = now
            self._loop.call_soon(self.flush)
        self._held.append((transport, parts))
        if now - self._since > _HOLD_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write all that is held; what a transport has its owner put meanwhile comes after."""
        held = self._held
        while held:
            transport, parts = held.popleft()
            if transport.is_closing():
                continue
            if len(parts) == 1:
                transport.write(parts[0])
            else:
                transport.writelines(parts)
        if self._traced:
            self._end_traces()

    def _end_traces(self) -> None:
        now_ns = monotonic_ns()
        for trace, since_ns in self._traced:
            trace.add("send", since_ns, now_ns)
            trace.ended_ns = now_ns
            if self._spans is not None:
                self._spans.keep(trace)
        self._traced.clear()
