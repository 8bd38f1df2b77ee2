"""Clocks of client and servers: brings the times of spans to the client's monotonic clock."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inferometer_api.results.tracing import ServerClockOffset
from inferometer_loadgen.record.request_tracer import ClientTrace
from inferometer_loadgen.tracing.spans import ReceivedSpan

_FARTHEST_NS = 2**51
"""Some 26 days: differences of times must fit into the 53 bits of a number in JSON."""


@dataclass(frozen=True, slots=True)
class ServerClock:
    """What is known of a server's clock before its spans are read."""

    address: str
    is_here: bool
    """Whether it runs on this machine."""


@dataclass(frozen=True, slots=True)
class ClientClock:
    """The client's clocks while it measured."""

    window_ns: int
    """The begin of the window, by the monotonic clock."""
    unix_offset_ns: int
    """The wall clock minus the monotonic one."""
    boot_id: str


def span_times(span: ReceivedSpan, offset_ns: int, clock: ClientClock) -> tuple[int, int]:
    """Return begin and end of a span by the client's monotonic clock."""
    if span.boot_id and span.boot_id == clock.boot_id:
        return span.start_ns - span.unix_offset_ns, span.end_ns - span.unix_offset_ns
    away = clock.unix_offset_ns + offset_ns
    return span.start_ns - away, span.end_ns - away


def has_times(span: ReceivedSpan, trace: ClientTrace, clock: ClientClock) -> bool:
    """Return whether the times of a span can be those of a query by any clock.

    They cannot if it ends before it begins, or lies years away, as times that were never set do.
    """
    start_ns, end_ns = span_times(span, 0, clock)
    return (
        start_ns <= end_ns and max(trace.due_ns - start_ns, end_ns - trace.due_ns) <= _FARTHEST_NS
    )


def server_clocks(
    traces: Mapping[str, ClientTrace],
    found: Mapping[str, Sequence[ReceivedSpan]],
    servers: Sequence[ServerClock],
    clock: ClientClock,
) -> tuple[list[ServerClockOffset], dict[int, int], list[str]]:
    """Return the offset of each server's clock, as documents and by the server's index, and notes.

    A note names a clock that moved against the client's meanwhile.
    """
    bounds: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for name, spans in found.items():
        trace = traces[name]
        place = trace.place % len(servers)
        if servers[place].is_here or any(span.boot_id == clock.boot_id for span in spans):
            bounds[place].append((0, 0))
            continue
        begin = min(span_times(span, 0, clock)[0] for span in spans)
        end = max(span_times(span, 0, clock)[1] for span in spans)
        bounds[place].append((end - trace.first_byte_ns, begin - trace.sent_ns))
    documents, offsets, notes = [], {}, []
    for place in sorted(bounds):
        offset, error = clock_offset(bounds[place])
        if moved_ns := clock_movement(bounds[place]):
            notes.append(
                f"The clock of {servers[place].address} moved by {moved_ns / 1e6:.3f} ms or more "
                "against the client's while queries were traced: times between them are off by "
                "about as much. A daemon may have set one of the clocks."
            )
        offsets[place] = offset
        documents.append(
            ServerClockOffset(
                service=servers[place].address, offset_nanoseconds=offset, error_nanoseconds=error
            )
        )
    return documents, offsets, notes


def clock_offset(bounds: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the offset of a clock and the bound of its error.

    Each query bounds it: the server cannot have begun before the client sent, nor have ended after
    the reply arrived. The offset is the middle of what all of them allow, as in NTP.
    """
    low, high = _allowed(bounds)
    return (low + high) // 2, abs(high - low + 1) // 2


def clock_movement(bounds: Sequence[tuple[int, int]]) -> int:
    """Return by how many ns, at least, a clock moved between queries; 0 if one offset fits all."""
    low, high = _allowed(bounds)
    return max(low - high, 0)


def _allowed(bounds: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the least and the largest offset that every query allows."""
    return max(low for low, _ in bounds), min(high for _, high in bounds)
