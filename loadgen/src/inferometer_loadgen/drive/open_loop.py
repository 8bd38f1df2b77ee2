"""Open-loop driver: sends queries at their scheduled times, whether or not the server keeps up.

Latency counts from the scheduled time. A query that is due while no connection has capacity waits
in a queue; one that the driver handles late is sent late. None is ever dropped.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from typing_extensions import override

from inferometer_loadgen.drive.contract import NEVER, LoopContext, RequestSource
from inferometer_loadgen.drive.driver import Driver
from inferometer_loadgen.drive.mixed_requests import UNSENT
from inferometer_loadgen.record.backlog import Backlog
from inferometer_loadgen.record.recorder import BLOCK, Recorder
from inferometer_loadgen.record.request_log import UNKNOWN
from inferometer_loadgen.record.silences import Silence
from inferometer_loadgen.schedule.arrivals import (
    EndlessArrivals,
    MeasuredArrivals,
    Schedule,
    WindowLimits,
)
from inferometer_loadgen.schedule.steps import WHOLE_LOAD, End, LoadShare, StepPlan
from inferometer_loadgen.wire import Failure, FailureKind

_AT_ONCE = 256
"""Queries sent in one turn of the loop before replies are looked at again."""


@dataclass(frozen=True, slots=True)
class Schedules:
    """When queries arrive: during warm-up, and from the start of the window."""

    warm_up: Schedule
    measured: Schedule
    last: int | None = None
    """After how many arrivals the window ends, if the step's minimums do not end it."""
    share: LoadShare = WHOLE_LOAD
    """The share of both schedules that is driven."""


