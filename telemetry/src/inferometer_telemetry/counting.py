"""Counters that handle wrap-arounds and restarts of what they read."""

from dataclasses import dataclass
from typing import Literal

MOST = 2**63 - 1
"""The highest total that a sample can report."""
MOST_BYTES = 2**53 - 1
_MOST_WATTS = 10_000
"""No package takes as much: a counter that seems to have wrapped with more began anew."""
_SLACK_MICROJOULES = 1_000 * 10**6
_FULL_WATTS = 1_000
"""The highest sustained power of a package: after a whole range at this power, the number of wraps
is not known."""

Step = Literal["Forward", "Wrapped", "Anew"]


def step(
    before: int, now: int, *, range_microjoules: int | None, elapsed_ns: int
) -> tuple[int, Step]:
    """Return what an energy counter grew by, in microjoules, and which step that is.

    A reading below the one before is a wrap-around at `range_microjoules` where the power that
    this means can be, else a counter that began anew: how much was used then is not known (0). It
    is not known either where the reading before is so long ago that it may have wrapped unseen.
    """
    if range_microjoules is not None and elapsed_ns > range_microjoules * 1000 // _FULL_WATTS:
        return 0, "Anew"
    if now >= before:
        return now - before, "Forward"
    if range_microjoules is not None and before <= range_microjoules:
        grown = range_microjoules - before + now
        # watts times nanoseconds are nanojoules
        if grown <= _SLACK_MICROJOULES + _MOST_WATTS * elapsed_ns // 1000:
            return grown, "Wrapped"
    return 0, "Anew"


@dataclass(slots=True)
class EnergyTotal:
    """The energy of one domain since the first reading, from a counter that wraps around."""

    range_microjoules: int | None
    """The value at which it wraps around; None if unknown."""
    microjoules: int = 0
    _reading: int | None = None
    _read_ns: int = 0

    def take(self, reading: int, now_ns: int) -> bool:
        """Take in a reading; return whether the total goes on from the one before."""
        how: Step = "Forward"
        if self._reading is not None:
            grown, how = step(
                self._reading,
                reading,
                range_microjoules=self.range_microjoules,
                elapsed_ns=now_ns - self._read_ns,
            )
            self.microjoules += grown
        self._reading, self._read_ns = reading, now_ns
        if how == "Anew" or self.microjoules > MOST:
            self.microjoules = 0
            return False
        return True


@dataclass(slots=True)
class Rising:
    """A total that never falls, from a counter that should not fall either."""

    total: int = 0
    _reading: int | None = None

    def take(self, reading: int) -> bool:
        """Take in a reading; return whether it is not below the one before."""
        before = reading if self._reading is None else self._reading
        self._reading = reading
        self.total = min(MOST, self.total + max(0, reading - before))
        return reading >= before

    @classmethod
    def at(cls, reading: int) -> "Rising":
        """Return a total that begins with what the counter already shows."""
        return cls(total=min(MOST, reading), _reading=reading)


@dataclass(slots=True)
class Highest:
    """A total that never falls, from a sum whose parts are not all read at one moment.

    A part that moves from one to another meanwhile is missed or taken twice, and is right again at
    the next reading: only what is above the highest reading so far is more.
    """

    total: int = 0

    def take(self, reading: int) -> bool:
        """Take in a reading; return whether it is not below the highest one."""
        goes_on = reading >= self.total
        self.total = min(MOST, max(self.total, reading))
        return goes_on

    @classmethod
    def at(cls, reading: int) -> "Highest":
        """Return a total that begins with what is read first."""
        return cls(total=min(MOST, reading))
