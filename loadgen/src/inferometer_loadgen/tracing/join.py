"""Joins the spans of client and servers by trace, and finds where the time of each query went.

Every part is measured: its begin and its end were read from a clock. What no part covers is the
unattributed rest, which is shown.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean, median
from typing import Any

from inferometer_api.results.tracing import (
    UNATTRIBUTED,
    StepTracing,
    TracedPart,
    TracedQuery,
    TracedSpan,
)
from inferometer_api.runtimes.table import runtimes_that
from inferometer_api.wording import counted
from inferometer_loadgen.record.request_tracer import ClientTrace
from inferometer_loadgen.tracing.clocks import (
    ClientClock,
    ServerClock,
    has_times,
    server_clocks,
    span_times,
)
from inferometer_loadgen.tracing.spans import ReceivedSpan

MOST_KEPT = 100
"""Queries of a step in the result; the figures are of all."""
_MOST_SPANS = 500
"""Of one query."""
_MOST_PARTS = 100
"""The others are one."""
_MISFIT_NS, _MISFIT_SHARE = 1_000_000, 0.1
"""How far the begin of a server's spans may lie outside of the query, in ns and by its latency."""
_SLOWEST_SHARE = 0.01
_MIDDLE_SHARE = 0.1
_CLIENT, _WIRE = "client", "wire"
_OWN_SERVICE = "inferometer-serving"
_SERVER = "server"
_EVENT_PARTS = (
    ("receive", "HTTP_RECV_START", "HTTP_RECV_END"),
    ("queue", "QUEUE_START", "COMPUTE_START"),
    ("input", "COMPUTE_START", "COMPUTE_INPUT_END"),
    ("compute", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"),
    ("output", "COMPUTE_OUTPUT_START", "COMPUTE_END"),
    ("send", "HTTP_SEND_START", "HTTP_SEND_END"),
    ("send", "GRPC_SEND_START", "GRPC_SEND_END"),
)
"""The parts that the events of Triton's spans bound."""
_PartKey = tuple[str, str]
"""Service and name."""


@dataclass(slots=True)
class _Interval:
    """A measured interval by the client's monotonic clock."""

    name: str
    service: str
    start_ns: int
    end_ns: int
    span_id: str = ""
    parent_id: str = ""
    is_part: bool = True
    """Whether its time counts: nothing measured lies within it."""


@dataclass(frozen=True, slots=True)
class _Joined:
    trace: ClientTrace
    intervals: list[_Interval]
    """Those of the client and the wire, then those of servers."""
    has_server: bool
    is_misfit: bool = False
    """Whether a server's spans do not lie within the query: they are left out."""

    @property
    def latency_ns(self) -> int:
        return self.trace.answered_ns - self.trace.due_ns

    @property
    def unattributed_ns(self) -> int:
        parts = [(each.start_ns, each.end_ns) for each in self.intervals if each.is_part]
        return self.latency_ns - covered_ns(parts, self.trace.due_ns, self.trace.answered_ns)


def step_tracing(  # noqa: PLR0913 - each is one source of a step's traces, and named
    traces: Sequence[ClientTrace],
    spans: Iterable[ReceivedSpan],
    servers: Sequence[ServerClock],
    clock: ClientClock,
    *,
    sample_every: int,
    notes: Sequence[str] = (),
    most_kept: int = MOST_KEPT,
) -> StepTracing:
    """Return the traced queries of a step; connections belong to `servers` in turn."""
    own = {trace.trace_id.hex(): trace for trace in traces}
    found, left_out = _by_trace(own, spans, clock)
    clocks, offsets, moved = server_clocks(own, found, servers, clock)
    joined = [
        _join(trace, found.get(name, []), offsets.get(trace.place % len(servers)), clock)
        for name, trace in own.items()
    ]
    good = [each for each in joined if each.trace.status == "ok"]
    with_server = [each for each in good if each.has_server]
    return StepTracing(
        sample_every=sample_every,
        started_unix_microseconds=(clock.window_ns + clock.unix_offset_ns) // 1000,
        sampled=len(joined),
        joined=len(with_server),
        clocks=clocks,
        notes=[*notes, *left_out, *moved, *_notes(joined, good, with_server)],
        queries=[
            _query(each, servers[each.trace.place % len(servers)].address, clock)
            for each in _kept(with_server or good, most_kept)
        ],
        **_figures(with_server or good),
    )


def _by_trace(
    own: Mapping[str, ClientTrace], spans: Iterable[ReceivedSpan], clock: ClientClock
) -> tuple[dict[str, list[ReceivedSpan]], list[str]]:
    """Return the spans of each query, and a note for each kind of span that is left out."""
    by_trace: defaultdict[str, list[ReceivedSpan]] = defaultdict(list)
    for span in spans:
        if span.trace_id in own:
            by_trace[span.trace_id].append(span)
    found = {}
    surplus = without_times = 0
    for name, its in by_trace.items():
        every = _with_event_parts(its[:_MOST_SPANS])
        found[name] = [each for each in every if has_times(each, own[name], clock)]
        surplus += max(len(its) - _MOST_SPANS, 0)
        without_times += len(every) - len(found[name])
    notes = []
    if surplus:
        notes.append(f"{surplus:,} spans beyond {_MOST_SPANS} of a query are left out.")
    if without_times:
        notes.append(
            f"Left out for their times: {counted(without_times, 'span')}. They end before they "
            "begin, or lie weeks from this load."
        )
    return {name: its for name, its in found.items() if its}, notes


def covered_ns(intervals: Iterable[tuple[int, int]], begin_ns: int, end_ns: int) -> int:
    """Return how much of a span of time the intervals cover, each moment counted once."""
    covered, reached = 0, begin_ns
    for start, end in sorted(intervals):
        new = min(end, end_ns) - max(start, reached)
        if new > 0:
            covered += new
            reached = min(end, end_ns)
    return covered


def slowest_and_middle(count: int) -> tuple[range, range]:
    """Return the ranks of the slowest 1 % and of the tenth round the median, of `count` > 0."""
    slowest = max(1, ceil(count * _SLOWEST_SHARE))
    low = int(count * (0.5 - _MIDDLE_SHARE / 2))
    high = max(low + 1, ceil(count * (0.5 + _MIDDLE_SHARE / 2)))
    return range(count - slowest, count), range(low, min(high, count))


def _figures(queries: Sequence[_Joined]) -> dict[str, Any]:
    """Return the fields of StepTracing that compare the slowest queries with the median."""
    if not queries:
        return {}
    ordered = sorted(queries, key=lambda each: each.latency_ns)
    slowest, middle = (
        [ordered[rank] for rank in ranks] for ranks in slowest_and_middle(len(ordered))
    )
    return {
        "parts": _parts(ordered, middle, slowest),
        "median_latency_nanoseconds": round(fmean(each.latency_ns for each in middle)),
        "slowest_latency_nanoseconds": round(fmean(each.latency_ns for each in slowest)),
        "median_unattributed_nanoseconds": round(median(each.unattributed_ns for each in ordered)),
    }


def _parts(
    queries: Sequence[_Joined], middle: Sequence[_Joined], slowest: Sequence[_Joined]
) -> list[TracedPart]:
    starts: defaultdict[_PartKey, list[int]] = defaultdict(list)
    for query in queries:
        for each in query.intervals:
            if each.is_part:
                starts[each.service, each.name].append(each.start_ns - query.trace.due_ns)
    of_middle, of_slowest = _mean_parts(middle), _mean_parts(slowest)
    longest = sorted(starts, key=lambda key: -max(of_middle[key], of_slowest[key]))
    ordered = sorted(longest[:_MOST_PARTS], key=lambda key: fmean(starts[key]))
    others = longest[_MOST_PARTS:]
    return [
        *(
            TracedPart(
                name=name,
                service=service,
                median_nanoseconds=of_middle[service, name],
                slowest_nanoseconds=of_slowest[service, name],
            )
            for service, name in ordered
        ),
        *(
            [
                TracedPart(
                    name=f"{len(others):,} shorter parts",
                    service="",
                    median_nanoseconds=sum(of_middle[key] for key in others),
                    slowest_nanoseconds=sum(of_slowest[key] for key in others),
                )
            ]
            if others
            else []
        ),
        TracedPart(
            name=UNATTRIBUTED,
            service="",
            median_nanoseconds=round(fmean(each.unattributed_ns for each in middle)),
            slowest_nanoseconds=round(fmean(each.unattributed_ns for each in slowest)),
        ),
    ]


def _mean_parts(queries: Sequence[_Joined]) -> Counter[_PartKey]:
    """Return the mean ns of each part."""
    totals: Counter[_PartKey] = Counter()
    for query in queries:
        for each in query.intervals:
            if each.is_part:
                totals[each.service, each.name] += each.end_ns - each.start_ns
    return Counter({key: round(total / len(queries)) for key, total in totals.items()})


def _join(
    trace: ClientTrace, spans: Sequence[ReceivedSpan], offset_ns: int | None, clock: ClientClock
) -> _Joined:
    """Return a query with its spans, all by the client's monotonic clock."""
    parents = {span.parent_id for span in spans}
    of_server = [
        _Interval(
            span.name,
            _SERVER if span.service == _OWN_SERVICE else span.service or _SERVER,
            *span_times(span, offset_ns or 0, clock),
            span.span_id,
            span.parent_id,
            is_part=span.span_id not in parents,
        )
        for span in sorted(spans, key=lambda span: (span.start_ns, -span.end_ns))
    ]
    if not _fits(trace, of_server):
        return _Joined(trace, _of_client(trace, []), has_server=False, is_misfit=True)
    return _Joined(trace, [*_of_client(trace, of_server), *of_server], bool(of_server))


def _fits(trace: ClientTrace, of_server: Sequence[_Interval]) -> bool:
    """Return whether a server began between request and reply, as it must by one clock.

    It may end later: what it does after the reply may have spans, too.
    """
    begin = min((each.start_ns for each in of_server), default=trace.sent_ns)
    slack_ns = _MISFIT_NS + _MISFIT_SHARE * (trace.answered_ns - trace.due_ns)
    return trace.sent_ns - slack_ns <= begin <= trace.answered_ns + slack_ns


def _of_client(trace: ClientTrace, of_server: Sequence[_Interval]) -> list[_Interval]:
    found = [
        _Interval("send", _CLIENT, trace.sent_ns, trace.written_ns),
        _Interval("receive", _CLIENT, trace.first_byte_ns, trace.answered_ns),
    ]
    if trace.sent_ns > trace.due_ns:
        found.insert(0, _Interval("wait", _CLIENT, trace.due_ns, trace.sent_ns))
    if of_server:
        begin = min(each.start_ns for each in of_server)
        end = max(each.end_ns for each in of_server)
        # The server may take a request before the call that writes it returns, and the client a
        # reply before the server's call returns: nothing was on the wire alone then.
        taken_ns = max(min(begin, trace.first_byte_ns), trace.written_ns)
        found.append(_Interval("request", _WIRE, trace.written_ns, taken_ns))
        found.append(_Interval("reply", _WIRE, min(end, trace.first_byte_ns), trace.first_byte_ns))
    return found


def _with_event_parts(spans: Sequence[ReceivedSpan]) -> list[ReceivedSpan]:
    """Return the spans, and those that the events of Triton's spans bound.

    An event that occurs twice, as in ensembles, bounds nothing: it is not known of which model.
    """
    seen: defaultdict[str, list[tuple[int, ReceivedSpan]]] = defaultdict(list)
    for span in spans:
        for name, time_ns in span.events:
            seen[name].append((time_ns, span))
    once = {name: times[0] for name, times in seen.items() if len(times) == 1}
    made = [
        ReceivedSpan(
            trace_id=owner.trace_id,
            span_id=f"{owner.span_id}/{name}",
            parent_id=owner.span_id,
            name=name,
            service=owner.service,
            start_ns=once[begin][0],
            end_ns=once[end][0],
        )
        for name, begin, end in _EVENT_PARTS
        if begin in once and end in once
        for owner in (once[end][1] if begin == "COMPUTE_START" else once[begin][1],)
    ]
    return [*spans, *made]


def _kept(queries: Sequence[_Joined], most: int) -> list[_Joined]:
    """Return the slowest queries and a selection over all latencies, in the order of latency."""
    if not queries:
        return []
    ordered = sorted(queries, key=lambda each: each.latency_ns)
    count = len(ordered)
    if count <= most:
        return ordered
    slowest = set(slowest_and_middle(count)[0][-(most // 2) :])
    others = most - len(slowest)
    ranks = slowest | {round(at * (count - 1) / (others - 1)) for at in range(others)}
    return [ordered[rank] for rank in sorted(ranks)]


def _query(joined: _Joined, address: str, clock: ClientClock) -> TracedQuery:
    trace = joined.trace
    intervals = [
        _Interval("query", _CLIENT, trace.due_ns, trace.answered_ns, is_part=False),
        *joined.intervals,
    ]
    by_id = {each.span_id: at for at, each in enumerate(intervals) if each.span_id}
    return TracedQuery(
        trace_id=trace.trace_id.hex(),
        span_id=trace.span_id.hex(),
        due_nanoseconds=trace.due_ns - clock.window_ns,
        latency_nanoseconds=joined.latency_ns,
        unattributed_nanoseconds=joined.unattributed_ns,
        server=address,
        status=trace.status,
        spans=[
            TracedSpan(
                name=each.name,
                service=each.service,
                parent=by_id.get(each.parent_id, 0) if at else None,
                start_nanoseconds=each.start_ns - trace.due_ns,
                duration_nanoseconds=max(0, each.end_ns - each.start_ns),
            )
            for at, each in enumerate(intervals)
        ],
    )


def _notes(
    joined: Sequence[_Joined], good: Sequence[_Joined], with_server: Sequence[_Joined]
) -> Iterable[str]:
    if len(good) < len(joined):
        yield f"{len(joined) - len(good)} of {len(joined)} traced queries failed; none is shown."
    misfits = sum(each.is_misfit for each in good)
    if misfits:
        yield (
            f"The server's spans of {misfits} of {len(good)} traced queries are left out: by their "
            "times it began before the request was sent, or after the reply came. A clock was set "
            "meanwhile, or the times are wrong."
        )
    if good and not with_server and not misfits:
        own = " and ".join(runtimes_that(lambda each: each.reports_spans))
        yield (
            "No server reported spans, so only the client's own parts are known. Servers of the "
            f"runtimes {own} do; others need load.tracing.receiverPort."
        )
    elif bare := len(good) - len(with_server) - misfits:
        yield (
            f"{bare} of {len(good)} traced queries have no spans of a server; the figures are of "
            "the others."
        )
