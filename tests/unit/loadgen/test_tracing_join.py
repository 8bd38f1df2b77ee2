"""Spans of client and servers are joined by trace, and every moment is attributed or shown."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from inferometer_api.results.tracing import UNATTRIBUTED, StepTracing
from inferometer_loadgen.record.request_tracer import ClientTrace
from inferometer_loadgen.tracing import join
from inferometer_loadgen.tracing.clocks import (
    ClientClock,
    ServerClock,
    clock_movement,
    clock_offset,
)
from inferometer_loadgen.tracing.join import (
    MOST_KEPT,
    covered_ns,
    slowest_and_middle,
    step_tracing,
)
from inferometer_loadgen.tracing.spans import (
    ReceivedSpan,
    UnreadableSpansError,
    read_json,
    read_protobuf,
)

MS = 1_000_000
WINDOW = 5_000 * MS
UNIX = 1_700_000_000_000 * MS
HERE = ClientClock(WINDOW, UNIX, "boot")
SERVER = ServerClock("127.0.0.1:8000", is_here=True)
FAR = ServerClock("10.0.0.9:8000", is_here=False)


def a_trace(number: int, latency_ms: int = 10, *, wait_ms: int = 0) -> ClientTrace:
    """Return a query that was sent after a wait, written in 1 ms, and received within 1 ms."""
    due = WINDOW + number * 100 * MS
    sent = due + wait_ms * MS
    answered = due + latency_ms * MS
    return ClientTrace(
        trace_id=number.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big"),
        place=0,
        due_ns=due,
        sent_ns=sent,
        written_ns=sent + MS,
        first_byte_ns=answered - MS,
        answered_ns=answered,
        status="ok",
    )


def server_spans(
    trace: ClientTrace, *parts: tuple[str, int], away_ns: int = 0, boot_id: str = "boot"
) -> list[ReceivedSpan]:
    """Return the spans of a server: parts of so many ms in a row, 1 ms after it was written."""
    at = trace.written_ns + MS + UNIX + away_ns
    spans = []
    for number, (name, length_ms) in enumerate(parts):
        spans.append(
            ReceivedSpan(
                trace_id=trace.trace_id.hex(),
                span_id=f"a{number:015x}",
                parent_id="f" * 16,
                name=name,
                service="inferometer-serving",
                start_ns=at,
                end_ns=at + length_ms * MS,
                boot_id=boot_id,
                unix_offset_ns=UNIX,
            )
        )
        at += length_ms * MS
    root = replace(
        spans[0],
        span_id="f" * 16,
        parent_id=trace.span_id.hex(),
        name="inference",
        end_ns=spans[-1].end_ns,
    )
    return [*spans, root]


def joined(
    traces: Sequence[ClientTrace],
    spans: Sequence[ReceivedSpan],
    server: ServerClock = SERVER,
    clock: ClientClock = HERE,
) -> StepTracing:
    """Return what a step with one server comes to."""
    return step_tracing(traces, spans, [server], clock, sample_every=10)


def parts_of(tracing: StepTracing) -> dict[str, list[float]]:
    """Return the parts by name, in ms: around the median, and of the slowest 1 %."""
    return {
        f"{part.service} {part.name}".strip(): [
            part.median_nanoseconds / MS,
            part.slowest_nanoseconds / MS,
        ]
        for part in tracing.parts
    }


def test_each_part_of_a_query_is_found() -> None:
    """Waiting, sending, the wire both ways, the server's parts and receiving have their times."""
    trace = a_trace(1, 20, wait_ms=3)
    spans = server_spans(trace, ("receive", 1), ("queue", 4), ("compute", 6))
    found = joined([trace], spans)
    assert parts_of(found) == {
        "client wait": [3, 3],
        "client send": [1, 1],
        "wire request": [1, 1],
        "server receive": [1, 1],
        "server queue": [4, 4],
        "server compute": [6, 6],
        "wire reply": [3, 3],
        "client receive": [1, 1],
        UNATTRIBUTED: [0, 0],
    }
    assert list(parts_of(found))[-1] == UNATTRIBUTED
    assert (found.sampled, found.joined, found.notes) == (1, 1, [])
    (query,) = found.queries
    assert query.spans[0].name == "query"
    assert query.spans[0].parent is None
    names = {span.name: span for span in query.spans}
    root = query.spans.index(names["inference"])
    assert names["compute"].parent == root
    assert names["inference"].parent == 0
    assert query.trace_id == "0" * 31 + "1"
    assert query.span_id == "0" * 15 + "1"


