"""Reads the API server's audit log."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        lines.seek(offset_bytes)
        for line in lines:
            if not line.endswith(b"\n"):
                return  # still being written
            event = json.loads(line)
            who = event["user"].get("username", "")
            if (user is None or who == user) and "objectRef" in event and _counts(event):
                yield _request(event, who)


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
