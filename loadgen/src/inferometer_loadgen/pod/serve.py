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
from inferometer_api.plan.reports import Ended
from inferometer_api.results.result import Outcome, ResultDocument
from inferometer_loadgen.pod.delivery import delivery
from inferometer_loadgen.pod.ledger import Ledger
from inferometer_loadgen.pod.listener import Desk
from inferometer_loadgen.reporting.answering import Answering
from inferometer_loadgen.run.execution import TERMINATED, Execution


@dataclass(frozen=True, slots=True)
class Handover:
    """Where a load generator answers and what takes its result."""

    host: str | None
    """The address it listens at; None: every one."""
    port: int
    result: int
    """The file descriptor that takes the packed document: the pod's log."""
    termination_log: Path


async def carry_out_in_pod(plan: LoadPlan | Outcome, handover: Handover) -> Outcome:
    """Carry a plan out, answering who asks; hand over what was found and return how it ended.

    An outcome instead of a plan is handed over as it is: there is no run to make a document of.
    """
    ledger = Ledger(_log)
    if isinstance(plan, Outcome):
        ledger.tell(Ended(outcome=plan))
        _leave(ledger.report(), handover.termination_log)
        return plan
    started_at = _now()
    execution = Execution(plan, ledger)
    desk = Desk(
        report=ledger.report,
        metrics=execution.live.text,
        stop=lambda: execution.stop(TERMINATED),
        stop_token=plan.stop_token,
    )
    answering = Answering(desk.answer)
    try:
        port = await answering.listen(handover.host, handover.port)
        _log(f"Answers GET /progress, GET /metrics and POST /stop on port {port}.")
        outcome = await execution.run()
    except OSError as error:
        message = f"The load generator cannot listen on port {handover.port}: {error}."
        outcome = Outcome(state="Failed", reason="SystemError", message=message)
    try:
        ledger.tell(Ended(outcome=outcome))
        document = _document(plan, ledger, outcome, started_at, execution.first_query_at)
        _hand_over(document, ledger.report(), handover)
    finally:
        await answering.close()
    return outcome


def _document(
    plan: LoadPlan,
    ledger: Ledger,
    outcome: Outcome,
    started_at: str,
    first_query_at: str | None,
) -> ResultDocument:
    return ResultDocument(
        api_version="inferometer.dev/v1alpha1",
        kind="BenchmarkResult",
        schema_version=1,
        run_id=plan.run_id or str(uuid4()),
        inferometer_version=version("inferometer"),
        started_at=started_at,
        finished_at=_now(),
        first_query_at=first_query_at,
        outcome=outcome,
        run=plan.run,
        environment=ledger.environment,
        scenarios=ledger.scenarios,
        repeated=ledger.repeated,
    )


def _hand_over(document: ResultDocument, report: LoadReport, handover: Handover) -> None:
    """Write the document to the log, then the summary, which says whether it is there."""
    found = delivery(document, report)
    told = found.report
    if told.undelivered:
        _log(told.undelivered)
    try:
        _write_lines(handover.result, found.lines)
    except OSError as error:
        undelivered = f"The result could not be written to the log: {error.strerror}."
        told = told.model_copy(update={"undelivered": undelivered, "document_sha256": None})
        _log(undelivered)
    _leave(told, handover.termination_log)


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
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
