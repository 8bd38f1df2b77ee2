"""Spans of traced requests: each part of a request between two readings of the clock.

A request is traced if its header traceparent (W3C Trace Context, metadata with gRPC) has the flag
`sampled`. Others cost nothing. The spans wait here until a client takes them.
"""

import re
import socket
import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import orjson

SCHEMA_URL = "https://opentelemetry.io/schemas/1.37.0"
"""The version of OpenTelemetry's semantic conventions that the attributes follow."""
_MOST_HELD = 20_000
_MOST_TAKEN = 500
_SERVER, _INTERNAL = 2, 1
"""OTLP's SpanKind."""
_SAMPLED = 1
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def clock_offset_ns() -> int:
    """Return how far the clock of the day is ahead of the one that is never set."""
    return time.time_ns() - time.monotonic_ns()


class TraceContext(NamedTuple):
    """The IDs in a sampled traceparent, in hexadecimal."""

    trace_id: str
    span_id: str
    """That of the caller's span."""


def sampled_context(traceparent: str | None) -> TraceContext | None:
    """Return the context of a request to trace; None if there is none, or it is malformed."""
    found = None if traceparent is None else _TRACEPARENT.fullmatch(traceparent.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16):
        return None
    if not int(span_id, 16) or not int(flags, 16) & _SAMPLED:
        return None
    return TraceContext(trace_id, span_id)


class RequestTrace:
    """The parts of one request, as they are measured; one thread at a time adds to them.

    Times are nanoseconds of the monotonic clock.
    """

    __slots__ = ("began_ns", "context", "ended_ns", "parts", "protocol")

    def __init__(self, context: TraceContext, protocol: str, began_ns: int) -> None:
        self.context = context
        self.protocol = protocol
        self.began_ns = began_ns
        self.ended_ns = began_ns
        self.parts: list[tuple[str, int, int]] = []
        """Name, begin and end."""

    def add(self, name: str, began_ns: int, ended_ns: int) -> None:
        """Add a part."""
        self.parts.append((name, began_ns, ended_ns))


class SpanLog:
    """The traced requests that no client has taken yet; the oldest are dropped beyond a limit."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._traces: deque[RequestTrace] = deque(maxlen=_MOST_HELD)
        self._boot_id = _boot_id()
        self._host = socket.gethostname()

    def keep(self, trace: RequestTrace) -> None:
        """Keep a request that is answered."""
        self._traces.append(trace)

    def take(self) -> bytes:
        """Return the oldest requests as an OTLP message in JSON, and forget them."""
        count = min(_MOST_TAKEN, len(self._traces))
        taken = [self._traces.popleft() for _ in range(count)]
        return orjson.dumps(self._message(taken))

    def _message(self, traces: list[RequestTrace]) -> dict[str, Any]:
        if not traces:
            return {"resourceSpans": []}
        offset_ns = clock_offset_ns()
        resource = {
            "service.name": "inferometer-serving",
            "service.version": self._version,
            "host.name": self._host,
            "inferometer.clock.boot_id": self._boot_id,
            "inferometer.clock.unix_offset_nanoseconds": str(offset_ns),
        }
        spans = [span for trace in traces for span in _spans(trace, offset_ns)]
        return {
            "resourceSpans": [
                {
                    "resource": {"attributes": _attributes(resource)},
                    "scopeSpans": [
                        {"scope": {"name": "inferometer", "version": self._version}, "spans": spans}
                    ],
                    "schemaUrl": SCHEMA_URL,
                }
            ]
        }


def _spans(trace: RequestTrace, offset_ns: int) -> list[dict[str, Any]]:
    trace_id, parent_id = trace.context
    # The caller's ID is unique within its trace, so IDs that follow from it are, too.
    root = (int(parent_id, 16) ^ 0x5A5A5A5A00000000) or 1
    root_id = f"{root:016x}"
    spans: list[dict[str, Any]] = [
        {
            "traceId": trace_id,
            "spanId": root_id,
            "parentSpanId": parent_id,
            "name": "inference",
            "kind": _SERVER,
            "startTimeUnixNano": str(trace.began_ns + offset_ns),
            "endTimeUnixNano": str(trace.ended_ns + offset_ns),
            "attributes": _attributes({"network.protocol.name": trace.protocol}),
        }
    ]
    for number, (name, began_ns, ended_ns) in enumerate(trace.parts, 1):
        spans.append(
            {
                "traceId": trace_id,
                "spanId": f"{(root ^ number) or 1 << 60:016x}",
                "parentSpanId": root_id,
                "name": name,
                "kind": _INTERNAL,
                "startTimeUnixNano": str(began_ns + offset_ns),
                "endTimeUnixNano": str(ended_ns + offset_ns),
            }
        )
    return spans


def _attributes(values: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