def test_what_no_part_covers_is_shown() -> None:
    """A gap within the server is unattributed: it is not given to a neighbour."""
    trace = a_trace(1, 20)
    spans = [each for each in server_spans(trace, ("a", 2), ("b", 5), ("c", 2)) if each.name != "b"]
    found = joined([trace], spans)
    assert found.median_unattributed_nanoseconds == 5 * MS
    assert parts_of(found)[UNATTRIBUTED] == [5, 5]
    assert found.queries[0].unattributed_nanoseconds == 5 * MS


def test_the_slowest_are_compared_with_the_median() -> None:
    """Of 200 queries the 2 slowest lose their time in the queue, and that shows there alone."""
    traces = [a_trace(number, 40 if number <= 2 else 12) for number in range(1, 201)]
    spans = [
        span
        for trace in traces
        for span in server_spans(
            trace,
            ("queue", 30 if trace.answered_ns - trace.due_ns > 20 * MS else 2),
            ("compute", 4),
        )
    ]
    found = joined(traces, spans)
    parts = parts_of(found)
    assert parts["server queue"] == [2, 30]
    assert parts["server compute"] == [4, 4]
    assert found.median_latency_nanoseconds == 12 * MS
    assert found.slowest_latency_nanoseconds == 40 * MS


def test_a_shared_clock_is_exact_whatever_the_wall_clock_did() -> None:
    """Spans of one boot are compared by the monotonic clock, which no one sets."""
    trace = a_trace(1)
    spans = [
        replace(each, start_ns=each.start_ns + 7, end_ns=each.end_ns + 7, unix_offset_ns=UNIX + 7)
        for each in server_spans(trace, ("compute", 4))
    ]
    found = joined([trace], spans, server=FAR)
    assert parts_of(found)["wire request"] == [1, 1]
    assert found.clocks[0].offset_nanoseconds == 0
    assert found.clocks[0].error_nanoseconds == 0


def test_the_offset_of_another_machines_clock_is_estimated() -> None:
    """It is the middle of what causality allows over all queries, and its error bound is shown."""
    away = 250 * MS
    traces = [a_trace(number, 10 + number) for number in range(1, 6)]
    spans = [
        span
        for trace in traces
        for span in server_spans(trace, ("compute", 4), away_ns=away, boot_id="other")
    ]
    found = joined(traces, spans, server=FAR)
    (clock,) = found.clocks
    assert abs(clock.offset_nanoseconds - away) <= clock.error_nanoseconds
    assert clock.error_nanoseconds < 5 * MS
    assert found.queries[0].spans[-1].start_nanoseconds > 0


@given(
    st.integers(-(10**9), 10**9),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1),
)
def test_the_bound_of_the_offset_holds(true: int, delays: list[tuple[int, int]]) -> None:
    """Whatever the delays of both ways are, the true offset lies within the error."""
    bounds = [(true - back, true + forth) for forth, back in delays]
    offset, error = clock_offset(bounds)
    assert abs(offset - true) <= error
    assert clock_movement(bounds) == 0


def test_a_clock_that_moves_meanwhile_is_named() -> None:
    """A daemon sets the server's clock 70 ms ahead between two queries: no offset fits both."""
    spans = [
        span
        for number, away_ms in ((1, 30), (2, 100))
        for span in server_spans(
            a_trace(number, 10), ("compute", 4), away_ns=away_ms * MS, boot_id="other"
        )
    ]
    found = joined([a_trace(1, 10), a_trace(2, 10)], spans, server=FAR)
    moved, left_out = found.notes
    assert moved.startswith("The clock of 10.0.0.9:8000 moved by 65.000 ms or more")
    assert left_out.startswith("The server's spans of 2 of 2 traced queries are left out")
    (clock,) = found.clocks
    assert clock.error_nanoseconds >= 32 * MS
    assert (found.joined, found.parts[-1].median_nanoseconds) == (0, 8 * MS)


