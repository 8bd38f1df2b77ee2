"""Faults of watches, for the proxy: errors, silence, and events that are old."""

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from typing_extensions import override


class NoWatchFault:
    """Passes each event on as it comes."""

    ends = False
    """Whether a watch ends after an event."""

    def lines(self, line: bytes) -> Iterator[bytes]:
        """Yield what the client gets for an event."""
        yield line

    def is_deaf(self, _number: int) -> bool:
        """Return whether the watch with this number delivers nothing more."""
        return False


class ErrorEvents(NoWatchFault):
    """Ends each watch after each event with an error, of each code in turn."""

    ends = True

    def __init__(self, codes: Sequence[int]) -> None:
        self._codes = codes
        self._lock = threading.Lock()
        self.sent = 0

    @override
    def lines(self, line: bytes) -> Iterator[bytes]:
        """Yield the event, and an error."""
        yield line
        with self._lock:
            code = self._codes[self.sent % len(self._codes)]
            self.sent += 1
        status: dict[str, Any] = {"kind": "Status", "code": code, "reason": "Test"}
        status["message"] = "a test's fault"
        if code == 429:
            status["details"] = {"retryAfterSeconds": 1}
        yield json.dumps({"type": "ERROR", "object": status}).encode()


class StaleEvents(NoWatchFault):
    """Sends after each event the object as it was when it was first seen, twice."""

    def __init__(self) -> None:
        self._first: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self.sent = 0

    @override
    def lines(self, line: bytes) -> Iterator[bytes]:
        """Yield the event and the old ones."""
        yield line
        event = json.loads(line)
        uid = event["object"]["metadata"].get("uid")
        if uid is None:
            return
        with self._lock:
            first = self._first.setdefault(uid, event["object"])
            self.sent += 2
        for kind in ("MODIFIED", "ADDED"):
            yield json.dumps({"type": kind, "object": first}).encode()


class DeafWatches(NoWatchFault):
    """Silences the first watches of the proxy; later ones work."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._deaf: set[int] = set()

    @property
    def silenced(self) -> int:
        """Return how many watches delivered nothing."""
        return len(self._deaf)

    @override
    def is_deaf(self, number: int) -> bool:
        """Return whether it is one of the first."""
        if number <= self._count:
            self._deaf.add(number)
            return True
        return False
