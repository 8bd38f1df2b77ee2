"""The queue of all runs: at most `slots` are admitted at a time.

What is known of runs comes from the cluster. A claim covers the time between the admission of a run
and the status that shows it, so that two runs never begin at once. The order is found once after a
change, however many runs wait, and a waiting run is woken only when its status would say something
else.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from inferometer_operator.reconcile.observed import Json, QueuePosition
from inferometer_operator.reconcile.queue_position import (
    QueuedRun,
    band,
    describe_position,
    queue_order,
    queued_run,
)

_QUIET_SECONDS, _LONGEST_QUIET_SECONDS = 2.0, 20.0
"""While runs come or waiting ones go, positions change with each. They are reported once none has
for so long, and after the longer time in any case."""
_WRITES, _WRITES_SECONDS = 2, 75.0
"""A waiting run's position is written at most so many times in so many seconds: in a minute, though
a write may take 15 s."""
_WITH_NODES = frozenset({"admitted", "collecting"})
"""States in which a run has pods, or may have some."""
_HOLD_SECONDS = 90.0
"""How long no run is admitted while the server of another one is replaced: its node is free then,
and a run that took it would keep the other one waiting until its end."""
_PLACEMENT_SECONDS = 45.0
"""How long a server is not replaced because runs that were admitted before wait for nodes: they
find some, or go back to the queue after 30 s."""
_MAX_SERVED = 1000
_NEVER = float("-inf")


@dataclass(slots=True)
class _Reported:
    """The position that a waiting run's status reports, and when the last ones were written."""

    position: QueuePosition = field(default_factory=lambda: QueuePosition(admitted=False))
    text: str = ""
    band: tuple[int, int] = (0, 0)
    """The first and the last position that the text stands for."""
    times: list[float] = field(default_factory=list)

    def note(self, position: QueuePosition, now: float) -> None:
        """Note that a position is written now."""
        self.position, self.text = position, describe_position(position)
        self.band = band(position.position)
        self.times = [*self.times, now][-_WRITES:]

    @property
    def next_time(self) -> float:
        """When another position may be written."""
        return self.times[0] + _WRITES_SECONDS if len(self.times) == _WRITES else _NEVER