@pytest.mark.parametrize("away_ms", [20, -20, 3_600_000])
def test_spans_that_a_set_clock_moved_out_of_their_query_are_left_out(away_ms: int) -> None:
    """Servers of others on this machine write wall clock times, and a daemon set that clock."""
    traces = [a_trace(1, 10), a_trace(2, 10)]
    spans = [
        span
        for trace, ms in zip(traces, (0, away_ms), strict=True)
        for span in server_spans(trace, ("compute", 4), away_ns=ms * MS, boot_id="")
    ]
    found = joined(traces, spans)
    (note,) = found.notes
    assert note.startswith("The server's spans of 1 of 2 traced queries are left out")
    assert "A clock was set meanwhile" in note
    assert found.joined == 1
    assert sum(each.median_nanoseconds for each in found.parts) == 10 * MS


@pytest.mark.parametrize(
    ("start_ns", "end_ns"),
    [
        pytest.param(0, 0, id="never set"),
        pytest.param(2**64 - 1, 2**64 - 1, id="never read"),
        pytest.param(UNIX + WINDOW + 200 * MS, UNIX + WINDOW + 199 * MS, id="ends first"),
    ],
)
def test_a_span_without_times_costs_no_other(start_ns: int, end_ns: int) -> None:
    """It is left out with a note, and its neighbours make the figures."""
    trace = a_trace(1, 20)
    whole = server_spans(trace, ("queue", 4), ("compute", 6))
    odd = replace(whole[0], span_id="b" * 16, start_ns=start_ns, end_ns=end_ns, boot_id="")
    found = joined([trace], [*whole, odd])
    assert parts_of(found) == parts_of(joined([trace], whole))
    assert found.notes == [
        "Left out for their times: 1 span. They end before they begin, or lie weeks from this load."
    ]


