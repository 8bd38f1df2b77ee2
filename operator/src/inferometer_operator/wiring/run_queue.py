"""Which runs are there, and whose turn is it now?

What is known of runs comes from the cluster; a claim bridges the moment between a turn that was
given and the status that tells so, so that two runs never begin at once.
"""

from collections.abc import Callable
from dataclasses import replace

from inferometer_operator.reconcile.observed import Json, QueuePosition
from inferometer_operator.reconcile.queue_position import QueuedRun, queue_position, queued_run


class RunQueue:
    """All runs that are served, and who waits for whom."""

    def __init__(self, slots: int, wake: Callable[[str], None]) -> None:
        self._slots = slots
        self._wake = wake
        self._runs: dict[str, QueuedRun] = {}
        self._claims: set[str] = set()
        self._told: dict[str, QueuePosition] = {}
        self._passing: set[str] = set()
        self._left: set[str] = set()

    def update(self, run: Json) -> None:
        """Take in what the cluster says of a run."""
        told = queued_run(run)
        if told.uid in self._left:
            told = replace(told, state="inactive")
        if told.state != "waiting":
            self._drop(told.uid)
        if self._runs.get(told.uid) != told:
            self._runs[told.uid] = told
            self._wake_waiting()

    def remove(self, uid: str) -> None:
        """Take in that a run is no more."""
        self._drop(uid)
        self._left.discard(uid)
        if self._runs.pop(uid, None) is not None:
            self._wake_waiting()

    def position(self, uid: str) -> QueuePosition:
        """Return a run's turn; one that is admitted holds its place until `yield_turn`."""
        self._passing.discard(uid)
        turn = self._turn(self._runs[uid])
        self._told[uid] = turn
        if turn.admitted and self._runs[uid].state == "waiting":
            self._claims.add(uid)
        return turn

    def is_admitted(self, uid: str) -> bool:
        """Whether a run has its turn now."""
        run = self._runs.get(uid)
        return run is not None and self._claimed(run).state == "admitted"

    def has_claim(self, uid: str) -> bool:
        """Whether a run was given a turn, and nothing was seen of its beginning yet."""
        return uid in self._claims

    def defer(self, uid: str) -> None:
        """Let the next begin before a run whose turn came to nothing, until it asks again."""
        self._claims.discard(uid)
        self._passing.add(uid)
        self._wake_waiting()

    def deactivate(self, uid: str) -> None:
        """Take in that nothing is left of a run that could disturb others, though it is there."""
        self._left.add(uid)
        self._drop(uid)
        self._runs[uid] = replace(self._runs[uid], state="inactive")
        self._wake_waiting()

    def release_claim(self, uid: str) -> None:
        """Give back a turn that was given and not used: the run did not begin."""
        if uid in self._claims:
            self._claims.discard(uid)
            self._wake_waiting()

    def _turn(self, run: QueuedRun) -> QueuePosition:
        return queue_position(
            self._claimed(run), [*map(self._claimed, self._runs.values())], self._slots
        )

    def _claimed(self, run: QueuedRun) -> QueuedRun:
        if run.uid in self._claims:
            return replace(run, state="admitted")
        return replace(run, state="inactive") if run.uid in self._passing else run

    def _drop(self, uid: str) -> None:
        self._claims.discard(uid)
        self._told.pop(uid, None)
        self._passing.discard(uid)

    def _wake_waiting(self) -> None:
        """Wake each run that waits, where its turn is another one than it was told."""
        for uid, before in list(self._told.items()):
            if not before.admitted and self._turn(self._runs[uid]) != before:
                self._wake(uid)
