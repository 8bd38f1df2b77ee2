"""The server traces sampled requests only, and hands their spans out once."""

import asyncio
import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_loadgen.tracing.spans import read_json
from inferometer_serving.batching.batcher import Batcher
from inferometer_serving.http.head import parse_head
from inferometer_serving.http.outbox import Outbox
from inferometer_serving.tracing import RequestTrace, SpanLog, TraceContext, sampled_context

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.parametrize(
    ("traceparent", "is_sampled"),
    [
        (SAMPLED, True),
        (f"00-{TRACE}-{PARENT}-00", False),
        (f"00-{TRACE}-{PARENT}-03", True),
        (f" {SAMPLED} ", True),
        (f"cc-{TRACE}-{PARENT}-01-what-comes", True),
        (f"{SAMPLED}-more", False),
        (f"ff-{TRACE}-{PARENT}-01", False),
        (f"00-{'0' * 32}-{PARENT}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (SAMPLED.upper(), False),
        (SAMPLED[:-1], False),
        ("", False),
        (None, False),
        (f"{SAMPLED}, {SAMPLED}", False),
    ],
)
def test_only_a_valid_sampled_traceparent_is_traced(
    traceparent: str | None, *, is_sampled: bool
) -> None:
    """W3C Trace Context: a malformed or unsampled one is ignored, never an error."""
    found = sampled_context(traceparent)
    assert found == (TraceContext(TRACE, PARENT) if is_sampled else None)


@given(st.text())
def test_no_text_is_an_error(traceparent: str) -> None:
    """Any header is either a context or none."""
    assert sampled_context(traceparent) is None or traceparent.strip()


def test_the_head_of_a_request_has_its_traceparent() -> None:
    """It is read in any case of letters; without one there is none."""
    lines = ["POST /v2/models/m/infer HTTP/1.1", "Host: x"]
    plain = "\r\n".join([*lines, "", ""]).encode()
    traced = "\r\n".join([*lines, f"TraceParent: {SAMPLED}", "", ""]).encode()
    assert parse_head(plain, 10).traceparent is None
    assert parse_head(traced, 10).traceparent == SAMPLED


def a_trace(number: int = 1) -> RequestTrace:
    """Return a request with two parts."""
    trace = RequestTrace(TraceContext(f"{number:032x}", f"{number:016x}"), "http", 100)
    trace.add("decode", 100, 150)
    trace.add("compute", 150, 400)
    trace.ended_ns = 420
    return trace


def test_spans_are_taken_once_as_otlp() -> None:
    """Root and parts form a tree below the caller's span; the clock's facts come with them."""
    log = SpanLog("1.2.3")
    log.keep(a_trace())
    spans = read_json(log.take())
    by_name = {span.name: span for span in spans}
    root = by_name["inference"]
    assert root.parent_id == f"{1:016x}"
    assert {by_name[name].parent_id for name in ("decode", "compute")} == {root.span_id}
    assert len({span.span_id for span in spans} | {f"{1:016x}"}) == 4
    assert {span.service for span in spans} == {"inferometer-serving"}
    monotonic = {span.name: span.start_ns - span.unix_offset_ns for span in spans}
    assert monotonic == {"inference": 100, "decode": 100, "compute": 150}
    assert root.end_ns - root.start_ns == 320
    assert root.boot_id
    assert read_json(log.take()) == []


def test_the_attributes_follow_a_pinned_version_of_the_conventions() -> None:
    """The message names the version of the semantic conventions, and uses their names."""
    log = SpanLog("1.2.3")
    log.keep(a_trace())
    (resource,) = json.loads(log.take())["resourceSpans"]
    assert resource["schemaUrl"] == "https://opentelemetry.io/schemas/1.37.0"
    keys = {each["key"] for each in resource["resource"]["attributes"]}
    assert {"service.name", "service.version", "host.name"} <= keys
    root = resource["scopeSpans"][0]["spans"][0]
    assert root["attributes"] == [
        {"key": "network.protocol.name", "value": {"stringValue": "http"}}
    ]


def test_many_requests_are_taken_in_several_messages_and_the_oldest_are_dropped() -> None:
    """What no client takes is bounded: a client cannot fill the memory of the server."""
    log = SpanLog("1.2.3")
    for number in range(1, 25_001):
        log.keep(a_trace(number))
    taken = []
    while spans := read_json(log.take()):
        assert len(spans) <= 1500
        taken += [int(span.trace_id, 16) for span in spans if span.name == "inference"]
    assert taken == list(range(5_001, 25_001))


def test_a_trace_ends_once_its_answer_is_written() -> None:
    """The part `send` lasts from the answer to its write, which the outbox may hold."""
    log = SpanLog("1")
    soon: list[Any] = []

    class Loop:
        def call_soon(self, callback: Any) -> None:
            soon.append(callback)

    class Transport:
        written = b""

        def is_closing(self) -> bool:
            return False

        def write(self, data: bytes) -> None:
            self.written += bytes(data)

    outbox = Outbox(cast("asyncio.AbstractEventLoop", Loop()), lambda: 0.0, log)
    trace, transport = a_trace(), Transport()
    outbox.trace(trace)
    outbox.put(cast("asyncio.Transport", transport), [b"answer"])
    assert read_json(log.take()) == []
    soon[0]()
    assert transport.written == b"answer"
    names = {span.name: span for span in read_json(log.take())}
    assert names["send"].end_ns == names["inference"].end_ns
    assert names["send"].start_ns <= names["send"].end_ns


def test_waiting_for_others_is_told_from_waiting_for_an_instance() -> None:
    """A batch is ready when it is whole, or when its oldest request has waited long enough."""
    whole: Batcher[str] = Batcher(2, 100)
    whole.put("a", "k", 1, 10)
    whole.put("b", "k", 1, 40)
    assert whole.take(75) == ["a", "b"]
    assert whole.ready_ns == 40
    due: Batcher[str] = Batcher(8, 100)
    due.put("a", "k", 1, 10)
    due.put("b", "k", 1, 60)
    assert due.take(500) == ["a", "b"]
    assert due.ready_ns == 110
    late: Batcher[str] = Batcher(2, 100)
    late.put("a", "k", 1, 10)
    late.put("b", "k", 1, 300)
    assert late.take(500) == ["a", "b"]
    assert late.ready_ns == 110
    never: Batcher[str] = Batcher(1, 0)
    never.put("a", "k", 1, 10)
    assert never.take(500) == ["a"]
    assert never.ready_ns == 10
