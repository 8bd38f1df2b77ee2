"""Results with traced queries."""

from typing import Any

from inferometer_api.results.result import ResultDocument
from inferometer_api.results.tracing import (
    UNATTRIBUTED,
    StepTracing,
    TracedPart,
    TracedQuery,
    TracedSpan,
)
from support.results import a_result

MS = 1_000_000


def a_query(number: int, due_ms: int, latency_ms: int) -> TracedQuery:
    """Return a query whose server takes all but 2 ms of it."""
    server_ms = latency_ms - 2

    def span(name: str, service: str, parent: int | None, start_ms: int, ms: int) -> TracedSpan:
        return TracedSpan(
            name=name,
            service=service,
            parent=parent,
            start_nanoseconds=start_ms * MS,
            duration_nanoseconds=ms * MS,
        )

    return TracedQuery(
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        due_nanoseconds=due_ms * MS,
        latency_nanoseconds=latency_ms * MS,
        unattributed_nanoseconds=MS,
        server="127.0.0.1:8000",
        spans=[
            span("query", "client", None, 0, latency_ms),
            span("send", "client", 0, 0, 1),
            span("inference", "server", 0, 1, server_ms),
            span("compute", "server", 2, 1, server_ms - 1),
        ],
    )


def a_tracing(**changes: Any) -> StepTracing:
    """Return a step in whose slow queries the queue grows."""

    def part(name: str, service: str, usual_ms: int, slow_ms: int) -> TracedPart:
        return TracedPart(
            name=name,
            service=service,
            median_nanoseconds=usual_ms * MS,
            slowest_nanoseconds=slow_ms * MS,
        )

    fields: dict[str, Any] = {
        "sample_every": 100,
        "started_unix_microseconds": 1_700_000_000 * MS,
        "sampled": 3,
        "joined": 3,
        "median_latency_nanoseconds": 10 * MS,
        "slowest_latency_nanoseconds": 50 * MS,
        "median_unattributed_nanoseconds": MS,
        "parts": [
            part("queue", "server", 1, 37),
            part("compute", "server", 8, 12),
            part(UNATTRIBUTED, "", 1, 1),
        ],
        "queries": [a_query(1, 0, 10), a_query(2, 5, 50), a_query(3, 60, 20)],
    }
    return StepTracing.model_validate(fields | changes)


def a_traced_result(**changes: Any) -> ResultDocument:
    """Return a result whose first step is traced."""
    document = a_result()
    scenario = document.scenarios[0]
    step = scenario.steps[0].model_copy(update={"tracing": a_tracing(**changes)})
    scenario = scenario.model_copy(update={"steps": [step]})
    return document.model_copy(update={"scenarios": [scenario, *document.scenarios[1:]]})
