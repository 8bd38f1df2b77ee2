"""Execution in a pod: answers HTTP requests, then writes result and summary."""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.load_report import LoadReport, report_within
from inferometer_api.plan.reports import FinalReport
from inferometer_api.results.result import Outcome, ResultDocument
from inferometer_loadgen.pod.control_endpoint import ControlEndpoint
from inferometer_loadgen.pod.report_collector import ReportCollector
from inferometer_loadgen.pod.result_delivery import encode_result
from inferometer_loadgen.pod.result_folder import write_result_folder
from inferometer_loadgen.reporting.http_endpoint import HttpEndpoint
from inferometer_loadgen.run.execution import TERMINATED, PlanExecution


@dataclass(frozen=True, slots=True)
class PodOutputs:
    """Where a load generator in a pod listens, and where it writes its result."""

    host: str | None
    """The address to listen at; None: every address."""
    port: int
    log_descriptor: int
    """The file descriptor of the pod's log, which takes the encoded document."""
    termination_log: Path
    results: Path | None = None
    """The folder that an exporter copies; None: the result is not exported."""


async def execute_in_pod(plan: LoadPlan | Outcome, outputs: PodOutputs) -> Outcome:
    """Execute a plan, answer requests meanwhile, write the result, and return the outcome.

    An outcome instead of a plan is written as the summary: there is no run and no document.
    """
    collector = ReportCollector(_log)
    if isinstance(plan, Outcome):
        collector.add(FinalReport(outcome=plan))
        _write_summary(collector.load_report(), outputs.termination_log)
        return plan
    execution = PlanExecution(plan, collector)
    control = ControlEndpoint(
        report=collector.load_report,
        metrics=execution.live.text,
        stop=lambda: execution.stop(TERMINATED),
        deliver_targets=execution.deliver_targets,
        stop_token=plan.stop_token,
    )
    endpoint = HttpEndpoint(control.respond)
    try:
        port = await endpoint.listen(outputs.host, outputs.port)
        _log(f"Answers GET /progress, GET /metrics, POST /stop and POST /targets on port {port}.")
        final = await execution.run()
    except OSError as error:
        message = f"The load generator cannot listen on port {outputs.port}: {error}."
        final = execution.final_report(
            Outcome(state="Failed", reason="SystemError", message=message)
        )
    try:
        collector.add(final)
        if final.document is not None:
            _write_result(final.document, collector.load_report(), outputs)
    finally:
        await endpoint.close()
    return final.outcome


def _write_result(document: ResultDocument, report: LoadReport, outputs: PodOutputs) -> None:
    """Write the document to the log, then the summary, which says whether the log holds it.

    The result folder gets the whole document, however large it is.
    """
    encoded = encode_result(document, report, is_exported=outputs.results is not None)
    summary = encoded.report
    if summary.document_missing_reason:
        _log(summary.document_missing_reason)
    try:
        _write_lines(outputs.log_descriptor, encoded.lines)
    except OSError as error:
        reason = f"The result could not be written to the log: {error.strerror}."
        summary = summary.model_copy(
            update={"document_missing_reason": reason, "document_sha256": None}
        )
        _log(reason)
    _write_summary(summary, outputs.termination_log)
    if outputs.results is not None:
        try:
            write_result_folder(document, outputs.results)
        except OSError as error:
            _log(f"The result could not be written to {outputs.results}: {error.strerror}.")


def _write_lines(descriptor: int, lines: Iterable[str]) -> None:
    for line in lines:
        rest = f"{line}\n".encode()
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _write_summary(report: LoadReport, termination_log: Path) -> None:
    """Write the termination message to the file that the kubelet provides."""
    try:
        with termination_log.open("r+b") as file:
            file.truncate()
            file.write(report_within(report))
    except OSError as error:
        _log(f"The summary could not be written to {termination_log}: {error.strerror}.")


def _log(line: str) -> None:
    at = datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
    sys.stderr.write(f"{at} {line}\n")
    sys.stderr.flush()
