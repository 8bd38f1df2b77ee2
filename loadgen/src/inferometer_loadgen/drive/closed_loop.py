"""How is one query kept outstanding, the next sent as soon as the last is answered?

A latency counts from the send.
"""

from typing_extensions import override

from inferometer_loadgen.drive.contract import Progress, Queries, Site
from inferometer_loadgen.drive.driver import NEVER, Driver
from inferometer_loadgen.recorder import Recorder
from inferometer_loadgen.steps import End, StepPlan
from inferometer_loadgen.wire import Failure


class ClosedLoop(Driver):
    """Keeps one query outstanding.

    The window begins with the first query sent after the warm-up, and ends with the answer that
    fulfils both minimums or comes after the maximum.
    """

    def __init__(
        self,
        site: Site,
        recorder: Recorder,
        queries: Queries,
        step: StepPlan,
    ) -> None:
        super().__init__(site, recorder, queries)
        self._step = step
        self._duration_ns = 0

    @property
    @override
    def duration_ns(self) -> int:
        return self._duration_ns

    @property
    @override
    def open_loop(self) -> bool:
        return False

    @override
    def open_window(self) -> None:
        if self._window_ns == NEVER:
            self._open_window(self._clock())

    @override
    def end(self, why: End) -> None:
        if self._ended.done():
            return
        if self._window_ns != NEVER:
            self._duration_ns = self._clock() - self._window_ns
        super().end(why)

    @override
    def _start(self, now: int) -> None:
        self._go_on(now)

    @override
    def _go_on(self, now: int) -> None:
        if len(self._free) != len(self._since):
            return
        if self._window_ns == NEVER:
            if now - self._begin_ns >= self._step.warm_up_ns:
                self._open_window(now)
        else:
            elapsed = now - self._window_ns
            enough = self._measured >= self._step.min_queries
            if enough and elapsed >= self._step.min_duration_ns:
                self.end(End.DONE)
                return
            if elapsed >= self._step.max_duration_ns:
                self.end(End.DONE if enough else End.MAX_DURATION)
                return
        # Counting the last answer took a moment, which is none of the next query's latency.
        sent = self._clock()
        if self._try_send(self._turn, sent, sent):
            self._turn = (self._turn + 1) % self._servers

    def _open_window(self, now: int) -> None:
        self.on_window()
        self._window_ns = now
        self._check_anew()
        self._await_second()
        self._later("maximum", self._step.max_duration_ns, self._on_maximum)

    def _on_maximum(self) -> None:
        """End a step that stands still, without a connection, at its maximum duration."""
        now = self._clock()
        left = self._window_ns + self._step.max_duration_ns - now
        if left > 0:
            self._later("maximum", left, self._on_maximum)
        else:
            self._go_on(now)

    @override
    def _expire(self, now: int) -> int:
        return NEVER

    @override
    def _abandon(self, why: Failure) -> None:
        """Nothing waits: a query is made when it can be sent."""

    @override
    def progress(self) -> Progress:
        now = self._clock()
        if self._window_ns == NEVER:
            elapsed = now - self._begin_ns
            return Progress(
                measuring=False,
                draining=False,
                elapsed_ns=elapsed,
                fraction=elapsed / max(1, self._step.warm_up_ns),
            )
        elapsed = now - self._window_ns
        done = min(elapsed / self._step.min_duration_ns, self._measured / self._step.min_queries)
        return Progress(measuring=True, draining=False, elapsed_ns=elapsed, fraction=done)
