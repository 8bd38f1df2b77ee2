"""State of an ended load generator's result: downloaded, completed, kept or lost."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from inferometer_api.plan.cluster_objects import result_name
from inferometer_api.plan.deadlines import RESULT_SECONDS
from inferometer_api.results.result import Outcome
from inferometer_api.status.condition_reasons import REASONS, ReasonName
from inferometer_api.status.run_status import ResultReference, RunStatus, ScenarioSummary
from inferometer_api.timestamps import format_time
from inferometer_operator.manifests.config_maps import result_config_map
from inferometer_operator.manifests.owner import DIGEST_ANNOTATION, PARTS_ANNOTATION, Manifest
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.child_faults import child_fault
from inferometer_operator.reconcile.conditions import ConditionUpdate, find_condition
from inferometer_operator.reconcile.context import ReconcileContext, controller_of, is_deleting
from inferometer_operator.reconcile.export_state import ExportState, export_state
from inferometer_operator.reconcile.load_state import LoadState
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.plan import DeletionTarget, Plan
from inferometer_operator.reconcile.pods import server_pods
from inferometer_operator.reconcile.result_packer import PackedResult, ResultAdditions
from inferometer_operator.reconcile.times import add_seconds

_SOON_SECONDS = 0.2
"""No watch reports ConfigMaps that were created or deleted."""
_RETRIED_SECONDS = 10.0
"""The edges decide when to retry what was refused or could not be read."""
_LOST: frozenset[str] = frozenset(
    {"ResultIncomplete", "ResultTooLarge", "ResultLost", "ResultNotKept", "ExportFailed"}
)
"""Reasons of a result that was given up, or that is kept but not exported."""


@dataclass(frozen=True, slots=True)
class ResultState:
    """State of the result."""

    done: bool = True
    """Whether it is kept or given up, and exported or its export given up."""
    waits: str = ""
    """Why it is not yet, if not only for a moment."""
    download: str | None = None
    create: tuple[Manifest, ...] = ()
    delete: tuple[DeletionTarget, ...] = ()
    look_again_seconds: float | None = None
    reference: ResultReference | None = None
    scenarios: tuple[ScenarioSummary, ...] | None = None
    """The measured scenarios, if the document is there."""
    lost: ReasonName | None = None
    message: str = ""
    """Why the document is not kept, or not exported."""

    def plan(self, context: ReconcileContext) -> Plan:
        """Return what to do next, if it is not done."""
        if self.waits:
            until = format_time(_until(context))
            message = f"{self.waits} Retried until {until}. {REASONS['ResultPending'].remedy}"
            if self.reference is not None:
                context.draft.update(result=self.reference)
            context.draft.set_conditions(
                ConditionUpdate("Finished", "False", "ResultPending", message)
            )
        return Plan(
            context.status,
            create=self.create,
            delete=self.delete,
            download=self.download,
            look_again_seconds=self.look_again_seconds,
        )


def is_awaited(status: RunStatus) -> bool:
    """Return whether a result could not be read or kept at once, and still may be."""
    finished = find_condition(status, "Finished")
    return finished is not None and finished.reason == "ResultPending"


def is_collected(status: RunStatus) -> bool:
    """Return whether the document of an ended load generator is kept or given up."""
    return status.result is not None or _is_given_up(status)


def is_settled(context: ReconcileContext) -> bool:
    """Return whether the result is kept or given up, and exported or its export given up."""
    result = context.status.result
    is_there = result is not None and (
        context.run.spec.retention.export is None or result.exported is not None
    )
    return is_there or _is_given_up(context.status)


def _is_given_up(status: RunStatus) -> bool:
    named = (find_condition(status, "Complete"), find_condition(status, "Finished"))
    return any(each is not None and each.reason in _LOST for each in named)


def result_state(context: ReconcileContext, load: LoadState, outcome: Outcome) -> ResultState:
    """Return the state of a load generator's result, and what to do to keep and export it.

    `outcome` is how the run ended; it goes into the document. Faults are retried as long as the
    pod exists, until an hour after the run's deadline.
    """
    kept = _kept_state(context, load, outcome)
    export = export_state(context, load, _until(context))
    if export is None or (kept.lost is not None and not _has_document(context)):
        return kept
    if not kept.done and not kept.waits:
        return kept
    return _with_export(kept, export)


def _with_export(kept: ResultState, export: ExportState) -> ResultState:
    """Return the state of a result that is exported too: one copy is enough to go on."""
    if export.exported is not None:
        reference = kept.reference or ResultReference()
        reference = reference.model_copy(update={"exported": export.exported})
        return ResultState(reference=reference, scenarios=kept.scenarios)
    if kept.waits:
        return kept
    if not export.is_over:
        return ResultState(
            done=False,
            waits=export.message,
            look_again_seconds=_RETRIED_SECONDS,
            reference=kept.reference,
            scenarios=kept.scenarios,
        )
    if kept.lost is not None:
        return replace(kept, message=f"{kept.message} {export.message}")
    return replace(kept, lost="ExportFailed", message=export.message)


def _has_document(context: ReconcileContext) -> bool:
    """Return whether the load generator reported a document: a crashed one has none."""
    report = context.observed.report
    return report is not None and report.document_bytes > 0


def _kept_state(context: ReconcileContext, load: LoadState, outcome: Outcome) -> ResultState:
    if context.status.result is not None:
        # Kept before, and not exported yet.
        return ResultState(reference=context.status.result)
    collected = context.observed.downloaded
    if load.stage != "over":
        found = "The load generator's pod is gone, and its log with it."
        return ResultState(lost="ResultLost", message=found)
    if collected is None:
        return ResultState(done=False, download=load.pod_name, look_again_seconds=_RETRIED_SECONDS)
    if collected.result is not None:
        added = _added(context, load, outcome)
        return _keeping(context, load, collected.packing.pack(collected.result, added))
    if collected.passing and context.now < _until(context):
        unread = collected.reason == "ResultLost"
        return ResultState(
            done=False,
            waits=f"The result cannot be read yet: {collected.fault}" if unread else "",
            download=load.pod_name,
            look_again_seconds=_RETRIED_SECONDS,
        )
    report = context.observed.report
    # The load generator itself has the best explanation.
    words = "" if report is None else report.document_missing_reason
    return ResultState(lost=collected.reason, message=words or collected.fault)


def _keeping(context: ReconcileContext, load: LoadState, packed: PackedResult) -> ResultState:
    """Return what is to be done for a document to be kept."""
    owner, count = context.owner, packed.part_count
    names = [result_name(owner.name, owner.uid, index) for index in range(count)]
    held = {name: each for name, each in _own_result_maps(context).items() if not is_deleting(each)}
    if stale := _stale(packed, names, held):
        targets = tuple(
            DeletionTarget("ConfigMap", name, str(held[name]["metadata"]["uid"])) for name in stale
        )
        return ResultState(done=False, delete=targets, look_again_seconds=_SOON_SECONDS)
    first = next((index for index, name in enumerate(names) if name not in held), None)
    if first is None:
        reference = ResultReference(
            config_maps=names, sha256=packed.sha256, bytes=packed.size_bytes
        )
        return ResultState(reference=reference, scenarios=packed.scenarios)
    # One after another: all of a large result at once would double its memory.
    part = packed.part(first)
    create = (result_config_map(part, owner, index=first, count=count, sha256=packed.sha256),)
    refused = next(
        (each for each in context.observed.refused.items() if each[0].split("/")[1] in names), None
    )
    if refused is None:
        return ResultState(done=False, create=create, look_again_seconds=_SOON_SECONDS)
    found = child_fault(context, *refused, " with the result")
    if context.now >= _until(context):
        lost: ReasonName = "ResultNotKept"
        return ResultState(lost=lost, message=found.message, scenarios=packed.scenarios)
    return ResultState(
        done=False,
        waits=f"The result cannot be kept yet: {found.message}",
        create=create,
        download=load.pod_name,
        look_again_seconds=_RETRIED_SECONDS,
    )


def _until(context: ReconcileContext) -> datetime:
    return add_seconds(context.deadline, RESULT_SECONDS)


def _own_result_maps(context: ReconcileContext) -> dict[str, Json]:
    """Return the ConfigMaps of the run's result, by name."""
    return {
        str(each["metadata"]["name"]): each
        for each in context.observed.result_maps
        if controller_of(each).get("uid") == context.uid
    }


