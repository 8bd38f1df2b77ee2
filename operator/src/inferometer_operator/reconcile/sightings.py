"""Keeps since when facts about the objects of a run hold, on the operator's own clock.

Their own times are on the clocks of kubelets, controllers and API servers, which may differ from
the operator's by minutes, and may be set.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from inferometer_api.timestamps import parse_time
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.context import is_deleting
from inferometer_operator.reconcile.observed import Fact, Json, Sightings


def sight(
    known: Sightings | None, objects: Iterable[Json], now: datetime, *, unbacked: str = ""
) -> Sightings:
    """Return since when each fact holds: since it was first seen.

    `unbacked` is the UID of a run whose External Service leads to no pods of the namespace.

    `known` is None when an operator looks at a run for the first time. A creation or deletion has
    then happened at its own time: `now` is the API server's, which wrote it.
    """
    seen = {
        (str(each["metadata"].get("uid", "")), fact): _since(known, each, fact, now)
        for each in objects
        for fact in _facts(each)
    }
    if unbacked:
        seen[unbacked, "unbacked"] = (known or {}).get((unbacked, "unbacked"), now)
    return seen


def _facts(thing: Json) -> Iterator[Fact]:
    yield "created"
    if is_deleting(thing):
        yield "deleting"
    if pods.node(thing):
        yield "bound"
    if pods.is_silent(thing):
        yield "silent"
    if "terminated" in (pods.main_container(thing).get("state") or {}):
        yield "ended"


def _since(known: Sightings | None, thing: Json, fact: Fact, now: datetime) -> datetime:
    metadata = thing["metadata"]
    if known is not None:
        return known.get((str(metadata.get("uid", "")), fact), now)
    match fact:
        case "created":
            written = parse_time(metadata.get("creationTimestamp"))
        case "deleting":
            # It is the time by which the object should be gone.
            gone_by = parse_time(metadata.get("deletionTimestamp"))
            grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
            written = None if gone_by is None else gone_by - grace
        case _:
            written = None
    return now if written is None else min(written, now)