class OpenLoop(Driver):
    """Sends queries by two schedules: its own for the warm-up, and the measured one.

    After the window's last query the driver waits until each is answered or has timed out.
    """

    def __init__(
        self,
        site: LoopContext,
        recorder: Recorder,
        queries: RequestSource,
        step: StepPlan,
        schedules: Schedules,
    ) -> None:
        super().__init__(site, recorder, queries, step)
        self._limits = WindowLimits(
            step.min_duration_ns, step.min_queries, step.max_duration_ns, schedules.last
        )
        self._share = schedules.share
        self._warm_up = EndlessArrivals(schedules.warm_up, schedules.share)
        self._arrivals = MeasuredArrivals(schedules.measured, self._limits, schedules.share)
        self._waiting: list[deque[int]] = [deque() for _ in range(self._servers)]
        self._is_any_waiting = False
        self._add_lag = recorder.lags.append
        self._lag_count = recorder.lags.__len__
        self._pacer = site.pacer(self._wake)
        # A block of due times, and the index of the next one. Two belong to no query: the window's
        # begin and its end; `_mark_place` is the index of the one that comes next.
        self._dues: list[int] = []
        self._next = 0
        self._mark_place = self._end_place = NEVER
        self._is_warming = True
        self._is_window_notified = False
        self._backlog = Backlog()
        self._window_over = False

    @property
    @override
    def silences(self) -> Sequence[Silence]:
        return ()  # the latencies show a stall in full

    @property
    @override
    def open_loop(self) -> bool:
        return True

    @override
    def open_window(self) -> None:
        if self.window_ns != NEVER:
            return
        now = self._clock()
        self.window_ns = now
        self._is_warming = False
        self._dues = [due for due in self._dues[self._next :] if due < now]
        self._next = 0
        self._begin_window()
        if not self._dues:
            self._take_block()
        self._pacer.arm(self._dues[0])

    @override
    def close_window(self) -> None:
        """Do nothing: the schedule, which all workers share, ends the window."""

    @override
    async def close(self) -> None:
        self._pacer.close()
        await super().close()

    @override
    def end(self, why: End) -> None:
        if self.window_ns <= self._clock():
            self._begin_window()
        if self._duration_ns is None:
            self._duration_ns = max(0, self._clock() - self.window_ns)
        self._pacer.close()
        super().end(why)

    @override
    def _start(self, now: int) -> None:
        if not self._step.until_steady:
            self.window_ns = now + self._step.warm_up_ns
        self._take_block()
        self._pacer.arm(self._dues[0])

    def _begin_window(self) -> None:
        """Notify the observer once that the window begins."""
        if self._is_window_notified:
            return
        self._is_window_notified = True
        self._mark_place = self._end_place
        self._notify_window()
        self._seconds.begin(self.window_ns)
        self._timers.later("backlog", self._backlog.interval_ns, self._look_at_backlog)

    def _look_at_backlog(self) -> None:
        self._backlog.add(self.outstanding + sum(map(len, self._waiting)))
        self._timers.later("backlog", self._backlog.interval_ns, self._look_at_backlog)

    def _take_block(self) -> None:
        """Take the next due times: those of queries, of the window's begin and of its end."""
        dues: list[int] = []
        self._next = 0
        while not dues:
            if self._is_warming:
                offsets = self.begin_ns + self._warm_up.take()
                within = int(np.searchsorted(offsets, self.window_ns))
                self._is_warming = within == len(offsets)
                dues = offsets[:within].tolist()
                continue
            if not self._arrivals.count:
                self._check_anew()
                if not self._is_window_notified:
                    self._mark_place = 0
                    dues = [self.window_ns]
            dues += (self.window_ns + self._arrivals.take()).tolist()
            if self._arrivals.is_complete:
                self._end_place = len(dues)
                dues.append(self.window_ns + self._arrivals.duration_ns)
                if self._is_window_notified:
                    self._mark_place = self._end_place
        self._dues = dues

    def _wake(self) -> None:
        """Send every query that is due."""
        dues, place = self._dues, self._next
        for _ in range(_AT_ONCE):
            due = dues[place]
            now = self._clock()
            if due > now:
                break
            if place == self._mark_place:
                if self._is_window_notified:
                    self._close_window(now)
                    return
                self._begin_window()
            else:
                if due >= self.window_ns:
                    if due >= self._seconds.ends_ns:
                        self._seconds.end_until(due)
                    self._add_lag(now - due)
                    if self._lag_count() >= BLOCK:
                        self._recorder.flush()
                server = self._next_server
                self._next_server = (server + 1) % self._servers
                if self._waiting[server] or not self._try_send(server, due, now):
                    self._wait(server, due)
            place += 1
            if place == len(dues):
                self._take_block()
                dues, place = self._dues, 0
        self._next = place
        self._pacer.arm(dues[place])

    def _wait(self, server: int, due: int) -> None:
        self._waiting[server].append(due)
        self._is_any_waiting = True
        if due >= self.window_ns:
            self._recorder.statistics.waited_for_connection += 1

    def _close_window(self, now: int) -> None:
        self._duration_ns = self._arrivals.duration_ns
        self._timers.cancel("backlog")
        usual, tallied = self._backlog.medians(), self._recorder.statistics
        tallied.unanswered_early, tallied.unanswered_late = usual.early, usual.late
        self._notify_window_over()
        self._pacer.close()
        self._window_over = True
        self._go_on(now)

    @override
    def _go_on(self, now: int) -> None:
        if self._is_any_waiting:
            for server, waiting in enumerate(self._waiting):
                # Checking the last reply took a moment that is part of the wait, not of the send.
                while waiting and self._try_send(server, waiting[0], self._clock()):
                    waiting.popleft()
            self._is_any_waiting = any(self._waiting)
        idle = self._window_over and len(self._free) == len(self._since)
        if idle and not self._is_any_waiting:
            self.end(End.MAX_DURATION if self._arrivals.ended_early else End.DONE)

    @override
    def _break_silence(self, now: int) -> None:
        """Do nothing: queries are sent while the server is silent, and their latency shows it."""

    @override
    def _expire(self, now: int) -> int:
        milliseconds = self._timeout_ns / 1_000_000
        message = f"No connection had room for the query within {milliseconds:g} ms."
        failure = Failure(FailureKind.TIMEOUT, message)
        for server, waiting in enumerate(self._waiting):
            while waiting and waiting[0] + self._timeout_ns <= now:
                self._fail_waiting(server, failure)
        return min((waiting[0] for waiting in self._waiting if waiting), default=NEVER)

    @override
    def _abandon(self, why: Failure) -> None:
        for server, waiting in enumerate(self._waiting):
            while waiting:
                self._fail_waiting(server, why)

    def _fail_waiting(self, server: int, failure: Failure) -> None:
        due = self._waiting[server].popleft()
        is_measured = due >= self.window_ns
        if self._chosen is not None:
            self._chosen.take(server, UNSENT, is_measured=is_measured)
        if is_measured:
            self._fail(failure, UNSENT)
            model = self._model_index(UNSENT)
            self._log(due, None, None, failure.kind, UNKNOWN, model)
        else:
            self._recorder.statistics.warm_up_queries += 1

    @override
    def _waiting_since_before(self, time_ns: int) -> int:
        window = self.window_ns
        return sum(
            due >= window
            for waiting in self._waiting
            for due in takewhile(lambda due: due < time_ns, waiting)
        )

    @override
    def _measured_fraction(self, elapsed_ns: int) -> float | None:
        if self._window_over:
            return None
        due = (self._recorder.statistics.scheduled + self._lag_count()) * self._share.workers
        if self._limits.last is not None:
            return due / self._limits.last
        return min(elapsed_ns / self._step.min_duration_ns, due / self._step.min_queries)
