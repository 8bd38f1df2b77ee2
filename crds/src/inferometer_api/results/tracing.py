"""Traced queries in a result: the spans of each, and where the time of slow ones went."""

from pydantic import Field

from inferometer_api.document import Count, Document, Integer

UNATTRIBUTED = "unattributed"
"""The part of a latency that no span of the client, the wire or a server covers."""


class TracedSpan(Document):
    """One measured interval of a query."""

    name: str
    """What took the time: wait, send, receive, queue, compute, ..."""
    service: str
    """Who measured it: client, wire, server, or the service.name of another server."""
    parent: Count | None = None
    """Index of the span that contains it; absent for the query itself."""
    start_nanoseconds: Integer
    """From when the query was due, by the client's clock."""
    duration_nanoseconds: Count


class TracedQuery(Document):
    """One traced query."""

    trace_id: str
    """Trace ID of W3C Trace Context: 32 hexadecimal digits."""
    span_id: str
    """ID of the client's span, the parent in its traceparent: 16 hexadecimal digits."""
    due_nanoseconds: Integer
    """When it was due, from the begin of the window."""
    latency_nanoseconds: Count
    unattributed_nanoseconds: Count
    """The part of the latency that no span covers."""
    server: str = ""
    """Address of the server."""
    status: str = "ok"
    """ok, or the kind of its error."""
    spans: list[TracedSpan]
    """The first one is the query itself."""


class TracedPart(Document):
    """One part of the latency, as a mean over the queries of each group."""

    name: str
    service: str
    median_nanoseconds: Count
    """Of the queries around the median: the tenth of them in the middle."""
    slowest_nanoseconds: Count
    """Of the slowest 1 %, at least one query."""


class ServerClockOffset(Document):
    """How far the clock of a server is from the client's."""

    service: str
    offset_nanoseconds: Integer
    """The server's clock minus the client's; 0 if they share one."""
    error_nanoseconds: Count
    """Bound of the error; 0 if they share a clock."""


class StepTracing(Document):
    """The traced queries of one step."""

    sample_every: Count
    """Every Nth query of the window was traced."""
    started_unix_microseconds: Count = 0
    """The begin of the window by the client's wall clock, for other tools."""
    sampled: Count
    """Traced queries that were answered."""
    joined: Count
    """Those for which a server reported spans."""
    median_latency_nanoseconds: Count = 0
    """Mean latency of the queries around the median."""
    slowest_latency_nanoseconds: Count = 0
    """Mean latency of the slowest 1 %."""
    median_unattributed_nanoseconds: Count = 0
    """Median over all joined queries."""
    parts: list[TracedPart] = Field(default_factory=list)
    """In the order of time; the last one is `unattributed`. Parts of a query can overlap."""
    clocks: list[ServerClockOffset] = Field(default_factory=list)
    queries: list[TracedQuery] = Field(default_factory=list)
    """At most 100, the slowest one last: the slowest 1 % and a selection over all latencies."""
    notes: list[str] = Field(default_factory=list)
    """What is missing, one sentence each."""
