"""Tracer of requests: selects every Nth query of a window, and holds the times of each."""

from collections.abc import Callable
from dataclasses import dataclass

_MOST_QUERIES = 50_000
"""Memory bound; later queries are not traced."""


@dataclass(slots=True)
class ClientTrace:
    """One traced query as the client saw it; times in nanoseconds of its monotonic clock."""

    trace_id: bytes
    span_id: bytes
    place: int
    """Index of its connection."""
    due_ns: int
    sent_ns: int
    written_ns: int
    """When the call that writes it returned."""
    first_byte_ns: int = 0
    """When the reply began to arrive; 0 if it has not."""
    answered_ns: int = 0
    status: str = ""
    """ok, or the kind of the failure; empty while there is no answer."""

    @property
    def traceparent(self) -> str:
        """The header of W3C Trace Context, with the flag `sampled`."""
        return traceparent(self.trace_id, self.span_id)


def traceparent(trace_id: bytes, span_id: bytes) -> str:
    """Return the header of W3C Trace Context, with the flag `sampled`."""
    return f"00-{trace_id.hex()}-{span_id.hex()}-01"


class RequestTracer:
    """Traces every Nth query from the window's begin on.

    `random_bytes` returns that many random bytes, for the IDs.
    """

    def __init__(self, sample_every: int, random_bytes: Callable[[int], bytes]) -> None:
        self.sample_every = sample_every
        self._random_bytes = random_bytes
        self.in_flight: dict[int, ClientTrace] = {}
        """By token."""
        self.answered: list[ClientTrace] = []
        self._begun = 0

    @property
    def is_full(self) -> bool:
        """Whether no further query is traced."""
        return self._begun >= _MOST_QUERIES

    def begin(self, token: int, place: int, due_ns: int, sent_ns: int) -> ClientTrace:
        """Begin the trace of a query that is sent next."""
        self._begun += 1
        random = self._random_bytes(24)
        trace = ClientTrace(random[:16], random[16:], place, due_ns, sent_ns, sent_ns)
        self.in_flight[token] = trace
        return trace

    def end(self, token: int, first_byte_ns: int, answered_ns: int, status: str) -> None:
        """End the trace of a query that was answered or failed."""
        trace = self.in_flight.pop(token, None)
        if trace is None:
            return
        trace.first_byte_ns = first_byte_ns or answered_ns
        trace.answered_ns, trace.status = answered_ns, status
        self.answered.append(trace)

    def forget(self, token: int) -> None:
        """Forget a query that is given up."""
        self.in_flight.pop(token, None)
