"""How do the workers of a fleet drive one step as if they were one process?"""

import asyncio
import time
from collections.abc import Sequence

from inferometer_api.results.result import WorkerShare
from inferometer_loadgen.drive import StepObserver, StepProgress
from inferometer_loadgen.drive.driver import NEVER
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
from inferometer_loadgen.record.silences import Silence, common_silences
from inferometer_loadgen.schedule.layout import ends_together
from inferometer_loadgen.schedule.steps import SECOND_NS, End, StepPlan

SILENT_AFTER_NS = 5 * SECOND_NS
"""After so long without a word a worker counts as lost: each tells something every second."""
_LOOK_SECONDS = 0.25
_LEAD_NS = 100_000_000
_LEAD_OF_EACH_NS = 1_000_000
"""How far ahead the begin is agreed on, so that everyone has heard of it by then."""
_LAST_WORDS_SECONDS = 5.0
_HURRIED_LAST_WORDS_SECONDS = 1.0
"""How long workers may take to tell their end, once they are asked for it; the shorter where
somebody waits for the run's end."""
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
        shown: WebPageFeed,
        idle: Sequence[int],
    ) -> None:
        self._fleet = fleet
        self._plan = plan
        self._hands = {worker: RemoteWorker(worker, fleet.hellos[worker].node) for worker in ready}
        self._idle = [RemoteWorker(worker, fleet.hellos[worker].node) for worker in idle]
        self._recorder = MergedRecorder(list(ready))
        self._shown = shown
        self._ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._asked: End | None = None
        self._is_window_over_told = False
        self._awaits_enough = ends_together(plan, len(ready))
        """Whether the window ends when we say so, and we have not yet."""
        self._await_window = set(ready)
        self._await_over = set(ready)
        self._going = set(ready)
        """The workers that have not told the begin of their window, its end, the step's end."""
        self._begin_ns = 0
        self.open_loop = next(iter(ready.values())).open_loop
        self.connection_count = sum(each.connections for each in ready.values())
        self.observer = StepObserver()

    # -- a step's life -----------------------------------------------------------------------------

    async def connect(self) -> None:
        """Open all connections; see LoadDriver. Raises WorkerLostError too."""
        workers = list(self._hands)
        offsets = await measure_offsets(self._fleet, own_clock(), workers)
        for worker, offset in offsets.items():
            self.place_clock(worker, offset)
        await self._fleet.request(Connect(), Connected, workers)

    def place_clock(self, worker: int, offset: ClockOffset) -> None:
        """Take note of how far a worker's clock is from ours."""
        self._hands[worker].offset = offset

    async def run(self) -> End:
        """Drive the step to its end and return why it ended."""
        lead_ns = _LEAD_NS + _LEAD_OF_EACH_NS * len(self._hands)
        now = time.monotonic_ns()
        self._begin_ns = now + lead_ns
        with self._fleet.listening(self):
            for worker, hand in self._hands.items():
                hand.agreed_ns = self._begin_ns
                self._fleet.last_message_ns[worker] = now
                if worker in self._fleet.lost:
                    self.on_lost(worker, self._fleet.lost[worker])
                self._fleet.send(Start(self._begin_ns + hand.offset.ahead_ns), [worker])
            looking = asyncio.create_task(self._look())
            try:
                return await self._ended
            finally:
                looking.cancel()
                self._shown.finish()

    def open_window(self) -> None:
        """Begin the window soon, all workers at the same moment."""
        at_ns = time.monotonic_ns() + _LEAD_NS
        for worker, hand in self._hands.items():
            self._fleet.send(OpenWindow(at_ns + hand.offset.ahead_ns), [worker])

    def end(self, why: End) -> None:
        """End the step now; what workers have not told a second later is forgotten."""
        if self._asked is not None or self._ended.done():
            return
        self._asked = why
        self._fleet.send(Finish(why), sorted(self._going))
        hurries = why is End.INTERRUPTED
        seconds = _HURRIED_LAST_WORDS_SECONDS if hurries else _LAST_WORDS_SECONDS
        asyncio.get_running_loop().call_later(seconds, self._give_up)

    async def close(self) -> None:
        """Close every connection; who is lost has none."""
        workers = [worker for worker in self._hands if worker not in self._fleet.lost]
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._fleet.request(Close(), ConnectionsClosed, workers)
        except (TimeoutError, RuntimeError):
            # Whatever is wrong with a worker is told by whoever needs it next.
            return

    # -- what workers say --------------------------------------------------------------------------

    def on_message(self, worker: int, word: WorkerMessage) -> None:
        """Take what a worker said."""
        hand = self._hands.get(worker)
        if hand is None:
            return
        if isinstance(word, WorkerFault):
            self._fleet.on_lost(worker, f"it failed while it drove: {word.message.rstrip('.')}")
        if not isinstance(word, WorkerProgress):
            return
        hand.on_message(word)
        self._recorder.absorb(worker, word.gained)
        self._go_on(hand)
        if hand.end in _ENDS_ALL:
            self.end(hand.end)

    def on_lost(self, worker: int, loss_reason: str) -> None:
        """Take note that a worker is lost: the step ends."""
        hand = self._hands.get(worker)
        if hand is None or not hand.is_going:
            return
        hand.loss_reason = loss_reason
        self._going.discard(worker)
        self.end(End.WORKER_LOST)
        self._go_on(hand)

    def _go_on(self, hand: RemoteWorker) -> None:
        """Tell of what all workers have told now, and end where all have ended."""
        worker = hand.worker
        if self._await_window and (hand.has_window or hand.loss_reason):
            self._await_window.discard(worker)
            if not self._await_window and self.window_ns != NEVER:
                self.observer.begin_window()
        if not hand.is_going:
            self._going.discard(worker)
            self._recorder.leave(worker)
        for second in self._recorder.close_seconds():
            self._shown.add_second(second)
            if second.seconds == 1.0:
                self.observer.second()
        self._close_window_where_enough()
        if hand.is_window_over or hand.loss_reason:
            self._await_over.discard(worker)
        if not self._await_over and not self._await_window:
            self._tell_window_over()
        if not self._going:
            self._finish()

    def _close_window_where_enough(self) -> None:
        """End the window soon, for all at the same moment, once all together have what it takes."""
        if not self._awaits_enough or self._await_window or self.window_ns == NEVER:
            return
        at_ns = time.monotonic_ns() + _LEAD_NS
        hands = self._hands.values()
        begun_ns = max(hand.window_ns or 0 for hand in hands)
        queries = sum(hand.queries for hand in hands)
        if queries >= self._plan.min_queries and at_ns - begun_ns >= self._plan.min_duration_ns:
            self._awaits_enough = False
            for hand in hands:
                self._fleet.send(CloseWindow(at_ns + hand.offset.ahead_ns), [hand.worker])

    def _tell_window_over(self) -> None:
        if not self._is_window_over_told and self.window_ns != NEVER:
            self._is_window_over_told = True
            self.observer.end_window()

    def _give_up(self) -> None:
        """End without those who have not told their end."""
        if self._ended.done():
            return
        for worker in sorted(self._going):
            self._hands[worker].loss_reason = "it did not tell its end"
            self._go_on(self._hands[worker])

    def _finish(self) -> None:
        if self._ended.done():
            return
        ends = {hand.end for hand in self._hands.values()} | {self._asked}
        self._ended.set_result(next(end for end in _GRAVEST if end in ends))

    async def _look(self) -> None:
        """Take a worker for lost that says nothing any more."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = time.monotonic_ns()
            for hand in [self._hands[worker] for worker in self._going]:
                if (
                    now - max(self._fleet.last_message_ns[hand.worker], self._begin_ns)
                    > SILENT_AFTER_NS
                ):
                    seconds = SILENT_AFTER_NS // SECOND_NS
                    self._fleet.on_lost(hand.worker, f"nothing was heard for {seconds} s")

    # -- what is known of it -----------------------------------------------------------------------

    @property
    def recorder(self) -> MergedRecorder:
        """What came of the queries of all workers, at most a second ago."""
        return self._recorder

    @property
    def last_error(self) -> str:
        """Why a server that was lost could not be reached again, as a sentence; else empty."""
        told = (hand.told.last_error for hand in self._hands.values() if hand.told)
        return next(filter(None, told), "")

    def progress(self) -> StepProgress:
        """Tell how far the step is: as far as the worker that is furthest behind."""
        told = [hand.told for hand in self._hands.values() if hand.told is not None]
        now = time.monotonic_ns()
        window_ns = self.window_ns
        measuring = window_ns <= now
        draining = measuring and bool(told) and all(each.draining for each in told)
        return StepProgress(
            measuring=measuring,
            draining=draining,
            elapsed_ns=max(0, now - (window_ns if measuring else self._begin_ns)),
            fraction=min((each.fraction for each in told), default=0.0),
        )

    @property
    def begin_ns(self) -> int:
        """When the step began."""
        return self._begin_ns

    @property
    def window_ns(self) -> int:
        """When the first worker's window began; `NEVER` where none did."""
        found = [hand.window_ns for hand in self._hands.values() if hand.window_ns is not None]
        return min(found, default=NEVER)

    @property
    def duration_ns(self) -> int:
        """How long the window was: in a closed loop until the last worker's was over."""
        hands = list(self._hands.values())
        if self.open_loop:
            duration_ns = max((hand.told.duration_ns for hand in hands if hand.told), default=0)
        else:
            over_ns = max((hand.window_over_ns for hand in hands), default=0)
            duration_ns = max(0, over_ns - self.window_ns)
        # Where nobody could tell the end any more, it lasted as long as is told of.
        return duration_ns or self._recorder.statistics.windows.duration_ns

    @property
    def silences(self) -> Sequence[Silence]:
        """When the server was silent to all workers that had a part."""
        hands = self._hands.values()
        over_ns = max((hand.window_over_ns for hand in hands), default=0)
        return common_silences([found for hand in hands if (found := hand.silences_until(over_ns))])

    @property
    def last_reply_ns(self) -> int:
        """When the last measured query was answered well."""
        return max((hand.last_reply_ns for hand in self._hands.values()), default=0)

    @property
    def outstanding(self) -> int:
        """Queries sent and not answered."""
        return sum(hand.told.outstanding for hand in self._hands.values() if hand.told)

    def overdue(self, bound_ns: int) -> int:
        """Tell how many queries wait or are under way for longer than the step's bound."""
        del bound_ns  # each worker knows that of the step
        return sum(hand.told.overdue for hand in self._hands.values() if hand.told)

    @property
    def reconnects(self) -> int:
        """How often a connection was lost and opened again."""
        return sum(hand.told.reconnects for hand in self._hands.values() if hand.told)

    @property
    def client(self) -> FleetClient:
        """The measuring processes of all workers together."""
        return FleetClient(self._hands.values())

    @property
    def workers(self) -> Sequence[WorkerShare]:
        """What each worker did."""
        hands = [*self._hands.values(), *self._idle]
        return [hand.share() for hand in sorted(hands, key=lambda hand: hand.worker)]
