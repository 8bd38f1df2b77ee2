"""State of a result in the results service: delivered, retried, or not to be delivered."""

from dataclasses import replace
from datetime import datetime

from inferometer_api.plan.deadlines import UNSTORED_SECONDS
from inferometer_api.results.service_paths import result_page
from inferometer_api.status.condition_reasons import REASONS
from inferometer_api.status.run_status import ConditionType, ResultReference, StoredResult
from inferometer_api.timestamps import format_time
from inferometer_operator.reconcile.conditions import ConditionUpdate, StatusDraft
from inferometer_operator.reconcile.context import ReconcileContext
from inferometer_operator.reconcile.observed import Delivery, Json
from inferometer_operator.reconcile.plan import DeletionTarget, Plan
from inferometer_operator.reconcile.times import add_seconds, seconds_until
from inferometer_operator.settings import Settings

_NAMING: tuple[ConditionType, ...] = ("Complete", "Finished")
"""Conditions whose messages say where the result is."""


def awaits_store(run: Json, settings: Settings) -> bool:
    """Return whether the result of a raw run lies in ConfigMaps until the service has it."""
    result = (run.get("status") or {}).get("result") or {}
    return settings.results is not None and bool(result.get("configMaps"))


def kept_until(run: Json, settings: Settings, due: datetime) -> datetime:
    """Return when a run whose TTL is over at `due` is deleted."""
    return add_seconds(due, UNSTORED_SECONDS) if awaits_store(run, settings) else due


def places(kept: ResultReference) -> str:
    """Return where a result is, as sentences."""
    named = f" The result is in {', '.join(kept.config_maps)}." if kept.config_maps else ""
    if kept.stored is not None:
        named = f" {kept.stored.url} shows the result."
    exported = kept.exported
    return named if exported is None else f"{named} The result is exported to {exported.uri}."


def first_delivery(context: ReconcileContext) -> Plan | None:
    """Return the plan that delivers a result before the children of its run are deleted.

    None if there is nothing to deliver, or it was tried: what the service has not taken is
    delivered later from the ConfigMaps.
    """
    if not _is_due(context):
        return None
    if context.observed.delivery is None:
        return Plan(context.status, deliver=True)
    return None


def with_delivery(context: ReconcileContext, plan: Plan) -> Plan:
    """Return the plan of a run that has ended, which also delivers its result when that is due."""
    if not _is_due(context):
        return plan
    delivery = context.observed.delivery
    if delivery is None:
        return replace(plan, status=context.status, deliver=True)
    if delivery.stored_id:
        targets = _report_stored(context.draft, context.settings, delivery)
        return replace(plan, status=context.status, delete=(*plan.delete, *targets))
    _report_fault(context.draft, delivery)
    retry_at = delivery.retry_at or context.now
    look = seconds_until(context.now, retry_at)
    looks = [each for each in (plan.look_again_seconds, look) if each is not None]
    return replace(
        plan,
        status=context.status,
        deliver=context.now >= retry_at,
        look_again_seconds=min(looks, default=None),
    )


def _is_due(context: ReconcileContext) -> bool:
    result = context.status.result
    return context.settings.results is not None and result is not None and bool(result.config_maps)


def _report_stored(
    draft: StatusDraft, settings: Settings, delivery: Delivery
) -> tuple[DeletionTarget, ...]:
    """Report that the service has the result; return the ConfigMaps to delete.

    Whatever of them a crash leaves goes with the run, which owns them.
    """
    before, service = draft.status.result, settings.results
    if before is None or service is None:
        return ()
    url = f"{service.web_url.rstrip('/')}{result_page(delivery.stored_id)}"
    stored = StoredResult(id=delivery.stored_id, url=url)
    after = before.model_copy(update={"config_maps": [], "stored": stored})
    draft.update(result=after)
    for kind in _NAMING:
        found = draft.find(kind)
        if found is not None and places(before) in found.message:
            message = found.message.replace(places(before), places(after))
            _reword(draft, kind, message)
    message = f"{url} shows the result, which the results service keeps."
    draft.set_conditions(ConditionUpdate("Stored", "True", "Stored", message))
    return tuple(DeletionTarget("ConfigMap", name, uid) for name, uid in delivery.config_maps)


def _reword(draft: StatusDraft, kind: ConditionType, message: str) -> None:
    conditions = [
        each.model_copy(update={"message": message}) if each.type == kind else each
        for each in draft.status.conditions
    ]
    draft.update(conditions=conditions)


def _report_fault(draft: StatusDraft, delivery: Delivery) -> None:
    again = "" if delivery.retry_at is None else f" Retried at {format_time(delivery.retry_at)}."
    message = f"{delivery.fault}{again} {REASONS[delivery.reason].remedy}"
    draft.set_conditions(ConditionUpdate("Stored", "False", delivery.reason, message))