def _added(context: ReconcileContext, load: LoadState, outcome: Outcome) -> ResultAdditions:
    """Return what the operator alone knows of a result."""
    server = next(iter(sorted(server_pods(context), key=pods.name)), None)
    found = {"server": server, "loadgen": load.pod}
    images = {name: pods.image_digest(pod) for name, pod in found.items() if pod is not None}
    return ResultAdditions(
        outcome,
        tuple((name, digest) for name, digest in images.items() if digest),
        None if server is None else _fetched_sha256(server),
    )


def _fetched_sha256(server: Json) -> str | None:
    """Return the checksum that the init container of a server reported, or None."""
    for container, is_init in pods.containers(server):
        end = pods.last_end(container)
        if is_init and end is not None and end.code == 0:
            try:
                checksum = json.loads(end.message)["sha256"]
            except (ValueError, TypeError, KeyError):
                continue
            return checksum if isinstance(checksum, str) and len(checksum) == 64 else None
    return None


def _stale(packed: PackedResult, names: list[str], held: Mapping[str, Json]) -> list[str]:
    """Return parts of an earlier attempt: a mixture would not be a document."""
    wanted = {PARTS_ANNOTATION: str(len(names)), DIGEST_ANNOTATION: packed.sha256}
    return [
        name
        for name, found in held.items()
        if name not in names
        or not wanted.items() <= (found["metadata"].get("annotations") or {}).items()
    ]
