"""Drives one step with the workers of a fleet as if they were one process."""

import asyncio
import time
from collections.abc import Sequence

from inferometer_api.results.result import WorkerShare
from inferometer_loadgen.drive import NEVER, StepObserver, StepProgress
from inferometer_loadgen.fleet.clock_sync import ClockOffset, measure_offsets, own_clock
from inferometer_loadgen.fleet.deltas import MergedRecorder
from inferometer_loadgen.fleet.fleet import Fleet, WebPageFeed
from inferometer_loadgen.fleet.messages import (
    Close,
    CloseWindow,
    Connect,
    Connected,
    ConnectionsClosed,
    Finish,
    OpenWindow,
    Ready,
    Start,
    WorkerFault,
    WorkerMessage,
    WorkerProgress,
)
from inferometer_loadgen.fleet.worker_state import FleetClient, RemoteWorker
from inferometer_loadgen.record.request_tracer import ClientTrace
from inferometer_loadgen.record.silences import Silence, common_silences
from inferometer_loadgen.schedule.layout import ends_together
from inferometer_loadgen.schedule.steps import SECOND_NS, End, StepPlan

SILENT_AFTER_NS = 5 * SECOND_NS
"""A worker without a report for this long counts as lost; each reports every second."""
_CHECK_SECONDS = 0.25
_LEAD_NS = 100_000_000
_LEAD_OF_EACH_NS = 1_000_000
"""How far ahead the start is agreed, so that every worker has the order by then."""
_LAST_WORDS_SECONDS = 5.0
_HURRIED_LAST_WORDS_SECONDS = 1.0
"""How long workers may take to report their end after the order to finish; the shorter one if a
user interrupted the run."""
_CLOSE_SECONDS = 2.0

_GRAVEST = (
    End.WORKER_LOST,
    End.SERVER_LOST,
    End.INTERRUPTED,
    End.MAX_DURATION,
    End.DECIDED,
    End.DONE,
)
_ENDS_ALL = frozenset({End.SERVER_LOST, End.INTERRUPTED})
"""Ends of one worker that leave nothing to wait for from the others."""


