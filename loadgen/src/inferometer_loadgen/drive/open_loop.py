"""How are queries sent at the times of a schedule, whether or not the server keeps up?

A latency counts from the scheduled time. A query that is due while no connection has room waits in
line; one that the driver takes up late is sent late. Neither is ever dropped.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from typing_extensions import override

from inferometer_loadgen.drive.contract import Progress, Queries, Site
from inferometer_loadgen.drive.driver import NEVER, Driver
from inferometer_loadgen.recorder import BLOCK, Recorder
from inferometer_loadgen.schedule import MeasuredArrivals, Schedule, one_by_one
from inferometer_loadgen.steps import End, StepPlan
from inferometer_loadgen.wire import Failure, FailureKind

_AT_ONCE = 256
"""Queries sent in one turn of the loop before replies are looked at again."""


@dataclass(frozen=True, slots=True)
class Schedules:
    """When queries arrive: during warm-up, and from the start of the window."""

    warm_up: Schedule
    measured: Schedule


class OpenLoop(Driver):
    """Sends queries by two schedules: its own for the warm-up, and the measured one.

    After the window's last query the driver waits until each is answered or timed out.
    """

    def __init__(
        self,
        site: Site,
        recorder: Recorder,
        queries: Queries,
        step: StepPlan,
        schedules: Schedules,
    ) -> None:
        super().__init__(site, recorder, queries)
        self._step = step
        self._warm_up = one_by_one(schedules.warm_up)
        self._arrivals = MeasuredArrivals(
            schedules.measured, step.min_duration_ns, step.min_queries, step.max_duration_ns
        )
        self._waiting: list[deque[int]] = [deque() for _ in range(self._servers)]
        self._add_lag = recorder.lags.append
        self._lag_count = recorder.lags.__len__
        self._pacer = site.pacer(self._wake)
        self._dues: Iterator[int] = iter(())
        self._next_due = NEVER
        self._all_sent = False
        self._window_over = False
        self._duration_ns: int | None = None

    @property
    @override
    def duration_ns(self) -> int:
        return self._duration_ns or 0

    @property
    @override
    def open_loop(self) -> bool:
        return True

    @override
    def open_window(self) -> None:
        raise NotImplementedError

    @override
    async def close(self) -> None:
        self._pacer.close()
        await super().close()

    @override
    def end(self, why: End) -> None:
        if self._duration_ns is None:
            self._duration_ns = max(0, self._clock() - self._window_ns)
        self._pacer.close()
        super().end(why)

    @override
    def _start(self, now: int) -> None:
        self._window_ns = now + self._step.warm_up_ns
        self._dues = self._due_times(now)
        self._next_due = next(self._dues)
        self._pacer.arm(self._next_due)
        self._later("window", self._step.warm_up_ns, self._on_window)

    def _on_window(self) -> None:
        self.on_window()
        self._await_second()

    def _due_times(self, begin: int) -> Iterator[int]:
        """Yield the time of each query, and at last that of the window's end."""
        window = self._window_ns
        for offset in self._warm_up:
            if begin + offset >= window:
                break
            yield begin + offset
        self._check_anew()
        for offset in self._arrivals:
            yield window + offset
        self._all_sent = True
        yield window + self._arrivals.duration_ns

    def _wake(self) -> None:
        """Send everything that is due."""
        due = self._next_due
        for _ in range(_AT_ONCE):
            now = self._clock()
            if due > now:
                break
            if self._all_sent:
                self._close_window(now)
                return
            self._take_up(due, now)
            due = next(self._dues)
        self._next_due = due
        self._pacer.arm(due)

    def _take_up(self, due: int, now: int) -> None:
        if due >= self._window_ns:
            self._add_lag(now - due)
            if self._lag_count() >= BLOCK:
                self._recorder.flush()
        server = self._turn
        self._turn = (server + 1) % self._servers
        if self._waiting[server] or not self._try_send(server, due, now):
            self._waiting[server].append(due)
            if due >= self._window_ns:
                self._recorder.tallied.waited_for_connection += 1

    def _close_window(self, now: int) -> None:
        self._duration_ns = self._arrivals.duration_ns
        self._tell_window_over()
        self._pacer.close()
        self._window_over = True
        self._go_on(now)

    @override
    def _go_on(self, now: int) -> None:
        for server, waiting in enumerate(self._waiting):
            while waiting and self._try_send(server, waiting[0], now):
                waiting.popleft()
        idle = self._window_over and len(self._free) == len(self._since)
        if idle and not any(self._waiting):
            self.end(End.MAX_DURATION if self._arrivals.ended_early else End.DONE)

    @override
    def _expire(self, now: int) -> int:
        milliseconds = self._timeout_ns / 1_000_000
        message = f"No connection had room for the query within {milliseconds:g} ms."
        failure = Failure(FailureKind.TIMEOUT, message)
        for waiting in self._waiting:
            while waiting and waiting[0] + self._timeout_ns <= now:
                self._fail_waiting(waiting, failure)
        return min((waiting[0] for waiting in self._waiting if waiting), default=NEVER)

    @override
    def _abandon(self, why: Failure) -> None:
        for waiting in self._waiting:
            while waiting:
                self._fail_waiting(waiting, why)

    def _fail_waiting(self, waiting: deque[int], failure: Failure) -> None:
        if waiting.popleft() >= self._window_ns:
            self._failed(failure)
        else:
            self._recorder.tallied.warm_up_queries += 1

    @override
    def progress(self) -> Progress:
        now = self._clock()
        if now < self._window_ns:
            return Progress(
                measuring=False,
                draining=False,
                elapsed_ns=now - self._begin_ns,
                fraction=(now - self._begin_ns) / max(1, self._step.warm_up_ns),
            )
        elapsed = now - self._window_ns
        if self._window_over:
            over = elapsed - self.duration_ns
            return Progress(
                measuring=True, draining=True, elapsed_ns=over, fraction=over / self._timeout_ns
            )
        done = min(
            elapsed / self._step.min_duration_ns, self._arrivals.count / self._step.min_queries
        )
        return Progress(measuring=True, draining=False, elapsed_ns=elapsed, fraction=done)
