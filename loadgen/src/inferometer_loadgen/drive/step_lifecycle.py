"""Life of a driven step: its connections, its window, its end."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

from inferometer_api.results.result import WorkerShare
from inferometer_loadgen.client.load_client import OwnProcess
from inferometer_loadgen.drive.connection_pool import ConnectionPool
from inferometer_loadgen.drive.contract import (
    NEVER,
    LoopContext,
    OpenConnection,
    RequestSource,
    StepObserver,
    StepProgress,
)
from inferometer_loadgen.drive.timers import Seconds, Timers
from inferometer_loadgen.record.recorder import Recorder
from inferometer_loadgen.record.silences import Silence
from inferometer_loadgen.schedule.steps import SECOND_NS, End, StepPlan
from inferometer_loadgen.wire import Failure, FailureKind

_WATCH_NS = SECOND_NS // 4


class StepLifecycle(ABC):
    """Begins one step, opens and closes its window, and ends it; see LoadDriver.

    Times are nanoseconds of one monotonic clock.
    """

    def __init__(
        self, site: LoopContext, recorder: Recorder, queries: RequestSource, step: StepPlan
    ) -> None:
        self._clock = site.clock
        self._step = step
        self._recorder = recorder
        self._servers = len(queries.requests)
        self._timeout_ns = queries.timeout_ns
        self._reconnect_deadline_ns = queries.reconnect_deadline_ns
        self._pool = ConnectionPool(self._servers)
        self.observer = StepObserver()

        self._ended: asyncio.Future[End] = site.loop.create_future()
        self._is_over = False
        self._timers = Timers(site.loop)
        self._seconds = Seconds(site.clock, self._timers, self._end_second)
        self._warm_up_seconds = Seconds(site.clock, self._timers, recorder.end_warm_up_second)
        self.begin_ns = 0
        self.window_ns = NEVER
        self._duration_ns: int | None = None
        self._is_window_over_notified = False
        self.last_error = ""
        """Why the lost server could not be reached again, as a sentence."""

    # -- what a subclass decides -------------------------------------------------------------------

    @abstractmethod
    def _start(self, now: int) -> None:
        """Send or schedule the first query."""

    @abstractmethod
    def _check_deadlines(self) -> None:
        """Fail queries past their deadline, and call again when the next one reaches its own."""

    @abstractmethod
    def _abandon(self, why: Failure) -> None:
        """Give up unsent queries; they count as failed."""

    @abstractmethod
    def _measured_fraction(self, elapsed_ns: int) -> float | None:
        """Return how far the window is so long after its begin; None once it is over."""

    @abstractmethod
    def open_window(self) -> None:
        """Begin the window now, if the plan's warm-up lasts until it is steady."""

    @abstractmethod
    def close_window(self) -> None:
        """End the window now, if the plan leaves that to the fleet."""

    @property
    @abstractmethod
    def open_loop(self) -> bool:
        """Whether queries are sent by a schedule."""

    @property
    @abstractmethod
    def silences(self) -> Sequence[Silence]:
        """When no query of a closed loop succeeded; known once the window is over."""

    # -- a step's life ---------------------------------------------------------------------------

    def configure(self, openers: Sequence[OpenConnection], count: int) -> None:
        """Set how to open a connection to each server, and how many to open to each."""
        self._pool.configure(openers, count)

    async def run(self, begin_ns: int | None = None) -> End:
        """Drive the step to its end and return why it ended; it begins now or at `begin_ns`."""
        now = self._clock()
        begin = self.begin_ns = now if begin_ns is None else begin_ns
        self._pool.begin(now)
        self._timers.later("deadline", self._timeout_ns, self._check_deadlines)
        self._timers.later("watch", _WATCH_NS, self._watch)
        if self._step.until_steady:
            self._warm_up_seconds.begin(begin)
        try:
            self._start(begin)
            return await self._ended
        finally:
            self._timers.cancel_all()

    async def close(self) -> None:
        """Close every connection."""
        self.client.close()
        await self._pool.close()

    def end(self, why: End) -> None:
        """End the step now and drop outstanding queries.

        Queries that wait for a lost server have failed, whichever worker of a fleet lost it.
        """
        if self._ended.done():
            return
        if why is End.SERVER_LOST:
            self.last_error = self._pool.last_error
            seconds = self._reconnect_deadline_ns // SECOND_NS
            message = f"There was no connection to the server for {seconds} s. {self.last_error}"
            self._abandon(Failure(FailureKind.CONNECTION, message.rstrip()))
        if self.window_ns <= self._clock():
            self._notify_window_over()
            self._recorder.end(self._seconds.end())
        self._is_over = True
        self._ended.set_result(why)

    @property
    def recorder(self) -> Recorder:
        """The results of the queries so far."""
        return self._recorder

    @cached_property
    def client(self) -> OwnProcess:
        """This process."""
        return OwnProcess(wakes=not self.open_loop)  # which has its dispatch lag

    @property
    def workers(self) -> Sequence[WorkerShare]:
        """None: this process drives."""
        return ()

    @property
    def reconnects(self) -> int:
        """How often a lost connection was reopened."""
        return self._pool.reconnects

    @property
    def connection_count(self) -> int:
        """Connections to each server."""
        return self._pool.count

    @property
    def duration_ns(self) -> int:
        """How long the window was; read when the step is over."""
        return self._duration_ns or 0

    def progress(self) -> StepProgress:
        """Return the progress of the step."""
        now = self._clock()
        if now < self.window_ns:
            elapsed = now - self.begin_ns
            fraction = elapsed / max(1, self._step.warm_up_ns)
            return StepProgress(
                measuring=False, draining=False, elapsed_ns=elapsed, fraction=fraction
            )
        elapsed = now - self.window_ns
        done = self._measured_fraction(elapsed)
        if done is None:
            over = elapsed - self.duration_ns
            fraction = over / self._timeout_ns
            return StepProgress(measuring=True, draining=True, elapsed_ns=over, fraction=fraction)
        return StepProgress(measuring=True, draining=False, elapsed_ns=elapsed, fraction=done)

    def _watch(self) -> None:
        """End the step if a server has had no connection for too long."""
        now = self._clock()
        if self._pool.lost_for_ns(now) >= self._reconnect_deadline_ns:
            self.end(End.SERVER_LOST)
            return
        self._timers.later("watch", _WATCH_NS, self._watch)

    def _notify_window(self) -> None:
        """Notify the observer that the window begins; its time is set before."""
        if self._step.until_steady:
            self._warm_up_seconds.end()
        self.observer.begin_window()
        self._recorder.begin_window()

    def _notify_window_over(self) -> None:
        """Notify the observer once: a window may end before its step does."""
        if self._is_window_over_notified:
            return
        self._is_window_over_notified = True
        self._recorder.end_window()
        self.observer.end_window()

    def _end_second(self) -> None:
        self._recorder.end_second()
        self.observer.second()
