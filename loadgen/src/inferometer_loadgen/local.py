"""Execution outside a pod: reports on a descriptor, metrics and targets on a port."""

from dataclasses import dataclass

from aiohttp import web

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.reports import FinalReport, ListeningReport
from inferometer_api.results.result import Outcome
from inferometer_loadgen.reporting.control_requests import take_targets
from inferometer_loadgen.reporting.http_endpoint import (
    HttpEndpoint,
    Responder,
    metrics_response,
    text_response,
)
from inferometer_loadgen.reporting.report_writer import ReportWriter
from inferometer_loadgen.run.execution import PlanExecution


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """Where a local load generator serves its metrics, and takes the servers of further repeats."""

    host: str
    port: int


async def execute_locally(
    plan: LoadPlan, reports: ReportWriter, metrics_at: MetricsAddress | None
) -> FinalReport:
    """Execute a plan and return its last report, which the caller writes.

    Raises ReaderGoneError.
    """
    execution = PlanExecution(plan, reports)
    endpoint = HttpEndpoint(_responder(execution, plan.stop_token))
    if metrics_at is not None:
        try:
            port = await endpoint.listen(metrics_at.host, metrics_at.port)
        except OSError as error:
            message = f"The load generator cannot listen on port {metrics_at.port}: {error}."
            outcome = Outcome(state="Failed", reason="SystemError", message=message)
            return execution.final_report(outcome)
        reports.add(ListeningReport(metrics_port=port))
    try:
        return await execution.run()
    finally:
        await endpoint.close()


def _responder(execution: PlanExecution, token: str) -> Responder:
    async def respond(request: web.BaseRequest) -> web.Response:
        match (request.method, request.path):
            case ("GET", "/metrics"):
                return metrics_response(execution.live.text())
            case ("POST", "/targets"):
                return await take_targets(request, token, execution.deliver_targets)
            case _:
                message = "Not found. This port serves GET /metrics and POST /targets."
                return text_response(404, message)

    return respond
