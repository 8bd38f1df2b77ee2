"""Clock synchronisation: how far each worker's monotonic clock is from ours."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inferometer_loadgen.fleet.fleet import Fleet
from inferometer_loadgen.fleet.messages import (
    ClockIdentity,
    ClockReading,
    ReadClock,
    WorkerMessage,
)

EXCHANGES = 16
"""Exchanges of time stamps for one offset."""
_MAX_CONCURRENT = 16
"""With more workers at once, their answers would wait for each other."""


@dataclass(frozen=True, slots=True)
class ClockExchange:
    """One exchange of time stamps, in nanoseconds."""

    sent_ns: int
    """When the request was sent, by our clock."""
    answered_ns: int
    """When the other process answered, by its own clock."""
    received_ns: int
    """When the answer arrived, by our clock."""

    @property
    def round_trip_ns(self) -> int:
        """Duration of the exchange."""
        return self.received_ns - self.sent_ns


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How far another clock is ahead of ours, and the greatest error of that figure."""

    ahead_ns: int
    uncertainty_ns: int


SAME_CLOCK = ClockOffset(0, 0)


def estimate_offset(exchanges: Sequence[ClockExchange]) -> ClockOffset:
    """Return the offset from the exchange with the shortest round trip (as NTP, RFC 5905).

    The other clock answered at some time between sending and receiving. The middle is wrong by at
    most half the round trip, however different both directions are.
    """
    best = min(exchanges, key=lambda each: each.round_trip_ns)
    middle_ns = (best.sent_ns + best.received_ns) // 2
    return ClockOffset(best.answered_ns - middle_ns, -(-best.round_trip_ns // 2))


def own_clock() -> ClockIdentity:
    """Return the identity of this process's clock; without a boot id if the machine has none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return ClockIdentity(boot, str(Path("/proc/self/ns/time").readlink()))
    except OSError:
        return ClockIdentity("", "")


async def measure_offsets(
    fleet: Fleet, own: ClockIdentity, workers: Sequence[int]
) -> dict[int, ClockOffset]:
    """Return the offset of each worker's clock; raises WorkerLostError.

    It is exactly 0 if a worker reads the same clock as we do.
    """
    offsets = dict.fromkeys(workers, SAME_CLOCK)
    others = [each for each in workers if not own.is_same(fleet.hellos[each].clock)]
    for begin in range(0, len(others), _MAX_CONCURRENT):
        offsets.update(await _measure_group(fleet, others[begin : begin + _MAX_CONCURRENT]))
    return offsets


async def _measure_group(fleet: Fleet, workers: Sequence[int]) -> dict[int, ClockOffset]:
    exchanges: dict[int, list[ClockExchange]] = {worker: [] for worker in workers}
    for number in range(EXCHANGES):
        listener = _ArrivalListener(number)
        with fleet.listening(listener):
            sent_ns = time.monotonic_ns()
            answers = await fleet.request(ReadClock(number), ClockReading, workers)
        for worker, answer in answers.items():
            received_ns = listener.received_ns[worker]
            exchanges[worker].append(ClockExchange(sent_ns, answer.at_ns, received_ns))
    return {worker: estimate_offset(made) for worker, made in exchanges.items()}


class _ArrivalListener:
    """Records the time at which each answer arrives."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.received_ns: dict[int, int] = {}

    def on_message(self, worker: int, message: WorkerMessage) -> None:
        if isinstance(message, ClockReading) and message.number == self._number:
            self.received_ns[worker] = time.monotonic_ns()

    def on_lost(self, worker: int, loss_reason: str) -> None:
        """Do nothing: the request for the answers fails."""
