"""How far apart are two monotonic clocks, and do two processes share one?"""

from collections.abc import Sequence
from dataclasses import dataclass

EXCHANGES = 16
"""Exchanges of time stamps by which an offset is measured."""


@dataclass(frozen=True, slots=True)
class ClockName:
    """Which monotonic clock a process reads: that of one boot of a machine, in a time namespace."""

    boot: str
    """The boot's id; empty where the machine does not tell."""
    namespace: str

    def is_same(self, other: "ClockName") -> bool:
        """Say whether both are known to be one clock."""
        return self.boot != "" and self == other


@dataclass(frozen=True, slots=True)
class Exchange:
    """One exchange of time stamps, in nanoseconds."""

    asked_ns: int
    """When it was asked, by our clock."""
    answered_ns: int
    """When the other answered, by its own."""
    heard_ns: int
    """When the answer was here, by our clock."""

    @property
    def round_trip_ns(self) -> int:
        """How long it took."""
        return self.heard_ns - self.asked_ns


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """By how much another clock is ahead of ours, and how far that may be off."""

    ahead_ns: int
    uncertainty_ns: int


ONE_CLOCK = ClockOffset(0, 0)


def offset_of(exchanges: Sequence[Exchange]) -> ClockOffset:
    """Return the offset that the exchange with the shortest round trip tells (as NTP's, RFC 5905).

    The other clock answered at some moment between question and answer: taking the middle is wrong
    by half the round trip at most, however unlike both ways are.
    """
    best = min(exchanges, key=lambda each: each.round_trip_ns)
    middle_ns = (best.asked_ns + best.heard_ns) // 2
    return ClockOffset(best.answered_ns - middle_ns, -(-best.round_trip_ns // 2))
