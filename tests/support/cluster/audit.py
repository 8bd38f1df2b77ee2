"""Reads the API server's audit log."""

import json
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

_MINUTE_SECONDS = 60.0
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request that the API server has answered, or a watch that it has opened."""

    user: str
    verb: str
    group: str
    resource: str
    """With its subresource after a slash: `pods/log`."""
    namespace: str
    name: str
    code: int
    received: str
    """When it came, as RFC 3339 with microseconds."""

    @property
    def writes(self) -> bool:
        """Return whether the request would change something."""
        return self.verb in WRITES


def requests(log: Path, user: str | None = None, offset_bytes: int = 0) -> Iterator[Request]:
    """Yield each request for a resource once, of one user or of all, from this byte of the log on.

    A watch is logged when it opens, everything else when it is answered.
    """
    with log.open("rb") as lines:
        lines.seek(max(0, offset_bytes - 1))
        if offset_bytes:
            # The log may have ended within a line.
            lines.readline()
        for line in lines:
            if not line.endswith(b"\n"):
                return  # still being written
            if user is not None and user.encode() not in line:
                continue  # most lines are others': reading them as JSON would take seconds
            event = json.loads(line)
            who = event["user"].get("username", "")
            if (user is None or who == user) and "objectRef" in event and _counts(event):
                yield _request(event, who)


def most_in_a_minute(found: Iterable[Request], names: Container[str], *, writes: bool) -> int:
    """Return the most reads or writes of one object of these names within any minute."""
    times: dict[str, list[float]] = {}
    for each in found:
        if each.name in names and each.writes == writes and each.verb != "watch":
            times.setdefault(each.name, []).append(_seconds(each))
    return max((_most_within(sorted(each)) for each in times.values()), default=0)


def missed_renewals(found: Iterable[Request], renew_seconds: float) -> int:
    """Count renewals of a Lease that failed, or that came an interval late."""
    updates = [each for each in found if each.resource == "leases" and each.verb == "update"]
    renewed = [_seconds(each) for each in updates if each.code == 200]
    late = sum(int((after - before) / (2 * renew_seconds)) for before, after in pairwise(renewed))
    return late + len(updates) - len(renewed)


def _seconds(request: Request) -> float:
    return datetime.fromisoformat(request.received).timestamp()


def _most_within(times: list[float]) -> int:
    return max(
        sum(begin <= at < begin + _MINUTE_SECONDS for at in times[place:])
        for place, begin in enumerate(times)
    )


def _counts(event: dict[str, Any]) -> bool:
    stage = "ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"
    return bool(event["stage"] == stage)


def _request(event: dict[str, Any], user: str) -> Request:
    target = event["objectRef"]
    below = target.get("subresource")
    resource = target.get("resource", "")
    return Request(
        user=user,
        verb=event["verb"],
        group=target.get("apiGroup", ""),
        resource=f"{resource}/{below}" if below else resource,
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        received=event["requestReceivedTimestamp"],
    )
