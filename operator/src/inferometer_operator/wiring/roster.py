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
        self._passing: set[str] = set()
        self._left: set[str] = set()

    def see(self, run: Json) -> None:
        """Take in what the cluster says of a run."""
        told = known(run)
        if told.uid in self._left:
            told = replace(told, state="aside")
        if told.state != "waiting":
            self._drop(told.uid)
        if self._runs.get(told.uid) != told:
            self._runs[told.uid] = told
            self._wake_waiting()

    def forget(self, uid: str) -> None:
        """Take in that a run is no more."""
        self._drop(uid)
        self._left.discard(uid)
        if self._runs.pop(uid, None) is not None:
            self._wake_waiting()

    def turn(self, uid: str) -> Turn:
        """Return a run's turn; one that is admitted holds its place until `yield_turn`."""
        self._passing.discard(uid)
        turn = self._turn(self._runs[uid])
        self._told[uid] = turn
        if turn.admitted and self._runs[uid].state == "waiting":
            self._claims.add(uid)
        return turn

    def holds(self, uid: str) -> bool:
        """Whether a run has its turn now."""
        run = self._runs.get(uid)
        return run is not None and self._claimed(run).state == "holding"

    def claims(self, uid: str) -> bool:
        """Whether a run was given a turn, and nothing was seen of its beginning yet."""
        return uid in self._claims

    def pass_turn(self, uid: str) -> None:
        """Let the next begin before a run whose turn came to nothing, until it asks again."""
        self._claims.discard(uid)
        self._passing.add(uid)
        self._wake_waiting()

    def leave(self, uid: str) -> None:
        """Take in that nothing is left of a run that could disturb others, though it is there."""
        self._left.add(uid)
        self._drop(uid)
        self._runs[uid] = replace(self._runs[uid], state="aside")
        self._wake_waiting()

    def yield_turn(self, uid: str) -> None:
        """Give back a turn that was given and not used: the run did not begin."""
        if uid in self._claims:
            self._claims.discard(uid)
            self._wake_waiting()

    def _turn(self, run: Known) -> Turn:
        return turn_of(self._claimed(run), [*map(self._claimed, self._runs.values())], self._slots)

    def _claimed(self, run: Known) -> Known:
        if run.uid in self._claims:
            return replace(run, state="holding")
        return replace(run, state="aside") if run.uid in self._passing else run

    def _drop(self, uid: str) -> None:
        self._claims.discard(uid)
        self._told.pop(uid, None)
        self._passing.discard(uid)

    def _wake_waiting(self) -> None:
        """Wake each run that waits, where its turn is another one than it was told."""
        for uid, before in list(self._told.items()):
            if not before.admitted and self._turn(self._runs[uid]) != before:
                self._wake(uid)
