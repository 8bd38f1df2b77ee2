"""The traced queries and profiled inferences of a result as an OpenTelemetry message (OTLP/JSON).

Traced queries have the time of day of their window. A result has none of a profiled inference: its
trace begins when its step began, and the times within are from the start of the inference.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from inferometer_api.results.result import KernelProfile, LayerProfile, ResultDocument
from inferometer_api.results.tracing import TracedQuery
from inferometer_api.timestamps import parse_time
from inferometer_results.export.profile_timeline import (
    ProfileTimeline,
    kernel_ends,
    profile_timelines,
)
from inferometer_results.tracing import TracedStep, traced_steps

SCHEMA_URL = "https://opentelemetry.io/schemas/1.37.0"
"""The version of OpenTelemetry's semantic conventions that the attributes follow."""
_INTERNAL, _SERVER, _CLIENT = 1, 2, 3
"""OTLP's SpanKind."""
_ERROR = 2
"""OTLP's StatusCode."""
_Value = str | int | Sequence[str | int]
_SERVICES = {
    "client": "inferometer-loadgen",
    "wire": "inferometer-loadgen",
    "server": "inferometer-serving",
}


def otlp_message(document: ResultDocument) -> bytes:
    """Return an ExportTraceServiceRequest with one resource for each service.

    Each traced query is a trace, and so is the last profiled inference of each step: a span
    `compute` with a span for each layer and, on a GPU, for each launch and execution of a kernel.
    On a GPU a layer lasts from its first launch until its last kernel ends.
    """
    by_service: dict[str, list[dict[str, Any]]] = {}
    for each in traced_steps(document):
        for query in each.tracing.queries:
            for service, span in _spans(each, query):
                by_service.setdefault(service, []).append(span)
    for timeline in profile_timelines(document):
        spans = _profile_spans(document, timeline)
        by_service.setdefault(_SERVICES["server"], []).extend(spans)
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


def _of_query(each: TracedStep, query: TracedQuery) -> dict[str, _Value]:
    host, _, port = query.server.partition("/")[0].rpartition(":")
    return {
        "server.address": host,
        "server.port": int(port) if port.isdecimal() else port,
        "inferometer.scenario.name": each.scenario.name,
        "inferometer.step.label": each.step.label,
        "error.type": "" if query.status == "ok" else query.status,
    }


def _span_id(query: TracedQuery, at: int) -> str:
    """Return an ID that is the same in each export, so that no collector stores a span twice."""
    return _id(f"{query.trace_id}/{query.span_id}/{at}", digits=16)


def _id(text: str, *, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _profile_spans(document: ResultDocument, timeline: ProfileTimeline) -> Iterator[dict[str, Any]]:
    """Yield the spans of one profiled inference; their IDs are the same in each export."""
    scenario, step = timeline.step.scenario, timeline.step.step
    name = f"{document.run_id}/{scenario.name}/{scenario.repeat}/{step.label}/{step.started_at}"
    trace_id = _id(name, digits=32)
    began = parse_time(step.started_at)
    origin_ns = 0 if began is None else round(began.timestamp() * 1e6) * 1000

    def span(
        key: str, parent: str, name: str, start_ns: int, end_ns: int, facts: Mapping[str, _Value]
    ) -> dict[str, Any]:
        found = {
            "traceId": trace_id,
            "spanId": _id(f"{trace_id}/{key}", digits=16),
            "name": name,
            "kind": _INTERNAL,
            "startTimeUnixNano": str(origin_ns + start_ns),
            "endTimeUnixNano": str(origin_ns + end_ns),
            "attributes": _attributes(facts),
        }
        if parent:
            found["parentSpanId"] = _id(f"{trace_id}/{parent}", digits=16)
        return found

    root = "compute"
    yield span(root, "", root, 0, timeline.duration_ns, _of_inference(document, timeline))
    around: dict[int, str] = {}
    for at, each in enumerate(timeline.layers):
        key, layer = f"layer {at}", each.layer
        parent = root if each.outer is None else f"layer {each.outer}"
        end_ns = max([each.end_ns, *(max(kernel_ends(kernel)) for kernel in each.kernels)])
        name = layer.name or layer.operator
        yield span(key, parent, name, each.start_ns, end_ns, _of_layer(layer))
        around |= dict.fromkeys((kernel.index for kernel in each.kernels), key)
    for kernel in timeline.step.profile.kernels:
        parent, facts = around.get(kernel.index, root), _of_kernel(kernel)
        launched_ns, ended_ns = kernel_ends(kernel)
        key, name = f"launch {kernel.index}", f"launch {kernel.name}"
        launch = span(key, parent, name, kernel.launch_start_nanoseconds, launched_ns, facts)
        yield launch
        key, start_ns = f"kernel {kernel.index}", kernel.start_nanoseconds
        link = {"traceId": trace_id, "spanId": launch["spanId"]}
        yield span(key, parent, kernel.name, start_ns, ended_ns, facts) | {"links": [link]}


def _of_inference(document: ResultDocument, timeline: ProfileTimeline) -> dict[str, _Value]:
    scenario, step, profile = timeline.step.scenario, timeline.step.step, timeline.step.profile
    facts: dict[str, _Value] = {
        "inferometer.scenario.name": scenario.name,
        "inferometer.scenario.repeat": scenario.repeat,
        "inferometer.step.label": step.label,
        "inferometer.batch.size": step.batch_size,
        "inferometer.profile.levels": profile.levels,
        "inferometer.gpu.name": "" if profile.gpu is None else profile.gpu.name,
    }
    if profile.kernels:
        placed = {each.layer.index for each in timeline.layers}
        facts["inferometer.profile.layers_without_launches"] = len(profile.layers) - len(placed)
    if document.environment is not None:
        facts["inferometer.model.name"] = document.environment.model.name
        settings = document.environment.server.settings
        facts |= {
            f"inferometer.engine.{name}": settings.get(setting, "")
            for name, setting in (
                ("name", "runtime"),
                ("version", "runtime_version"),
                ("precision", "precision"),
                ("providers", "providers"),
                ("threads", "threads"),
            )
        }
    return facts


def _of_layer(layer: LayerProfile) -> dict[str, _Value]:
    return {
        "inferometer.layer.index": layer.index,
        "inferometer.layer.operator": layer.operator,
        "inferometer.layer.kernel": layer.kernel,
        "inferometer.layer.provider": layer.provider,
        "inferometer.layer.datatype": layer.datatype,
        "inferometer.layer.shape": layer.shape,
    }


def _of_kernel(kernel: KernelProfile) -> dict[str, _Value]:
    return {
        "inferometer.kernel.index": kernel.index,
        "inferometer.kernel.kind": kernel.kind,
        "inferometer.kernel.stream": kernel.stream,
        "inferometer.kernel.grid": kernel.grid,
        "inferometer.kernel.block": kernel.block,
    }


def _attributes(facts: Mapping[str, _Value]) -> list[dict[str, Any]]:
    """Return the attributes that are not empty, as OTLP writes them in JSON."""
    return [
        {"key": key, "value": _value(value)}
        for key, value in facts.items()
        if isinstance(value, int) or value
    ]


def _value(value: _Value) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"arrayValue": {"values": [_value(each) for each in value]}}
