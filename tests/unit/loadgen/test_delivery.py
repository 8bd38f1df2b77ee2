"""A result is delivered whole, thinned, or not at all, and the report says which."""

from collections.abc import Sequence

import pytest

from inferometer_api.plan.load_report import LoadReport
from inferometer_api.plan.reports import (
    EnvironmentReport,
    FinalReport,
    ProgressReport,
    ScenarioReport,
)
from inferometer_api.results.result import NodeSample, NodeTelemetry, Outcome, ResultDocument, Step
from inferometer_api.results.result_transport import TooLargeError, decode_log
from inferometer_loadgen.pod.report_collector import ReportCollector
from inferometer_loadgen.pod.result_delivery import encode_result
from support.result_logs import document_bytes, result_log
from support.results import a_long_result, a_result, an_environment

REPORT = LoadReport(outcome=Outcome(state="Complete", reason="Measured"))


def _size(document: ResultDocument) -> int:
    return sum(len(line) + 1 for line in result_log(document))


def _document(lines: Sequence[str]) -> ResultDocument:
    return ResultDocument.model_validate_json(document_bytes(decode_log(lines)))


def test_a_document_that_fits_is_delivered_unchanged() -> None:
    """The decoded lines are the document, and the report has its checksum and size."""
    document = a_result()
    found = encode_result(document, REPORT)
    written = document_bytes(decode_log(found.lines))
    assert ResultDocument.model_validate_json(written) == document
    assert found.report.document_bytes == len(written)
    assert found.report.document_sha256 is not None
    assert found.report.document_missing_reason == ""
    assert found.report.outcome == REPORT.outcome


@pytest.mark.parametrize("share", [0.95, 0.4])
def test_series_are_thinned_if_a_document_is_too_large(share: float) -> None:
    """Entries that are kept stay exact, everything else is untouched, and a note says so."""
    document = a_long_result()
    limit = int(_size(document) * share)
    found = encode_result(document, REPORT, limit_bytes=limit)
    thinned = _document(found.lines)
    assert sum(len(line) + 1 for line in found.lines) <= limit
    (whole,), (step,) = document.scenarios[0].steps, thinned.scenarios[0].steps
    assert 0 < len(step.windows) < len(whole.windows)
    assert all(window in whole.windows for window in step.windows)
    assert all(sample in whole.usage for sample in step.usage)
    assert _bare(step) == _bare(whole)
    assert thinned.environment is not None
    assert "too large to be handed over" in thinned.environment.notes[-1]
    assert found.report.document_missing_reason == ""


def test_all_series_are_left_out_before_the_document_is() -> None:
    """If no thinning is enough, the figures alone are delivered."""
    document = a_long_result()
    bare = encode_result(document, REPORT, limit_bytes=1).report
    assert bare.document_sha256 is None
    steps = [_bare(step) for step in document.scenarios[0].steps]
    scenario = document.scenarios[0].model_copy(update={"steps": steps})
    limit = _size(document.model_copy(update={"scenarios": [scenario]})) + 200
    found = encode_result(document, REPORT, limit_bytes=limit)
    thinned = _document(found.lines)
    assert thinned.scenarios[0].steps[0].windows == []
    assert thinned.environment is not None
    assert "are left out" in thinned.environment.notes[-1]


def test_a_document_too_large_without_series_is_reported() -> None:
    """Without a document the report keeps everything else and says why in a sentence."""
    document = a_long_result()
    found = encode_result(document, REPORT, limit_bytes=100)
    with pytest.raises(TooLargeError) as caught:
        decode_log(found.lines)
    assert str(caught.value) == found.report.document_missing_reason
    assert found.report.document_sha256 is None
    assert found.report.document_bytes == len(document.model_dump_json(exclude_none=True))
    assert "at most 100 packed" in found.report.document_missing_reason
    assert found.report.outcome == REPORT.outcome


def test_telemetry_is_thinned_as_well() -> None:
    """A node's series is thinned like the others; its sums are unchanged."""
    samples = [NodeSample(at_milliseconds=1000 * second) for second in range(600)]
    node = NodeTelemetry(node="n", server_cpu_seconds=9.0, samples=samples)
    document = a_long_result()
    (scenario,) = document.scenarios
    steps = [step.model_copy(update={"telemetry": [node]}) for step in scenario.steps]
    scenario = scenario.model_copy(update={"steps": steps})
    document = document.model_copy(update={"scenarios": [scenario]})
    found = encode_result(document, REPORT, limit_bytes=int(_size(document) * 0.9))
    thinned = _document(found.lines)
    (thinned_node,) = thinned.scenarios[0].steps[0].telemetry
    assert thinned_node == node.model_copy(update={"samples": samples[::4]})


def _bare(step: Step) -> Step:
    nodes = [node.model_copy(update={"samples": []}) for node in step.telemetry]
    return step.model_copy(update={"windows": [], "usage": [], "telemetry": nodes})


def test_a_collector_logs_each_stage_once() -> None:
    """Progress within a stage is kept, and only a new stage is written to the log."""
    log: list[str] = []
    collector = ReportCollector(log.append)
    collector.progress(ProgressReport(stage="WaitingForServer"))
    collector.add(EnvironmentReport(environment=an_environment()))
    for queries in (1, 2, 3):
        collector.progress(
            ProgressReport(stage="Measuring", scenario="a", step="batch 8", queries=queries)
        )
    report = collector.load_report()
    assert report.progress is not None
    assert report.progress.queries == 3
    for scenario in a_result().scenarios[:2]:
        collector.add(ScenarioReport(scenario=scenario))
    ended = Outcome(state="Failed", reason="ServerLost", message="It was lost.")
    collector.add(FinalReport(outcome=ended))
    report = collector.load_report()
    assert (report.progress, report.outcome) == (None, ended)
    assert [summary.name for summary in report.scenarios] == ["latency", "traffic"]
    assert log == [
        "Waiting for the server.",
        "a (batch 8): measuring.",
        "latency is measured: VALID.",
        "traffic is measured: INVALID.",
        "Failed (ServerLost). It was lost.",
    ]
