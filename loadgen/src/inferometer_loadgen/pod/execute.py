"""In which order does a load generator in a pod listen, measure and hand over?"""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.load_report import LoadReport, report_within
from inferometer_api.plan.reports import FinalReport
from inferometer_api.results.result import SCHEMA_VERSION, Outcome, ResultDocument
from inferometer_api.timestamps import format_time
from inferometer_loadgen.pod.control_endpoint import ControlEndpoint
from inferometer_loadgen.pod.report_collector import ReportCollector
from inferometer_loadgen.pod.result_delivery import delivery
from inferometer_loadgen.reporting.http_endpoint import HttpEndpoint
from inferometer_loadgen.run.execution import TERMINATED, PlanExecution


@dataclass(frozen=True, slots=True)
class PodOutputs:
    """Where a load generator answers and what takes its result."""

    host: str | None
    """The address it listens at; None: every one."""
    port: int
    result: int
    """The file descriptor that takes the packed document: the pod's log."""
    termination_log: Path


async def execute_in_pod(plan: LoadPlan | Outcome, outputs: PodOutputs) -> Outcome:
    """Carry a plan out, answering who asks; hand over what was found and return how it ended.

    An outcome instead of a plan is handed over as it is: there is no run to make a document of.
    """
    collector = ReportCollector(_log)
    if isinstance(plan, Outcome):
        collector.tell(FinalReport(outcome=plan))
        _leave(collector.report(), outputs.termination_log)
        return plan
    started_at = _now()
    execution = PlanExecution(plan, collector)
    control = ControlEndpoint(
        report=collector.report,
        metrics=execution.live.text,
        stop=lambda: execution.stop(TERMINATED),
        stop_token=plan.stop_token,
    )
    answering = HttpEndpoint(control.answer)
    try:
        port = await answering.listen(outputs.host, outputs.port)
        _log(f"Answers GET /progress, GET /metrics and POST /stop on port {port}.")
        outcome = await execution.run()
    except OSError as error:
        message = f"The load generator cannot listen on port {outputs.port}: {error}."
        outcome = Outcome(state="Failed", reason="SystemError", message=message)
    try:
        collector.tell(FinalReport(outcome=outcome))
        document = _document(plan, collector, outcome, started_at, execution.first_query_at)
        _hand_over(document, collector.report(), outputs)
    finally:
        await answering.close()
    return outcome


def _document(
    plan: LoadPlan,
    collector: ReportCollector,
    outcome: Outcome,
    started_at: str,
    first_query_at: str | None,
) -> ResultDocument:
    return ResultDocument(
        api_version="inferometer.dev/v1alpha1",
        kind="BenchmarkResult",
        schema_version=SCHEMA_VERSION,
        run_id=plan.run_id or str(uuid4()),
        inferometer_version=version("inferometer"),
        started_at=started_at,
        finished_at=_now(),
        first_query_at=first_query_at,
        outcome=outcome,
        run=plan.run,
        environment=collector.environment,
        scenarios=collector.scenarios,
        repeat_summaries=collector.repeated,
    )


def _hand_over(document: ResultDocument, report: LoadReport, outputs: PodOutputs) -> None:
    """Write the document to the log, then the summary, which says whether it is there."""
    found = delivery(document, report)
    told = found.report
    if told.document_missing_reason:
        _log(told.document_missing_reason)
    try:
        _write_lines(outputs.result, found.lines)
    except OSError as error:
        undelivered = f"The result could not be written to the log: {error.strerror}."
        told = told.model_copy(
            update={"document_missing_reason": undelivered, "document_sha256": None}
        )
        _log(undelivered)
    _leave(told, outputs.termination_log)


def _write_lines(descriptor: int, lines: Iterable[str]) -> None:
    for line in lines:
        rest = f"{line}\n".encode()
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _leave(report: LoadReport, termination_log: Path) -> None:
    """Write the termination message, where there is a file for it: kubelets make one."""
    try:
        with termination_log.open("r+b") as file:
            file.truncate()
            file.write(report_within(report))
    except OSError as error:
        _log(f"The summary could not be written to {termination_log}: {error.strerror}.")


def _log(sentence: str) -> None:
    at = datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
    sys.stderr.write(f"{at} {sentence}\n")
    sys.stderr.flush()


def _now() -> str:
    return format_time(datetime.now(UTC))
