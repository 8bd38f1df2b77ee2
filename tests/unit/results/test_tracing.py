"""Traced queries are shown by part, and exported as a Chrome trace and as OTLP."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from inferometer_api.results.result import ResultDocument
from inferometer_api.results.tracing import ServerClockOffset, TracedPart
from inferometer_loadgen.tracing.spans import read_json
from inferometer_results.export.chrome_trace import chrome_trace
from inferometer_results.export.lanes import fewest_lanes
from inferometer_results.export.otlp import otlp_message
from inferometer_results.report import render_report
from inferometer_results.report.tracing_charts import depths_of
from inferometer_results.tracing import sentences_of
from support.results import a_result
from support.traced_results import MS, a_query, a_traced_result, a_tracing


def test_sentences_say_where_slow_queries_lose_their_time() -> None:
    """The part with the largest difference is named with its share; clocks and notes follow."""
    clock = ServerClockOffset(service="far:1", offset_nanoseconds=-3 * MS, error_nanoseconds=MS)
    found = list(sentences_of(a_tracing(clocks=[clock], notes=["One is missing."])))
    assert found[0] == ("3 queries were traced, every 100th one; 3 have spans of a server.")
    assert "The slowest 1 % take 50.0 ms, those around the median 10.0 ms." in found[1]
    assert "90.0 % of the difference is in queue (server)." in found[1]
    assert "1.00 ms of a query (unattributed)" in found[2]
    assert "The clock of far:1 is 3.00 ms behind the client's, ± 1.00 ms" in found[3]
    assert found[4] == "One is missing."


@pytest.mark.parametrize(
    ("every", "words"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (1000, "1,000th")]
)
def test_numbers_have_their_endings(every: int, words: str) -> None:
    """Every 1st, 2nd, 3rd, 4th, 11th, ... query."""
    assert f"every {words} one" in next(sentences_of(a_tracing(sample_every=every)))


def test_the_report_shows_parts_and_the_slowest_query() -> None:
    """Charts have titles, the trace ID of the slowest query, and each part in a table."""
    page = render_report(a_traced_result())
    assert "Where one slow request went" in page
    assert "Flame graph of the slowest traced query" in page
    assert f"{2:032x}" in page
    assert "server queue" in page
    assert "Where one slow request went" not in render_report(a_result())


def test_a_hostile_name_does_not_leave_its_place() -> None:
    """Another server chooses the names of its spans: they are escaped in the page."""
    bad = '</title><script>alert("x")</script>'
    span = a_query(1, 0, 10).spans[1].model_copy(update={"name": bad, "service": bad})
    query = a_query(1, 0, 10)
    query = query.model_copy(update={"spans": [*query.spans, span]})
    part = TracedPart(name=bad, service=bad, median_nanoseconds=1, slowest_nanoseconds=2)
    page = render_report(a_traced_result(queries=[query], parts=[part]))
    assert "<script>alert" not in page
    assert "alert(" in page


def _slices(document: ResultDocument) -> Iterator[dict[str, Any]]:
    yield from (e for e in json.loads(chrome_trace(document))["traceEvents"] if e["ph"] == "X")


def test_a_chrome_trace_has_what_the_format_requires() -> None:
    """Complete events have name, category, time and duration in us, process and thread."""
    document = a_traced_result()
    trace = json.loads(chrome_trace(document))
    assert trace["displayTimeUnit"] in {"ms", "ns"}
    processes = set()
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["name"] == "process_name"
            assert event["args"]["name"]
            assert event["pid"] not in processes
            processes.add(event["pid"])
            continue
        assert event["ph"] == "X"
        assert event["pid"] in processes
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        assert len(event["args"]["traceId"]) == 32
    slices = list(_slices(document))
    (query,) = (e for e in slices if e["name"] == "query" and e["args"]["traceId"][-1] == "2")
    assert (query["ts"], query["dur"]) == (5000, 50_000)


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(3, 60)), min_size=1, max_size=30),
)
def test_slices_of_a_thread_nest(queries: list[tuple[int, int]]) -> None:
    """ui.perfetto.dev needs slices of a thread to nest or to follow one another."""
    made = [a_query(number, due, ms) for number, (due, ms) in enumerate(queries, 1)]
    events = list(_slices(a_traced_result(queries=made)))
    threads: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events:
        key = event["pid"], event["tid"]
        threads.setdefault(key, []).append((event["ts"], event["ts"] + event["dur"]))
    for slices in threads.values():
        open_until: list[float] = []
        for begin, end in sorted(slices, key=lambda each: (each[0], -each[1])):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or end <= open_until[-1]
            open_until.append(end)


def test_the_fewest_lanes_are_used() -> None:
    """Queries that follow one another share a lane."""
    assert fewest_lanes([(0, 10), (5, 15), (10, 20), (16, 26)]) == [0, 1, 0, 1]
    assert fewest_lanes([]) == []


def test_the_otlp_message_is_what_collectors_take() -> None:
    """Protobuf's reader takes it; IDs are those of the wire; each service has a resource."""
    message = otlp_message(a_traced_result())
    text = json.loads(message)
    assert {resource["schemaUrl"] for resource in text["resourceSpans"]} == {
        "https://opentelemetry.io/schemas/1.37.0"
    }
    Parse(message, ExportTraceServiceRequest())
    spans = {(span.trace_id, span.name): span for span in read_json(message)}
    query, compute = spans[f"{2:032x}", "query"], spans[f"{2:032x}", "compute"]
    root = spans[f"{2:032x}", "inference"]
    assert (query.span_id, query.parent_id) == (f"{2:016x}", "")
    assert compute.parent_id == root.span_id
    assert root.parent_id == query.span_id
    assert (query.service, root.service) == ("inferometer-loadgen", "inferometer-serving")
    assert query.start_ns == 1_700_000_000 * 1000 * MS + 5 * MS
    assert query.end_ns - query.start_ns == 50 * MS
    assert otlp_message(a_traced_result()) == message
    assert len({span.span_id for span in spans.values()}) == len(spans)


def test_depths_follow_parents_even_if_one_is_unknown() -> None:
    """A parent that does not come before its child counts as the query itself."""
    query = a_query(1, 0, 10)
    assert depths_of(query) == [0, 1, 1, 2]
    odd = query.spans[3].model_copy(update={"parent": 9})
    assert depths_of(query.model_copy(update={"spans": [*query.spans[:3], odd]})) == [0, 1, 1, 1]
