"""The traced queries of a result as an OpenTelemetry message (OTLP in JSON)."""

import hashlib
from collections.abc import Iterator
from typing import Any

import orjson

from inferometer_api.results.result import ResultDocument
from inferometer_api.results.tracing import TracedQuery
from inferometer_results.tracing import TracedStep, traced_steps

SCHEMA_URL = "https://opentelemetry.io/schemas/1.37.0"
"""The version of OpenTelemetry's semantic conventions that the attributes follow."""
_INTERNAL, _SERVER, _CLIENT = 1, 2, 3
"""OTLP's SpanKind."""
_ERROR = 2
"""OTLP's StatusCode."""
_INTEGERS = {"server.port": "intValue"}
_SERVICES = {
    "client": "inferometer-loadgen",
    "wire": "inferometer-loadgen",
    "server": "inferometer-serving",
}


def otlp_message(document: ResultDocument) -> bytes:
    """Return an ExportTraceServiceRequest with one resource for each service."""
    by_service: dict[str, list[dict[str, Any]]] = {}
    for each in traced_steps(document):
        for query in each.tracing.queries:
            for service, span in _spans(each, query):
                by_service.setdefault(service, []).append(span)
    version = document.inferometer_version
    return orjson.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {
                        "attributes": _attributes(
                            {
                                "service.name": service,
                                "inferometer.run.name": document.run.name,
                                "inferometer.run.id": document.run_id,
                            }
                        )
                    },
                    "scopeSpans": [
                        {"scope": {"name": "inferometer", "version": version}, "spans": spans}
                    ],
                    "schemaUrl": SCHEMA_URL,
                }
                for service, spans in by_service.items()
            ]
        }
    )


def _spans(each: TracedStep, query: TracedQuery) -> Iterator[tuple[str, dict[str, Any]]]:
    due_ns = each.tracing.started_unix_microseconds * 1000 + query.due_nanoseconds
    ids = [query.span_id, *(_span_id(query, at) for at in range(1, len(query.spans)))]
    for at, span in enumerate(query.spans):
        start_ns = due_ns + span.start_nanoseconds
        found: dict[str, Any] = {
            "traceId": query.trace_id,
            "spanId": ids[at],
            "name": span.name,
            "kind": _INTERNAL,
            "startTimeUnixNano": str(start_ns),
            "endTimeUnixNano": str(start_ns + span.duration_nanoseconds),
        }
        if span.parent is not None and span.parent < len(ids):
            found["parentSpanId"] = ids[span.parent]
            if span.parent == 0 and span.service not in {"client", "wire"}:
                found["kind"] = _SERVER
        else:
            found["kind"] = _CLIENT
            found["attributes"] = _attributes(_of_query(each, query))
            if query.status != "ok":
                found["status"] = {"code": _ERROR, "message": query.status}
        yield _SERVICES.get(span.service, span.service), found


def _of_query(each: TracedStep, query: TracedQuery) -> dict[str, str]:
    host, _, port = query.server.partition("/")[0].rpartition(":")
    attributes = {
        "server.address": host,
        "server.port": port,
        "inferometer.scenario.name": each.scenario.name,
        "inferometer.step.label": each.step.label,
    }
    if query.status != "ok":
        attributes["error.type"] = query.status
    return {key: value for key, value in attributes.items() if value}


def _span_id(query: TracedQuery, at: int) -> str:
    """Return an ID that is the same in each export, so that no collector stores a span twice."""
    return hashlib.sha256(f"{query.trace_id}/{query.span_id}/{at}".encode()).hexdigest()[:16]


def _attributes(values: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {_INTEGERS.get(key, "stringValue"): value}}
        for key, value in values.items()
    ]
