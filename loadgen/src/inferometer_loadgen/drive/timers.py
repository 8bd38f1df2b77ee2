"""When is a driver called again, and when is each second over?"""

import asyncio
from collections.abc import Callable, Hashable

from inferometer_loadgen.client.pace import Clock
from inferometer_loadgen.schedule.steps import SECOND_NS

_LEAST_WAIT_SECONDS = 0.001


class Timers:
    """Timers of an event loop by name; setting one again replaces it."""

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
    """Tells the end of each second since a moment, each once and none too early."""

    def __init__(self, clock: Clock, timers: Timers, tell: Callable[[], None]) -> None:
        self._clock = clock
        self._timers = timers
        self._tell = tell
        self._begin_ns: int | None = None
        self._told = 0

    def begin(self, at_ns: int) -> None:
        """Count seconds from this time on."""
        self._begin_ns, self._told = at_ns, 0
        self._await_next(at_ns)

    def end(self) -> float:
        """Tell what is over by now, and return the seconds that are left of the current one.

        Before `begin` none is.
        """
        if self._begin_ns is None:
            return 0.0
        self._timers.cancel(self)
        now = self._clock()
        self._tell_until(now, self._begin_ns)
        return (now - self._begin_ns) / SECOND_NS - self._told

    def _tell_until(self, now: int, begin_ns: int) -> None:
        while now >= begin_ns + (self._told + 1) * SECOND_NS:
            self._told += 1
            self._tell()

    def _await_next(self, begin_ns: int) -> None:
        due = begin_ns + (self._told + 1) * SECOND_NS
        self._timers.later(self, due - self._clock(), lambda: self._on_timer(begin_ns))

    def _on_timer(self, begin_ns: int) -> None:
        # A timer may be early by its rounding; a second that is not over is not told.
        self._tell_until(self._clock(), begin_ns)
        self._await_next(begin_ns)
