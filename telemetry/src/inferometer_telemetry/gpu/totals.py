"""Totals of figures that a GPU reports from time to time."""

from dataclasses import dataclass

GAP_NS = 75_000_000_000
"""After a longer gap, the value in between is unknown (an agent reads at least once a minute)."""


@dataclass(slots=True)
class Counter:
    """What a counter grew by since it was first read."""

    _first: int | None = None
    _last: int = 0
    broken: bool = False
    """It went back: what it counted in between is not known."""

    def advance(self, value: int) -> int | None:
        """Take what the counter says now and return its growth; None once it went back."""
        if self._first is None:
            self._first = value
        elif value < self._last:
            self.broken = True
        self._last = value
        return None if self.broken else value - self._first


@dataclass(slots=True)
class Integral:
    """A figure times the time for which it held."""

    trapezoid: bool
    """Whether readings are joined by straight lines; else each holds for the time before it."""
    _at_ns: int | None = None
    _value: int = 0
    _doubled: int = 0
    broken: bool = False
    """It was not available for too long."""

    def advance(self, now_ns: int, value: int) -> int | None:
        """Take the figure of now and return figure x ns since the first; None after a gap."""
        if self._at_ns is not None:
            passed_ns = now_ns - self._at_ns
            self.broken = self.broken or passed_ns > GAP_NS
            before = self._value if self.trapezoid else value
            self._doubled += (before + value) * passed_ns
        self._at_ns, self._value = now_ns, value
        return None if self.broken else self._doubled // 2
