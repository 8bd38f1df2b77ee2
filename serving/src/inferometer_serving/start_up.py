"""Phases of the server's start, for measurements of cold starts."""

import time
from collections.abc import Mapping
from typing import Any

import orjson


class StartUp:
    """The phases so far, without gaps: each one begins where the one before ended.

    They are in Unix time, which the processes of a machine share.
    """

    def __init__(self, began_microseconds: int) -> None:
        self._ended = began_microseconds
        self._phases: list[dict[str, Any]] = []

    def end(
        self, name: str, *, size_bytes: int | None = None, parts: Mapping[str, int] | None = None
    ) -> None:
        """End a phase now. `parts` has the microseconds of its parts, by name."""
        now = time.time_ns() // 1000
        self._phases.append(
            {
                "name": name,
                "startMicroseconds": self._ended,
                "endMicroseconds": now,
                "evidence": "the server",
                **({} if size_bytes is None else {"bytes": size_bytes}),
                **({} if not parts else {"parts": dict(parts)}),
            }
        )
        self._ended = now

    def to_json(self) -> str:
        """Return the phases as a list of `ObservedPhase` documents."""
        return orjson.dumps(self._phases).decode()
