"""State of the export of an ended load generator's result, as its exporter reports it."""

from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from inferometer_api.plan.cluster_objects import EXPORTER
from inferometer_api.plan.exporting import ExportReport, export_folder
from inferometer_api.plan.result_folder import DOCUMENT_FILE
from inferometer_api.status.run_status import ExportedResult
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.context import ReconcileContext
from inferometer_operator.reconcile.load_state import LoadState


@dataclass(frozen=True, slots=True)
class ExportState:
    """State of the export."""

    is_over: bool
    """Whether the exporter has ended, or is given up."""
    message: str = ""
    """Why the result is not exported."""
    exported: ExportedResult | None = None


def export_state(context: ReconcileContext, load: LoadState, until: datetime) -> ExportState | None:
    """Return the state of the export of an ended load generator, None if the run has none.

    The exporter retries by itself, until the operator gives it up at `until`.
    """
    export = context.run.spec.retention.export
    if export is None:
        return None
    folder = export_folder(export.uri, context.name, context.uid)
    unexported = f"The result is not exported to {folder}"
    if load.stage != "over" or load.pod is None:
        return ExportState(is_over=True, message=f"{unexported}: the load pod is gone.")
    exporter = pods.exporter_container(load.pod)
    end = pods.last_end(exporter)
    if end is None:
        waiting = (exporter.get("state") or {}).get("waiting") or {}
        why = f": its exporter waits ({waiting.get('reason')})" if waiting else ""
        look = f"kubectl logs {load.pod_name} -n {context.namespace} -c {EXPORTER}"
        message = f"{unexported} yet{why}. See `{look}`."
        return ExportState(is_over=context.now >= until, message=message)
    report = _report(end)
    if end.code == 0 and report.sha256 is not None:
        uri = f"{folder}/{DOCUMENT_FILE}"
        exported = ExportedResult(uri=uri, sha256=report.sha256, bytes=report.bytes)
        return ExportState(is_over=True, exported=exported)
    why = report.error or f"its exporter ended with code {end.code} ({end.reason})."
    return ExportState(is_over=True, message=f"{unexported}: {why}")


def _report(end: pods.ContainerExit) -> ExportReport:
    try:
        return ExportReport.read_json(end.message)
    except ValidationError:
        return ExportReport()
