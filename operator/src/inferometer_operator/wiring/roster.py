"""Which runs are there, and whose turn is it now?

What is known of runs comes from the cluster; a claim bridges the moment between a turn that was
given and the status that tells so, so that two runs never begin at once.
"""

from collections.abc import Callable
from dataclasses import replace

from inferometer_operator.reconcile.observed import Json, Turn
from inferometer_operator.reconcile.turns import Known, known, turn_of


class Roster:
    """All runs that are served, and who waits for whom."""

    def __init__(self, slots: int, wake: Callable[[str], None]) -> None:
        self._slots = slots
        self._wake = wake
        self._runs: dict[str, Known] = {}
        self._claims: set[str] = set()
        self._told: dict[str, Turn] = {}

    def see(self, run: Json) -> None:
        """Take in what the cluster says of a run."""
        told = known(run)
        if told.state != "waiting":
            self._claims.discard(told.uid)
            self._told.pop(told.uid, None)
        if self._runs.get(told.uid) != told:
            self._runs[told.uid] = told
            self._wake_waiting()

    def forget(self, uid: str) -> None:
        """Take in that a run is no more."""
        self._claims.discard(uid)
        self._told.pop(uid, None)
        if self._runs.pop(uid, None) is not None:
            self._wake_waiting()

    def turn(self, uid: str) -> Turn:
        """Return a run's turn; one that is admitted holds its place until `yield_turn`."""
        turn = self._turn(self._runs[uid])
        self._told[uid] = turn
        if turn.admitted and self._runs[uid].state == "waiting":
            self._claims.add(uid)
        return turn

    def holds(self, uid: str) -> bool:
        """Whether a run has its turn now."""
        run = self._runs.get(uid)
        return run is not None and self._claimed(run).state == "holding"

    def yield_turn(self, uid: str) -> None:
        """Give back a turn that was given and not used: the run did not begin."""
        if uid in self._claims:
            self._claims.discard(uid)
            self._wake_waiting()

    def _turn(self, run: Known) -> Turn:
        return turn_of(self._claimed(run), [*map(self._claimed, self._runs.values())], self._slots)

    def _claimed(self, run: Known) -> Known:
        return replace(run, state="holding") if run.uid in self._claims else run

    def _wake_waiting(self) -> None:
        """Wake each run that waits, where its turn is another one than it was told."""
        for uid, before in list(self._told.items()):
            if not before.admitted and self._turn(self._runs[uid]) != before:
                self._wake(uid)
