"""Timers of a driver, by name and by second."""

import asyncio
from collections.abc import Callable, Hashable

from inferometer_loadgen.client.pace import Clock
from inferometer_loadgen.drive.contract import NEVER
from inferometer_loadgen.schedule.steps import SECOND_NS

_LEAST_WAIT_SECONDS = 0.001


class Timers:
    """Named timers of an event loop; setting a timer again replaces it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}

    def later(self, name: Hashable, delay_ns: int, what: Callable[[], None]) -> None:
        """Call `what` after so many nanoseconds, at least a millisecond."""
        if name in self._timers:
            self._timers[name].cancel()
        seconds = max(_LEAST_WAIT_SECONDS, delay_ns / SECOND_NS)
        self._timers[name] = self._loop.call_later(seconds, what)

    def cancel(self, name: Hashable) -> None:
        """Forget a timer."""
        if name in self._timers:
            self._timers.pop(name).cancel()

    def cancel_all(self) -> None:
        """Forget all timers."""
        for timer in self._timers.values():
            timer.cancel()


class Seconds:
    """Calls back at the end of each second since a moment, once each and never early.

    ``ends_ns`` is when the current one ends; `NEVER` before `begin`.
    """

    def __init__(self, clock: Clock, timers: Timers, on_end: Callable[[], None]) -> None:
        self.ends_ns = NEVER
        self._clock = clock
        self._timers = timers
        self._on_end = on_end

    def begin(self, at_ns: int) -> None:
        """Count seconds from this time on."""
        self.ends_ns = at_ns + SECOND_NS
        self._await_next()

    def end(self) -> float:
        """End the seconds that are over, and return how much of the current one has passed.

        0 before `begin`.
        """
        if self.ends_ns == NEVER:
            return 0.0
        self._timers.cancel(self)
        now = self._clock()
        self.end_until(now)
        return (now - self.ends_ns) / SECOND_NS + 1

    def end_until(self, time_ns: int) -> None:
        """End the seconds that are over by this time: a timer is late by its rounding."""
        while time_ns >= self.ends_ns:
            self.ends_ns += SECOND_NS
            self._on_end()

    def _await_next(self) -> None:
        self._timers.later(self, self.ends_ns - self._clock(), self._on_timer)

    def _on_timer(self) -> None:
        # A timer may be early by its rounding; only seconds that are over end.
        self.end_until(self._clock())
        self._await_next()