class FleetDriver:
    """One step, driven by some workers of a fleet. See LoadDriver."""

    def __init__(
        self,
        fleet: Fleet,
        plan: StepPlan,
        ready: dict[int, Ready],
        page_feed: WebPageFeed,
        idle: Sequence[int],
    ) -> None:
        self._fleet = fleet
        self._plan = plan
        self._remotes = {
            worker: RemoteWorker(worker, fleet.hellos[worker].node) for worker in ready
        }
        self._idle = [RemoteWorker(worker, fleet.hellos[worker].node) for worker in idle]
        self._recorder = MergedRecorder(list(ready))
        self._page_feed = page_feed
        self._ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._requested_end: End | None = None
        self._is_window_over_reported = False
        self._awaits_enough = ends_together(plan, len(ready))
        """Whether the window ends on our order, which is not given yet."""
        self._await_window = set(ready)
        self._await_over = set(ready)
        self._going = set(ready)
        """Workers that have not reported the start of their window, its end, the step's end."""
        self._begin_ns = 0
        self.open_loop = next(iter(ready.values())).open_loop
        self.connection_count = sum(each.connections for each in ready.values())
        self.observer = StepObserver()

    # -- a step's life -----------------------------------------------------------------------------

    async def connect(self) -> None:
        """Open all connections; see LoadDriver. Raises WorkerLostError too."""
        workers = list(self._remotes)
        offsets = await measure_offsets(self._fleet, own_clock(), workers)
        for worker, offset in offsets.items():
            self.place_clock(worker, offset)
        await self._fleet.request(Connect(), Connected, workers)

    def place_clock(self, worker: int, offset: ClockOffset) -> None:
        """Set how far a worker's clock is from ours."""
        self._remotes[worker].offset = offset

    async def run(self) -> End:
        """Drive the step to its end and return why it ended."""
        lead_ns = _LEAD_NS + _LEAD_OF_EACH_NS * len(self._remotes)
        now = time.monotonic_ns()
        self._begin_ns = now + lead_ns
        with self._fleet.listening(self):
            for worker, remote in self._remotes.items():
                remote.agreed_ns = self._begin_ns
                self._fleet.last_message_ns[worker] = now
                if worker in self._fleet.lost:
                    self.on_lost(worker, self._fleet.lost[worker])
                self._fleet.send(Start(self._begin_ns + remote.offset.ahead_ns), [worker])
            watching = asyncio.create_task(self._watch_reports())
            try:
                return await self._ended
            finally:
                watching.cancel()
                self._page_feed.finish()

    def open_window(self) -> None:
        """Begin the window soon, all workers at the same moment."""
        at_ns = time.monotonic_ns() + _LEAD_NS
        for worker, remote in self._remotes.items():
            self._fleet.send(OpenWindow(at_ns + remote.offset.ahead_ns), [worker])

    def end(self, why: End) -> None:
        """End the step now; workers that do not report their end in time are given up."""
        if self._requested_end is not None or self._ended.done():
            return
        self._requested_end = why
        self._fleet.send(Finish(why), sorted(self._going))
        hurries = why is End.INTERRUPTED
        seconds = _HURRIED_LAST_WORDS_SECONDS if hurries else _LAST_WORDS_SECONDS
        asyncio.get_running_loop().call_later(seconds, self._give_up)

    async def close(self) -> None:
        """Close every connection; lost workers have none."""
        workers = [worker for worker in self._remotes if worker not in self._fleet.lost]
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._fleet.request(Close(), ConnectionsClosed, workers)
        except (TimeoutError, RuntimeError):
            # The next order to that worker reports the fault.
            return

    # -- reports of workers ------------------------------------------------------------------------

    def on_message(self, worker: int, message: WorkerMessage) -> None:
        """Take a message of a worker."""
        remote = self._remotes.get(worker)
        if remote is None:
            return
        if isinstance(message, WorkerFault):
            self._fleet.on_lost(
                worker, f"it failed while it drove the load: {message.message.rstrip('.')}"
            )
        if not isinstance(message, WorkerProgress):
            return
        remote.update(message)
        self._recorder.add_delta(worker, message.gained)
        self._advance(remote)
        if remote.end in _ENDS_ALL:
            self.end(remote.end)

    def on_lost(self, worker: int, loss_reason: str) -> None:
        """End the step, because a worker is lost."""
        remote = self._remotes.get(worker)
        if remote is None or not remote.is_going:
            return
        remote.loss_reason = loss_reason
        self._going.discard(worker)
        self.end(End.WORKER_LOST)
        self._advance(remote)

    def _advance(self, remote: RemoteWorker) -> None:
        """Call the callbacks for what all workers have reached now; end if all have ended."""
        worker = remote.worker
        if self._await_window and (remote.has_window or remote.loss_reason):
            self._await_window.discard(worker)
            if not self._await_window and self.window_ns != NEVER:
                self.observer.begin_window()
        if not remote.is_going:
            self._going.discard(worker)
            self._recorder.leave(worker)
        for second in self._recorder.close_seconds():
            self._page_feed.add_second(second)
            if second.seconds == 1.0:
                self.observer.second()
        self._close_window_if_enough()
        if remote.is_window_over or remote.loss_reason:
            self._await_over.discard(worker)
        if not self._await_over and not self._await_window:
            self._report_window_over()
        if not self._going:
            self._finish()

    def _close_window_if_enough(self) -> None:
        """End all windows at one time soon, once the workers together reach the minimums."""
        if not self._awaits_enough or self._await_window or self.window_ns == NEVER:
            return
        at_ns = time.monotonic_ns() + _LEAD_NS
        remotes = self._remotes.values()
        begun_ns = max(remote.window_ns or 0 for remote in remotes)
        queries = sum(remote.queries for remote in remotes)
        if queries >= self._plan.min_queries and at_ns - begun_ns >= self._plan.min_duration_ns:
            self._awaits_enough = False
            for remote in remotes:
                self._fleet.send(CloseWindow(at_ns + remote.offset.ahead_ns), [remote.worker])

    def _report_window_over(self) -> None:
        if not self._is_window_over_reported and self.window_ns != NEVER:
            self._is_window_over_reported = True
            self.observer.end_window()

    def _give_up(self) -> None:
        """End without the workers that have not reported their end."""
        if self._ended.done():
            return
        for worker in sorted(self._going):
            self._remotes[worker].loss_reason = "it did not report its end"
            self._advance(self._remotes[worker])

    def _finish(self) -> None:
        if self._ended.done():
            return
        ends = {remote.end for remote in self._remotes.values()} | {self._requested_end}
        self._ended.set_result(next(end for end in _GRAVEST if end in ends))

    async def _watch_reports(self) -> None:
        """Report workers that have become silent as lost."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            now = time.monotonic_ns()
            for remote in [self._remotes[worker] for worker in self._going]:
                if (
                    now - max(self._fleet.last_message_ns[remote.worker], self._begin_ns)
                    > SILENT_AFTER_NS
                ):
                    seconds = SILENT_AFTER_NS // SECOND_NS
                    self._fleet.on_lost(remote.worker, f"nothing was heard for {seconds} s")

    # -- figures of the step -----------------------------------------------------------------------

    @property
    def recorder(self) -> MergedRecorder:
        """Merged counts of all workers, at most a second old."""
        return self._recorder

    @property
    def last_error(self) -> str:
        """Why a lost server could not be reached again, as a sentence; else empty."""
        errors = (
            remote.progress.last_error for remote in self._remotes.values() if remote.progress
        )
        return next(filter(None, errors), "")

    def progress(self) -> StepProgress:
        """Return the progress of the worker that is furthest behind."""
        reports = [
            remote.progress for remote in self._remotes.values() if remote.progress is not None
        ]
        now = time.monotonic_ns()
        window_ns = self.window_ns
        measuring = window_ns <= now
        draining = measuring and bool(reports) and all(each.draining for each in reports)
        return StepProgress(
            measuring=measuring,
            draining=draining,
            elapsed_ns=max(0, now - (window_ns if measuring else self._begin_ns)),
            fraction=min((each.fraction for each in reports), default=0.0),
        )

    @property
    def begin_ns(self) -> int:
        """When the step began."""
        return self._begin_ns

    @property
    def window_ns(self) -> int:
        """When the first worker's window began; `NEVER` if none did."""
        found = [
            remote.window_ns for remote in self._remotes.values() if remote.window_ns is not None
        ]
        return min(found, default=NEVER)

    @property
    def duration_ns(self) -> int:
        """How long the window was: in a closed loop until the last worker's was over."""
        remotes = list(self._remotes.values())
        if self.open_loop:
            duration_ns = max(
                (remote.progress.duration_ns for remote in remotes if remote.progress), default=0
            )
        else:
            over_ns = max((remote.window_over_ns for remote in remotes), default=0)
            duration_ns = max(0, over_ns - self.window_ns)
        # If no worker could report the end, it lasted as long as the reported seconds.
        return duration_ns or self._recorder.statistics.windows.duration_ns

    @property
    def silences(self) -> Sequence[Silence]:
        """Times when the server was silent to all workers with a share."""
        remotes = self._remotes.values()
        over_ns = max((remote.window_over_ns for remote in remotes), default=0)
        return common_silences(
            [found for remote in remotes if (found := remote.silences_until(over_ns))]
        )

    @property
    def last_reply_ns(self) -> int:
        """When the last measured query was answered successfully."""
        return max((remote.last_reply_ns for remote in self._remotes.values()), default=0)

    @property
    def outstanding(self) -> int:
        """Queries sent and not answered."""
        return sum(
            remote.progress.outstanding for remote in self._remotes.values() if remote.progress
        )

    def overdue(self, bound_ns: int) -> int:
        """Return how many queries wait or are under way for longer than the step's bound."""
        del bound_ns  # each worker knows that of the step
        return sum(remote.progress.overdue for remote in self._remotes.values() if remote.progress)

    @property
    def reconnects(self) -> int:
        """How often a connection was lost and opened again."""
        return sum(
            remote.progress.reconnects for remote in self._remotes.values() if remote.progress
        )

    @property
    def client(self) -> FleetClient:
        """The measuring processes of all workers together."""
        return FleetClient(self._remotes.values())

    @property
    def workers(self) -> Sequence[WorkerShare]:
        """Each worker's part of the result document."""
        remotes = [*self._remotes.values(), *self._idle]
        return [remote.share() for remote in sorted(remotes, key=lambda remote: remote.worker)]

    @property
    def traces(self) -> Sequence[ClientTrace]:
        """None: a fleet traces nothing."""
        return ()
