"""Encoding of a result document for the pod's log, thinned if it is too large."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

from inferometer_api.plan.load_report import LoadReport, report_within
from inferometer_api.results.result import ResultDocument, Step
from inferometer_api.results.result_transport import (
    LOG_BYTES,
    REPORT_BYTES,
    TooLargeError,
    encode_for_log,
    join_document,
    omission_lines,
    split_document,
)
from inferometer_api.results.scenario_summary import scenario_summary

_STRIDES = (4, 16, 64)
"""Factors that a series is thinned by, tried in this order, before all entries are left out."""

_ADVICE = {
    True: "The exported result holds all of them.",
    False: "Set spec.retention.export to keep all of them.",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EncodedResult:
    """What the pod writes."""

    lines: Sequence[str]
    """The encoded document, or one line that says why it is left out."""
    report: LoadReport


def encode_result(
    document: ResultDocument,
    report: LoadReport,
    *,
    is_exported: bool = False,
    limit_bytes: int = LOG_BYTES,
) -> EncodedResult:
    """Encode a document, thin its series if it is too large, and add its checksum to `report`.

    If it is too large even without any series, `document_missing_reason` says so and the report
    keeps everything else.
    """
    size, fault = 0, ""
    summaries = [scenario_summary(each) for each in document.scenarios]
    summary = report_within(LoadReport(scenarios=summaries), REPORT_BYTES)
    for tried in _smaller_and_smaller(document, _ADVICE[is_exported]):
        head, body = split_document(tried)
        written = join_document(head, body)
        size = size or len(written)
        try:
            lines = encode_for_log(summary, head, body, limit_bytes=limit_bytes)
        except TooLargeError as error:
            fault = str(error)
            continue
        facts = {"document_sha256": sha256(written).hexdigest(), "document_bytes": len(written)}
        return EncodedResult(lines, report.model_copy(update=facts))
    undelivered = f"{fault} Its series of windows, usage and nodes are left out already."
    facts = {"document_bytes": size, "document_missing_reason": undelivered}
    return EncodedResult(omission_lines(undelivered), report.model_copy(update=facts))


def _smaller_and_smaller(document: ResultDocument, advice: str) -> Iterator[ResultDocument]:
    yield document
    for stride in _STRIDES:
        yield _thinned(
            document,
            stride,
            f"The result was too large to be handed over: of the series of windows, usage and "
            f"nodes one entry in {stride} is kept. {advice}",
        )
    yield _thinned(
        document,
        None,
        "The result was too large to be handed over: the series of windows, usage and nodes are "
        f"left out. {advice}",
    )


def _thinned(document: ResultDocument, stride: int | None, note: str) -> ResultDocument:
    """Keep one entry in `stride`, none if that is None; entries that are kept stay exact."""
    scenarios = []
    for scenario in document.scenarios:
        steps = [_thinned_step(step, stride) for step in scenario.steps]
        scenarios.append(scenario.model_copy(update={"steps": steps}))
    environment = document.environment
    if environment is not None:
        environment = environment.model_copy(update={"notes": [*environment.notes, note]})
    return document.model_copy(update={"scenarios": scenarios, "environment": environment})


def _thinned_step(step: Step, stride: int | None) -> Step:
    nodes = [
        node.model_copy(update={"samples": _every(node.samples, stride)}) for node in step.telemetry
    ]
    series = {"windows": _every(step.windows, stride), "usage": _every(step.usage, stride)}
    tracing = step.tracing
    if tracing is not None:
        queries = _every(tracing.queries[::-1], stride)[::-1]  # the slowest one is the last
        tracing = tracing.model_copy(update={"queries": queries})
    return step.model_copy(update={**series, "telemetry": nodes, "tracing": tracing})


def _every(series: Sequence[T], stride: int | None) -> list[T]:
    return [] if stride is None else list(series[::stride])
