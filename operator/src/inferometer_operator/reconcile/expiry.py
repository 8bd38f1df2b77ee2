"""The expiry of finished runs, read from the raw object: there may be thousands of them."""

from datetime import UTC, datetime

from pydantic import ValidationError

from inferometer_api.spec.run import Retention
from inferometer_api.timestamps import parse_time
from inferometer_operator.reconcile.ceilings import kept_seconds
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.store_state import awaits_store
from inferometer_operator.reconcile.times import add_seconds
from inferometer_operator.settings import Settings


def expires_at(run: Json, settings: Settings) -> datetime | None:
    """Return when a finished run is to be deleted, or None if something else is left to do."""
    if not is_finished(run) or awaits_store(run, settings):
        return None
    ended = parse_time((run.get("status") or {}).get("completionTime"))
    # Without the time a plan is due, which finds one.
    ended = ended or datetime.min.replace(tzinfo=UTC)
    ttl_seconds = read_retention(run).ttl_seconds_after_finished
    return add_seconds(ended, kept_seconds(ttl_seconds, settings))


def is_finished(run: Json) -> bool:
    """Return whether a raw run has the condition Finished."""
    conditions = (run.get("status") or {}).get("conditions") or ()
    return any(
        each.get("type") == "Finished" and each.get("status") == "True" for each in conditions
    )


def read_retention(run: Json) -> Retention:
    """Return the retention of a raw run; the default if its spec cannot be read."""
    spec = run.get("spec")
    try:
        return Retention.read(spec.get("retention") or {} if spec else {})
    except (ValidationError, AttributeError):
        return Retention()