def test_a_query_with_too_many_spans_keeps_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are too many to show are one part, so that the sum stays."""
    monkeypatch.setattr(join, "_MOST_SPANS", 40)
    monkeypatch.setattr(join, "_MOST_PARTS", 10)
    trace = a_trace(1, 100)
    spans = server_spans(trace, *((f"part {number}", 1) for number in range(60)))
    found = joined([trace], spans)
    assert "21 spans beyond 40 of a query are left out." in found.notes
    shown = parts_of(found)
    assert len(shown) == 12
    assert shown["34 shorter parts"] == [34, 34]
    assert sum(each for each, _ in shown.values()) == 100


_TIMES = st.one_of(
    st.integers(0, 2**64 - 1), st.integers(UNIX + WINDOW, UNIX + WINDOW + 1_000 * MS)
)
_IDS = st.sampled_from(["", "1" * 16, "2" * 16, a_trace(1).span_id.hex()])


@given(
    st.lists(
        st.builds(
            ReceivedSpan,
            trace_id=st.sampled_from([a_trace(number).trace_id.hex() for number in (1, 2, 3)]),
            span_id=_IDS,
            parent_id=_IDS,
            name=st.sampled_from(["compute", ""]),
            service=st.sampled_from(["other", "inferometer-serving"]),
            start_ns=_TIMES,
            end_ns=_TIMES,
            events=st.lists(
                st.tuples(st.sampled_from(["COMPUTE_START", "QUEUE_START"]), _TIMES)
            ).map(tuple),
            boot_id=st.sampled_from(["", "boot", "other"]),
            unix_offset_ns=st.integers(-(2**70), 2**70),
        )
    ),
    st.sampled_from([SERVER, FAR]),
)
def test_whatever_spans_say_a_step_keeps_its_queries(
    spans: list[ReceivedSpan], server: ServerClock
) -> None:
    """No times, names or parents of a span cost the measurement."""
    found = joined([a_trace(1), a_trace(2)], spans, server)
    assert found.sampled == 2
    assert StepTracing.read_json(found.model_dump_json()) == found
    for query in found.queries:
        assert 0 <= query.unattributed_nanoseconds <= query.latency_nanoseconds


@given(
    st.lists(st.tuples(st.integers(-20, 120), st.integers(-20, 120))),
    st.integers(0, 50),
    st.integers(51, 100),
)
def test_each_covered_moment_counts_once(
    intervals: list[tuple[int, int]], begin: int, end: int
) -> None:
    """Coverage is that of a set of moments, however the intervals overlap or lie outside."""
    moments = {
        moment
        for start, stop in intervals
        for moment in range(start, stop)
        if begin <= moment < end
    }
    assert covered_ns(intervals, begin, end) == len(moments)


@given(st.integers(1, 5000))
def test_the_groups_are_never_empty_and_lie_where_they_should(count: int) -> None:
    """The slowest are the last 1 %, at least one; the middle group contains the median's rank."""
    slowest, middle = slowest_and_middle(count)
    assert slowest.stop == count
    assert 1 <= len(slowest) <= max(1, count // 100 + 1)
    assert (count - 1) // 2 in middle or count // 2 in middle
    assert middle.stop <= count


def test_so_many_queries_are_kept_and_the_slowest_among_them() -> None:
    """The result stays small: at most 100 queries, of all latencies, with the slowest 1 %."""
    traces = [a_trace(number, 5 + number % 700) for number in range(1, 3001)]
    spans = [span for trace in traces for span in server_spans(trace, ("compute", 1))]
    found = joined(traces, spans)
    kept = [query.latency_nanoseconds for query in found.queries]
    assert len(kept) <= MOST_KEPT
    every = sorted(trace.answered_ns - trace.due_ns for trace in traces)
    assert kept[-30:] == every[-30:]
    assert kept[0] == every[0]
    assert (found.sampled, found.joined) == (3000, 3000)


def test_what_is_missing_is_said() -> None:
    """Failed queries, queries without server spans, and servers that report none are noted."""
    good, bare, failed = a_trace(1), a_trace(2), replace(a_trace(3), status="timeout")
    some = joined([good, bare, failed], server_spans(good, ("compute", 4)))
    assert some.joined == 1
    assert any("1 of 3 traced queries failed" in note for note in some.notes)
    assert any("1 of 2 traced queries have no spans" in note for note in some.notes)
    none = joined([bare], [])
    assert any("No server reported spans" in note for note in none.notes)
    assert none.parts[-1].median_nanoseconds == 8 * MS
    nothing = joined([], [])
    assert (nothing.sampled, nothing.parts, nothing.queries) == (0, [], [])


def test_the_events_of_tritons_spans_become_parts() -> None:
    """Queue, input, compute and output lie between the events of its two inner spans."""
    trace = a_trace(1, 30)
    at = trace.written_ns + MS + UNIX

    def span(
        name: str, number: int, parent: str, begin: int, end: int, **events: int
    ) -> ReceivedSpan:
        return ReceivedSpan(
            trace_id=trace.trace_id.hex(),
            span_id=f"{number:016x}",
            parent_id=parent,
            name=name,
            service="triton-inference-server",
            start_ns=at + begin * MS,
            end_ns=at + end * MS,
            events=tuple((event, at + when * MS) for event, when in events.items()),
        )

    spans = [
        span(
            "InferRequest",
            1,
            trace.span_id.hex(),
            0,
            20,
            HTTP_RECV_START=0,
            HTTP_RECV_END=1,
            HTTP_SEND_START=19,
            HTTP_SEND_END=20,
        ),
        span("simple", 2, f"{1:016x}", 1, 19, REQUEST_START=1, QUEUE_START=2, REQUEST_END=19),
        span(
            "compute",
            3,
            f"{2:016x}",
            5,
            18,
            COMPUTE_START=5,
            COMPUTE_INPUT_END=6,
            COMPUTE_OUTPUT_START=16,
            COMPUTE_END=18,
        ),
    ]
    found = parts_of(joined([trace], spans))
    server = "triton-inference-server"
    assert {
        name.removeprefix(f"{server} "): value[0] for name, value in found.items() if server in name
    } == {
        "receive": 1,
        "queue": 3,
        "input": 1,
        "compute": 10,
        "output": 2,
        "send": 1,
    }
    assert found[UNATTRIBUTED] == [2, 2]


def test_spans_in_protobuf_and_json_are_the_same() -> None:
    """Both encodings of OTLP give the same spans, with events and the clock's attributes."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    for key, value in (
        ("service.name", "triton"),
        ("inferometer.clock.boot_id", "b"),
        ("inferometer.clock.unix_offset_nanoseconds", "17"),
    ):
        resource.resource.attributes.add(key=key).value.string_value = value
    span = resource.scope_spans.add().spans.add(
        trace_id=bytes(15) + b"\x01",
        span_id=bytes(7) + b"\x02",
        parent_span_id=bytes(7) + b"\x03",
        name="compute",
        start_time_unix_nano=5,
        end_time_unix_nano=9,
    )
    span.events.add(name="COMPUTE_START", time_unix_nano=6)
    in_json = {
        "resourceSpans": [
            {
                "resource": {
                    "attributes": [
                        {"key": "service.name", "value": {"stringValue": "triton"}},
                        {"key": "inferometer.clock.boot_id", "value": {"stringValue": "b"}},
                        {
                            "key": "inferometer.clock.unix_offset_nanoseconds",
                            "value": {"intValue": "17"},
                        },
                    ]
                },
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": "0" * 31 + "1",
                                "spanId": "0" * 15 + "2",
                                "parentSpanId": "0" * 15 + "3",
                                "name": "compute",
                                "startTimeUnixNano": "5",
                                "endTimeUnixNano": 9,
                                "events": [{"name": "COMPUTE_START", "timeUnixNano": "6"}],
                            }
                        ]
                    }
                ],
            }
        ]
    }
    from_json = read_json(json.dumps(in_json).encode())
    assert from_json == read_protobuf(request.SerializeToString())
    (one,) = from_json
    assert (one.service, one.events, one.boot_id) == ("triton", (("COMPUTE_START", 6),), "b")
    assert one.unix_offset_ns == 17


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b'{"resourceSpans": 3}',
        b'{"resourceSpans": [3]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "x"}]}]}]}',
        b'{"resourceSpans": [{"resource": {"attributes": [{"value": {}}]}}]}',
    ],
)
def test_malformed_json_is_refused_in_a_clause(body: bytes) -> None:
    """Whatever a program sends, it is either spans or a sentence."""
    with pytest.raises(UnreadableSpansError, match="no OTLP message"):
        read_json(body)


@pytest.mark.parametrize("time", ["1e999", "-1e999", "9" * 5_000])
def test_a_time_beyond_all_numbers_is_refused_in_a_clause(time: str) -> None:
    """It is no reason to lose the measurement."""
    fields = f'"traceId":"a","spanId":"b","name":"c","startTimeUnixNano":{time},"endTimeUnixNano":1'
    body = f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{{fields}}}]}}]}}]}}'
    with pytest.raises(UnreadableSpansError, match="no OTLP message"):
        read_json(body.encode())


def test_names_are_short_and_can_be_written() -> None:
    """Half of a character, which no file can hold, and five million characters."""
    fields = '"traceId":"a","spanId":"b","startTimeUnixNano":1,"endTimeUnixNano":1'
    for name, expected in (("bad\\ud800name", "bad?name"), (5_000_000 * "x", 200 * "x")):
        span = f'{{"name":"{name}",{fields}}}'
        body = f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}'
        assert [each.name for each in read_json(body.encode())] == [expected]
        assert read_json(body.encode(), {"another"}) == []


@given(st.binary())
def test_any_bytes_are_spans_or_refused(body: bytes) -> None:
    """No message ends in another error."""
    for read in (read_json, read_protobuf):
        with suppress(UnreadableSpansError):
            assert isinstance(read(body), list)
