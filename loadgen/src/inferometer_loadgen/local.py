"""Execution outside a pod: reports on a descriptor, metrics on a port."""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.reports import FinalReport, ListeningReport
from inferometer_api.results.result import Outcome
from inferometer_loadgen.reporting.http_endpoint import (
    HttpEndpoint,
    metrics_response,
    text_response,
)
from inferometer_loadgen.reporting.report_writer import ReportWriter
from inferometer_loadgen.run.execution import PlanExecution


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """Where a local load generator serves its metrics."""

    host: str
    port: int


async def execute_locally(
    plan: LoadPlan, reports: ReportWriter, metrics_at: MetricsAddress | None
) -> FinalReport:
    """Execute a plan and return its last report, which the caller writes.

    Raises ReaderGoneError.
    """
    execution = PlanExecution(plan, reports)
    endpoint = HttpEndpoint(_metrics_only(execution.live.text))
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


def _metrics_only(metrics: Callable[[], bytes]) -> Callable[[web.BaseRequest], web.Response]:
    def respond(request: web.BaseRequest) -> web.Response:
        if (request.method, request.path) == ("GET", "/metrics"):
            return metrics_response(metrics())
        return text_response(404, "Not found. This port serves GET /metrics.")

    return respond
