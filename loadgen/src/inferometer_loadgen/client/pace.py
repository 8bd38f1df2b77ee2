"""Pacers: wake the driver at the moment a query is due.

They use an absolute timerfd of CLOCK_MONOTONIC: an event loop rounds its own timers to a
millisecond.
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

_SPIN_BEFORE_NS = 250_000
"""How long before a time a spinning pacer stops sleeping: longer than most sleeps overrun."""
_HELD_NS = 8_000
"""How long before a time it stops polling for replies: a turn of the loop takes about as long."""

_LEAD_NS = 10_000
"""How much earlier than its time a timer is set."""

Clock = Callable[[], int]
"""Nanoseconds of one monotonic clock."""


class Pacer(Protocol):
    """Wakes the driver once at each time it is armed for."""

    def arm(self, at_ns: int) -> None:
        """Wake the driver at this time of the clock, or at once if it has passed.

        Only the last call counts. A driver that was woken must arm the pacer again or close it.
        """

    def close(self) -> None:
        """Stop waking the driver."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


_libc = ctypes.CDLL(None, use_errno=True)


class TimerPacer:
    """A pacer on the clock of `time.monotonic_ns`.

    The timer is set a few microseconds early, which is less than waking up takes on most machines;
    the rest is spent spinning. The descriptor is never read: arming it again clears an expiration.
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
            raise OSError(number, f"Cannot create a timer: {os.strerror(number)}.")
        self._spec = _Itimerspec()
        self._reference = ctypes.byref(self._spec)
        self._value = self._spec.value
        self._settime = _libc.timerfd_settime
        loop.add_reader(self._descriptor, self._on_timer)

    def arm(self, at_ns: int) -> None:
        """Wake at this time of `time.monotonic_ns`."""
        self._at_ns = at_ns
        # A value of 0 would disarm the timer; 1 ns after boot has passed as well.
        self._value.seconds, self._value.nanoseconds = divmod(
            max(1, at_ns - self._lead_ns), _SECOND_NS
        )
        self._settime(self._descriptor, _TFD_TIMER_ABSTIME, self._reference, None)

    def disarm(self) -> None:
        """Do not wake the driver until armed again."""
        self._value.seconds = self._value.nanoseconds = 0
        self._settime(self._descriptor, _TFD_TIMER_ABSTIME, self._reference, None)

    def close(self) -> None:
        """Release the timer."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _on_timer(self) -> None:
        at_ns = self._at_ns
        if at_ns - time.monotonic_ns() > self._lead_ns:
            return  # it was armed again in the same turn of the loop in which it expired
        while time.monotonic_ns() < at_ns:
            pass
        self._wake()


class SpinPacer:
    """A pacer that sleeps until shortly before the time, and then turns the loop until it is due.

    Each turn handles replies, so that no reply waits for a query; only the last microseconds are
    pure spinning. It uses a whole core meanwhile, and is never late because a sleep overran.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._timer = TimerPacer(loop, self._poll, lead_ns=0)
        self._at_ns = 0
        self._is_turning = False
        self._is_closed = False

    def arm(self, at_ns: int) -> None:
        """Wake at this time of `time.monotonic_ns`."""
        self._at_ns = at_ns
        if at_ns - time.monotonic_ns() > _SPIN_BEFORE_NS:
            self._timer.arm(at_ns - _SPIN_BEFORE_NS)
        else:
            self._timer.disarm()
            self._schedule_poll()

    def close(self) -> None:
        """Release the timer."""
        self._is_closed = True
        self._timer.close()

    def _schedule_poll(self) -> None:
        if not self._is_turning:
            self._is_turning = True
            self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        self._is_turning = False
        if self._is_closed:
            return
        at_ns = self._at_ns
        left = at_ns - time.monotonic_ns()
        if left > _SPIN_BEFORE_NS:
            return
        if left > _HELD_NS:
            self._timer.disarm()
            self._schedule_poll()
            return
        while time.monotonic_ns() < at_ns:
            pass
        self._wake()
