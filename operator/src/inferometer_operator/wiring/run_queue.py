"""The queue of all runs: at most `slots` are admitted at a time.

What is known of runs comes from the cluster. A claim covers the time between the admission of a run
and the status that shows it, so that two runs never begin at once.
"""

from collections.abc import Callable
from dataclasses import replace

from inferometer_operator.reconcile.observed import Json, QueuePosition
from inferometer_operator.reconcile.queue_position import QueuedRun, queue_position, queued_run


class RunQueue:
    """All runs of the operator, and their positions."""

    def __init__(self, slots: int, wake: Callable[[str], None]) -> None:
        """Create a queue that calls `wake` with the UID of a run whose position has changed."""
        self._slots = slots
        self._wake = wake
        self._runs: dict[str, QueuedRun] = {}
        self._claims: set[str] = set()
        """UIDs of runs that were admitted and whose status does not show it yet."""
        self._reported: dict[str, QueuePosition] = {}
        """The position that each run was given last."""
        self._deferred: set[str] = set()
        self._deactivated: set[str] = set()

    def update(self, run: Json) -> None:
        """Add a run, or replace what is known of it."""
        queued = queued_run(run)
        if queued.uid in self._deactivated:
            queued = replace(queued, state="inactive")
        if queued.state != "waiting":
            self._clear(queued.uid)
        if self._runs.get(queued.uid) != queued:
            self._runs[queued.uid] = queued
            self._wake_waiting()

    def remove(self, uid: str) -> None:
        """Remove a run that no longer exists."""
        self._clear(uid)
        self._deactivated.discard(uid)
        if self._runs.pop(uid, None) is not None:
            self._wake_waiting()

    def position(self, uid: str) -> QueuePosition:
        """Return a run's position; an admitted run keeps its slot until `release_claim`."""
        self._deferred.discard(uid)
        position = self._position(self._runs[uid])
        self._reported[uid] = position
        if position.admitted and self._runs[uid].state == "waiting":
            self._claims.add(uid)
        return position

    def is_admitted(self, uid: str) -> bool:
        """Return whether a run holds a slot now."""
        run = self._runs.get(uid)
        return run is not None and self._with_claim(run).state == "admitted"

    def has_claim(self, uid: str) -> bool:
        """Return whether a run was admitted and is not known to have begun."""
        return uid in self._claims

    def defer(self, uid: str) -> None:
        """Let the next run go first, until this one requests its position again."""
        self._claims.discard(uid)
        self._deferred.add(uid)
        self._wake_waiting()

    def deactivate(self, uid: str) -> None:
        """Free the slot of a run that still exists but has nothing left to disturb others."""
        self._deactivated.add(uid)
        self._clear(uid)
        self._runs[uid] = replace(self._runs[uid], state="inactive")
        self._wake_waiting()

    def release_claim(self, uid: str) -> None:
        """Free the slot of a run that was admitted and did not begin."""
        if uid in self._claims:
            self._claims.discard(uid)
            self._wake_waiting()

    def _position(self, run: QueuedRun) -> QueuePosition:
        runs = [*map(self._with_claim, self._runs.values())]
        return queue_position(self._with_claim(run), runs, self._slots)

    def _with_claim(self, run: QueuedRun) -> QueuedRun:
        if run.uid in self._claims:
            return replace(run, state="admitted")
        return replace(run, state="inactive") if run.uid in self._deferred else run

    def _clear(self, uid: str) -> None:
        self._claims.discard(uid)
        self._reported.pop(uid, None)
        self._deferred.discard(uid)

    def _wake_waiting(self) -> None:
        """Wake each waiting run whose position has changed."""
        for uid, before in list(self._reported.items()):
            if not before.admitted and self._position(self._runs[uid]) != before:
                self._wake(uid)
