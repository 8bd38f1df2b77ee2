"""The traced queries and profiled inferences of a result as a Chrome trace for ui.perfetto.dev.

Each service of each traced step is a process. Queries that overlap lie on different threads, so
that the slices of a thread nest. Each profiled step is a process as well.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from inferometer_api.results.result import ResultDocument
from inferometer_api.results.tracing import TracedQuery
from inferometer_results.export.lanes import fewest_lanes
from inferometer_results.export.profile_trace import profile_events
from inferometer_results.tracing import TracedStep, traced_steps

_MICROSECOND_NS = 1000


def chrome_trace(document: ResultDocument) -> str:
    """Return the JSON object of the Trace Event Format, with times in microseconds."""
    events: list[dict[str, Any]] = []
    for each in traced_steps(document):
        events += _events(each, first_process=1 + sum(e["ph"] == "M" for e in events))
    events += profile_events(document, first_process=1 + sum(e["ph"] == "M" for e in events))
    trace = {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "run": document.run.name,
            "runId": document.run_id,
            "inferometerVersion": document.inferometer_version,
        },
    }
    return orjson.dumps(trace, option=orjson.OPT_APPEND_NEWLINE).decode()


def _extent(query: TracedQuery) -> tuple[int, int]:
    """Return the begin and the end of all spans of a query, from the window's begin."""
    begin = min(span.start_nanoseconds for span in query.spans)
    end = max(span.start_nanoseconds + span.duration_nanoseconds for span in query.spans)
    return query.due_nanoseconds + begin, query.due_nanoseconds + end


def _events(each: TracedStep, first_process: int) -> Iterator[dict[str, Any]]:
    queries = each.tracing.queries
    services = list(dict.fromkeys(span.service for query in queries for span in query.spans))
    processes = {service: first_process + at for at, service in enumerate(services)}
    for service, process in processes.items():
        yield {
            "name": "process_name",
            "ph": "M",
            "pid": process,
            "tid": 0,
            "args": {"name": f"{each.name}: {service}"},
        }
    for query, lane in zip(queries, fewest_lanes([_extent(each) for each in queries]), strict=True):
        for span in query.spans:
            start_ns = query.due_nanoseconds + span.start_nanoseconds
            yield {
                "name": span.name,
                "cat": span.service,
                "ph": "X",
                "ts": start_ns / _MICROSECOND_NS,
                "dur": span.duration_nanoseconds / _MICROSECOND_NS,
                "pid": processes[span.service],
                "tid": lane + 1,
                "args": {"traceId": query.trace_id, "server": query.server},
            }