class RunQueue:
    """All runs of the operator that wait or are admitted, and their positions."""

    def __init__(
        self,
        slots: int,
        wake: Callable[[str, float], None],
        clock: Callable[[], float] = time.monotonic,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a queue that calls `wake` with the UID of a run to look at, and in how long.

        It calls `changed` after each change of the order; `wake_moved` should follow soon.
        """
        self._slots = slots
        self._changed = changed
        self._wake_run = wake
        self._wake_others: dict[str, Callable[[float], None]] = {}
        """How to wake what is no run, by its UID."""
        self._clock = clock
        self._runs: dict[str, QueuedRun] = {}
        self._served: dict[str, str] = {}
        """When a run of each namespace last began."""
        self._claims: set[str] = set()
        """UIDs of runs that were admitted and whose status does not show it yet."""
        self._deferred: set[str] = set()
        self._deactivated: set[str] = set()
        self._nodes_freed: set[str] = set()
        """UIDs of runs that back off and may try again now, because another run has ended."""
        self._replacing: dict[str, float] = {}
        """When runs began to await their next server."""
        self._placed: set[str] = set()
        """UIDs of admitted runs none of whose pods waits for a node."""
        self._reported: dict[str, _Reported] = {}
        self._order: list[QueuedRun] | None = None
        """The waiting runs in their order; None: it is to be found again."""
        self._places: dict[str, int] = {}
        self._holders: list[QueuedRun] = []
        self._changed_at = self._changes_began_at = _NEVER

    def __contains__(self, uid: str) -> bool:
        """Return whether a run waits or is admitted."""
        return uid in self._runs

    def update(self, run: Json) -> None:
        """Add a run, or replace what is known of it."""
        self.put(queued_run(run))

    def put(self, queued: QueuedRun, wake: Callable[[float], None] | None = None) -> None:
        """Add an entry, or replace it; `wake` is called for one that is no run."""
        if wake is not None:
            self._wake_others[queued.uid] = wake
        if queued.begun > self._served.get(queued.namespace, ""):
            self._note_served(queued)
        if queued.state == "inactive" or queued.uid in self._deactivated:
            self._remove(queued.uid)
            return
        before = self._runs.get(queued.uid)
        changed = before != queued
        if queued.state in _WITH_NODES or (queued.state == "backing-off" and changed):
            self._clear(queued.uid)
        if queued.state not in _WITH_NODES:
            self._placed.discard(queued.uid)
        if changed:
            if before is None:
                self._note_change()
            self._runs[queued.uid] = queued
            self._reorder()
            if before is not None and before.state in _WITH_NODES:
                self._free_nodes(queued)

    def remove(self, uid: str) -> None:
        """Remove a run that no longer exists."""
        self._deactivated.discard(uid)
        self._remove(uid)

    def position(self, uid: str) -> QueuePosition:
        """Return a run's position; an admitted run keeps its slot until `release_claim`.

        While no further write is due, a waiting run keeps the position that its status reports.
        """
        if uid in self._deferred:
            self._deferred.discard(uid)
            self._reorder()
        if uid in self._runs and self._runs[uid].state == "backing-off":
            return QueuePosition(admitted=False, nodes_freed=uid in self._nodes_freed)
        queued = self._position(uid)
        if not queued.admitted:
            report = self._reported.setdefault(uid, _Reported())
            if report.text != describe_position(queued):
                if self._clock() < report.next_time:
                    # This look may have replaced the one that is due then.
                    self._changed()
                    return report.position
                report.note(queued, self._clock())
        elif uid in self._runs and self._runs[uid].state == "waiting":
            self._claims.add(uid)
            self._reorder()
        return queued

    def is_admitted(self, uid: str) -> bool:
        """Return whether a run holds a slot now."""
        run = self._runs.get(uid)
        return run is not None and (run.state == "admitted" or uid in self._claims)

    def has_claim(self, uid: str) -> bool:
        """Return whether a run was admitted and is not known to have begun."""
        return uid in self._claims

    def defer(self, uid: str) -> None:
        """Let the next run go first, until this one requests its position again."""
        self._claims.discard(uid)
        self._deferred.add(uid)
        self._reorder()

    def deactivate(self, uid: str) -> None:
        """Free the slot of a run that still exists but has nothing left to disturb others."""
        self._deactivated.add(uid)
        self._remove(uid)

    def note_replacement(self, uid: str, *, is_awaited: bool) -> None:
        """Note whether an admitted run awaits its next server, and needs the node of its last."""
        if is_awaited and uid in self._runs and uid not in self._replacing:
            self._replacing[uid] = self._clock()
            self._changed()
        elif not is_awaited and self._replacing.pop(uid, None) is not None:
            self._changed()

    def note_placement(self, uid: str, *, is_placed: bool) -> None:
        """Note whether no pod of an admitted run waits for a node."""
        if is_placed and uid in self._runs:
            self._placed.add(uid)
        else:
            self._placed.discard(uid)

    def others_await_nodes(self, uid: str) -> bool:
        """Return whether another admitted run may take the node of a server that is replaced."""
        since = self._replacing.get(uid)
        if since is not None and self._clock() >= since + _PLACEMENT_SECONDS:
            return False
        self._found_order()
        return any(run.uid != uid and run.uid not in self._placed for run in self._holders)

    def reactivate(self, run: Json) -> None:
        """Take in a run again that another operator had."""
        self._deactivated.discard(run["metadata"]["uid"])
        self.update(run)

    def release_claim(self, uid: str) -> None:
        """Free the slot of a run that was admitted and did not begin."""
        if uid in self._claims:
            self._claims.discard(uid)
            self._reorder()

    def wake_moved(self) -> float | None:
        """Wake the waiting runs that may begin, and those whose position has changed.

        To be called after changes. Return in how many seconds to call it again, None: after the
        next change.
        """
        now = self._clock()
        quiet_at = min(
            self._changed_at + _QUIET_SECONDS, self._changes_began_at + _LONGEST_QUIET_SECONDS
        )
        unquiet = False
        self._found_order()
        free, held_until = self._free_slots(now), self._held_until()
        for uid, report in self._reported.items():
            # An admitted run is at work, and one that failed to begin pauses: faults may last.
            if uid in self._claims or uid in self._deferred:
                continue
            first, last = report.band
            # Most of hundreds: a band of several positions names no run ahead.
            if first < last and first <= self._places.get(uid, -1) + 1 - free <= last:
                continue
            queued = self._position(uid)
            if queued.admitted:
                self._wake(uid, 0.0)
            elif describe_position(queued) != report.text:
                unquiet = unquiet or now < quiet_at
                if now >= quiet_at:
                    self._wake(uid, max(0.0, report.next_time - now))
        later = [quiet_at] if unquiet else []
        if now < held_until:
            later.append(held_until)
        return min(later) - now if later else None

    def _wake(self, uid: str, pause_seconds: float) -> None:
        other = self._wake_others.get(uid)
        if other is None:
            self._wake_run(uid, pause_seconds)
        else:
            other(pause_seconds)

    def _position(self, uid: str) -> QueuePosition:
        order = self._found_order()
        place = self._places.get(uid)
        free = self._free_slots(self._clock())
        if place is None or place < free:
            return QueuePosition(admitted=True)
        ahead = order[place - 1] if place else self._holders[0]
        return QueuePosition(
            admitted=False, position=place + 1 - free, ahead=f"{ahead.namespace}/{ahead.name}"
        )

    def _free_slots(self, now: float) -> int:
        return 0 if now < self._held_until() else max(0, self._slots - len(self._holders))

    def _held_until(self) -> float:
        return max(self._replacing.values(), default=_NEVER) + _HOLD_SECONDS

    def _found_order(self) -> list[QueuedRun]:
        if self._order is None:
            self._holders = [run for run in self._runs.values() if self.is_admitted(run.uid)]
            # What was admitted last is served last, though no status shows yet when it began.
            served = {**self._served, **{self._runs[uid].namespace: "~" for uid in self._claims}}
            passed = self._claims | self._deferred
            waiting = (
                run
                for run in self._runs.values()
                if run.state == "waiting" and run.uid not in passed
            )
            self._order = queue_order(waiting, served)
            self._places = {run.uid: place for place, run in enumerate(self._order)}
        return self._order

    def _reorder(self) -> None:
        self._order = None
        self._changed()

    def _note_served(self, run: QueuedRun) -> None:
        self._served[run.namespace] = run.begun
        if len(self._served) > _MAX_SERVED:
            # It counts as never served, which the one served longest ago nearly is.
            del self._served[min(self._served, key=self._served.__getitem__)]
        self._reorder()

    def _note_change(self) -> None:
        now = self._clock()
        if now >= self._changed_at + _QUIET_SECONDS:
            self._changes_began_at = now
        self._changed_at = now

    def _remove(self, uid: str) -> None:
        self._clear(uid)
        self._wake_others.pop(uid, None)
        self._replacing.pop(uid, None)
        self._placed.discard(uid)
        run = self._runs.pop(uid, None)
        if run is None:
            return
        if run.state == "waiting":
            self._note_change()
        self._reorder()
        if run.state in _WITH_NODES:
            self._retry_first()

    def _free_nodes(self, run: QueuedRun) -> None:
        """Wake a run that backs off if another one went back to the queue: its pods are gone.

        Only one with fewer attempts than that: two that no node suits would wake each other.
        """
        if run.state not in _WITH_NODES:
            self._retry_first(run.attempts if run.state == "backing-off" else None)

    def _retry_first(self, below_attempts: int | None = None) -> None:
        """Wake a run that backs off: the nodes of another one are free.

        It is the one with the fewest attempts: a run that no node suits would take every turn.
        """
        pausing = (
            run
            for run in self._runs.values()
            if run.state == "backing-off"
            and run.uid not in self._nodes_freed
            and (below_attempts is None or run.attempts < below_attempts)
        )
        in_order = queue_order(pausing, self._served)
        for run in sorted(in_order, key=lambda each: each.attempts)[:1]:
            self._nodes_freed.add(run.uid)
            self._wake(run.uid, 0.0)

    def _clear(self, uid: str) -> None:
        self._claims.discard(uid)
        self._reported.pop(uid, None)
        self._deferred.discard(uid)
        self._nodes_freed.discard(uid)
