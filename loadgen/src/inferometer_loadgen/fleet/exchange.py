"""How far is each worker's clock from ours?"""

import time
from collections.abc import Sequence

from inferometer_loadgen.fleet.clock import (
    EXCHANGES,
    ONE_CLOCK,
    ClockName,
    ClockOffset,
    Exchange,
    offset_of,
)
from inferometer_loadgen.fleet.fleet import Fleet
from inferometer_loadgen.fleet.messages import Stamp, Stamped, Word

_MOST_AT_ONCE = 16
"""More than that and their answers would wait for each other."""


async def measured_offsets(
    fleet: Fleet, own: ClockName, workers: Sequence[int]
) -> dict[int, ClockOffset]:
    """Return the offset of each worker's clock; raises WorkerLostError.

    It is 0, and known exactly, where a worker reads the clock that we do.
    """
    offsets = dict.fromkeys(workers, ONE_CLOCK)
    others = [each for each in workers if not own.is_same(fleet.hellos[each].clock)]
    for begin in range(0, len(others), _MOST_AT_ONCE):
        offsets.update(await _measured(fleet, others[begin : begin + _MOST_AT_ONCE]))
    return offsets


async def _measured(fleet: Fleet, workers: Sequence[int]) -> dict[int, ClockOffset]:
    exchanges: dict[int, list[Exchange]] = {worker: [] for worker in workers}
    for number in range(EXCHANGES):
        listener = _Listener(number)
        with fleet.hearing(listener):
            asked_ns = time.monotonic_ns()
            answers = await fleet.ask(Stamp(number), Stamped, workers)
        for worker, answer in answers.items():
            heard_ns = listener.heard_ns[worker]
            exchanges[worker].append(Exchange(asked_ns, answer.at_ns, heard_ns))
    return {worker: offset_of(made) for worker, made in exchanges.items()}


class _Listener:
    """Notes the moment at which each answer came."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.heard_ns: dict[int, int] = {}

    def hear(self, worker: int, word: Word) -> None:
        if isinstance(word, Stamped) and word.number == self._number:
            self.heard_ns[worker] = time.monotonic_ns()

    def lose(self, worker: int, loss_reason: str) -> None:
        """Whoever waits for the answers is told."""
