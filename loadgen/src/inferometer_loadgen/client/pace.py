"""How is the driver woken at the moment a query is due?

By an absolute timerfd of CLOCK_MONOTONIC: an event loop's own timers are rounded to a millisecond.
"""

import asyncio
import ctypes
import os
import time
from collections.abc import Callable
from typing import Protocol

_CLOCK_MONOTONIC = time.CLOCK_MONOTONIC
_TFD_TIMER_ABSTIME = 1
_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_CLOEXEC = os.O_CLOEXEC
_SECOND_NS = 1_000_000_000

_TURNS_BEFORE_NS = 250_000
"""How long before a time a spinning pacer sleeps no more: longer than most sleeps are overslept."""
_HELD_NS = 8_000
"""How long before a time it looks for replies no more: a turn of the loop takes about as long."""

_LEAD_NS = 10_000
"""How much earlier than the time a timer is set."""

Clock = Callable[[], int]
"""Nanoseconds of one monotonic clock."""


class Pacer(Protocol):
    """Wakes the driver once at each time it is armed for."""

    def arm(self, at_ns: int) -> None:
        """Wake the driver at this time of the clock, or at once where it has passed.

        Only the last call counts. A driver that was woken must arm the pacer anew or close it.
        """

    def close(self) -> None:
        """Wake nobody any more."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


_libc = ctypes.CDLL(None, use_errno=True)


class TimerPacer:
    """A pacer on the clock of `time.monotonic_ns`.

    It is set a few microseconds early, which is less than it takes to wake up on most machines;
    what is left of them is waited for. The descriptor is never read: arming it anew clears what
    had expired.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        wake: Callable[[], None],
        lead_ns: int = _LEAD_NS,
    ) -> None:
        self._loop = loop
        self._wake = wake
        self._lead_ns = lead_ns
        self._at_ns = 0
        self._descriptor = _libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self._descriptor < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"A timer could not be made: {os.strerror(number)}.")
        self._spec = _Itimerspec()
        self._reference = ctypes.byref(self._spec)
        self._value = self._spec.value
        self._settime = _libc.timerfd_settime
        loop.add_reader(self._descriptor, self._on_timer)

    def arm(self, at_ns: int) -> None:
        """Wake at this time of `time.monotonic_ns`."""
        self._at_ns = at_ns
        # A value of 0 would disarm the timer; 1 ns after the machine's start has passed as well.
        self._value.seconds, self._value.nanoseconds = divmod(
            max(1, at_ns - self._lead_ns), _SECOND_NS
        )
        self._settime(self._descriptor, _TFD_TIMER_ABSTIME, self._reference, None)

    def disarm(self) -> None:
        """Wake nobody until armed again."""
        self._value.seconds = self._value.nanoseconds = 0
        self._settime(self._descriptor, _TFD_TIMER_ABSTIME, self._reference, None)

    def close(self) -> None:
        """Give the timer back."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _on_timer(self) -> None:
        at_ns = self._at_ns
        if at_ns - time.monotonic_ns() > self._lead_ns:
            return  # it was armed anew in the very turn in which it had expired
        while time.monotonic_ns() < at_ns:
            pass
        self._wake()


class SpinPacer:
    """A pacer that sleeps until shortly before the time, and then turns the loop until it is due.

    Each turn looks for replies, so that none waits for a query; only the last microseconds are
    spent waiting for nothing else. It burns a core while it does, and no sleep is overslept.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._timer = TimerPacer(loop, self._turn, lead_ns=0)
        self._at_ns = 0
        self._is_turning = False
        self._is_closed = False

    def arm(self, at_ns: int) -> None:
        """Wake at this time of `time.monotonic_ns`."""
        self._at_ns = at_ns
        if at_ns - time.monotonic_ns() > _TURNS_BEFORE_NS:
            self._timer.arm(at_ns - _TURNS_BEFORE_NS)
        else:
            self._timer.disarm()
            self._turn_on()

    def close(self) -> None:
        """Give the timer back."""
        self._is_closed = True
        self._timer.close()

    def _turn_on(self) -> None:
        if not self._is_turning:
            self._is_turning = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turning = False
        if self._is_closed:
            return
        at_ns = self._at_ns
        left = at_ns - time.monotonic_ns()
        if left > _TURNS_BEFORE_NS:
            return
        if left > _HELD_NS:
            self._timer.disarm()
            self._turn_on()
            return
        while time.monotonic_ns() < at_ns:
            pass
        self._wake()
