"""Closed-loop driver: keeps queries outstanding, sends the next as soon as one is answered.

Latency counts from the send.
"""

from collections.abc import Sequence

from typing_extensions import override

from inferometer_api.scenarios.step_setting import Closed
from inferometer_loadgen.drive.contract import NEVER, LoopContext, RequestSource
from inferometer_loadgen.drive.driver import Driver
from inferometer_loadgen.record.recorder import BLOCK, Recorder
from inferometer_loadgen.record.silences import Silence, Silences
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.wire import Failure, ReplyBody


class ClosedLoop(Driver):
    """Keeps so many queries outstanding as there are clients, or as the connections have room for.

    The window begins with the first query sent after the warm-up, and ends with the answer that
    fulfils both minimums or arrives after the maximum. The driver then waits for each outstanding
    query: the queries of a window are those sent within it, so that no slow one is lost.

    If the number of queries is set, the window begins with nothing outstanding and ends with the
    last answer. A worker's window ends when its fleet says so, or after the maximum.
    """

    def __init__(
        self,
        site: LoopContext,
        recorder: Recorder,
        queries: RequestSource,
        step: StepPlan,
        closed: Closed,
    ) -> None:
        super().__init__(site, recorder, queries, step)
        self._clients = NEVER if closed.clients is None else closed.clients
        self._total = closed.total_queries
        self._next_request = self._requests[0].__next__
        self._left = [NEVER] * self._servers
        """How many queries may still be sent to each server, if their number is set."""
        self._open_requested = False
        self._why: End | None = None
        """Why the window is over, once it is."""
        self._again_until_ns = 0
        """Until then each successful answer is followed by the next query on its connection."""
        self._silences = Silences()
        """Within the window: each from one successful answer to the next."""
        self._heeded_ns = 0

    @property
    @override
    def silences(self) -> Sequence[Silence]:
        return () if self._duration_ns is None else self._silences.found

    @property
    @override
    def open_loop(self) -> bool:
        return False

    @override
    def open_window(self) -> None:
        self._open_requested = True
        if not self.outstanding:
            self._go_on(self._clock())

    @override
    def close_window(self) -> None:
        if self.window_ns != NEVER and self._why is None and not self._is_over:
            self._close_window(self._clock(), End.DONE)

    @override
    def end(self, why: End) -> None:
        self._again_until_ns = 0
        if self.window_ns != NEVER and self._duration_ns is None:
            self._measure_window(self._clock())
        super().end(why)

    @override
    def _on_reply(self, token: int, failure: Failure | None, reply: ReplyBody | None) -> None:
        """Handle an answer on the fast path: nearly every one is followed by the next query."""
        now, since = self._clock(), self._since[token]
        connection = self._connections[self._carrier[token]]
        if (
            now >= self._again_until_ns
            or since < self.window_ns
            or failure is not None
            or reply is not None
            or connection.outstanding >= connection.capacity
        ):
            super()._on_reply(token, failure, reply)
            return
        self._measured = measured = self._measured + 1
        if now - self.last_reply_ns > self._heeded_ns:
            self._add_silence(now)
        self.last_reply_ns = now
        self._add_latency(now - since)
        if not measured % BLOCK:
            self._recorder.flush()
        self._sends = sends = self._sends + 1
        keep = sends >= self._next_checked
        if keep:
            self._choose_next_checked()
        self._since[token] = self._clock()
        if sends >= self._next_traced:
            self._send_traced(self._next_request(), token, keep)
        else:
            connection.send(self._next_request(), token, keep)

    @override
    def _start(self, now: int) -> None:
        wait_ns = now - self._clock()
        if wait_ns > 0:
            self._timers.later("start", wait_ns, lambda: self._start(now))
            return
        self._go_on(now)

    @override
    def _go_on(self, now: int) -> None:
        if self._why is not None:
            if not self.outstanding:
                self.end(self._why)
            return
        if self.window_ns == NEVER:
            if self._is_warm(now):
                if self._total is not None and self.outstanding:
                    return
                self._open_window(now)
                if self._total == 0:  # a worker's share with fewer queries than workers
                    self._close_window(now, End.DONE)
                    return
        elif (why := self._is_done(now)) is not None:
            self._close_window(now, why)
            return
        self._send()

    def _is_warm(self, now: int) -> bool:
        if self._open_requested:
            return True
        return not self._step.until_steady and now - self.begin_ns >= self._step.warm_up_ns

    def _is_done(self, now: int) -> End | None:
        elapsed = now - self.window_ns
        enough = self._measured >= self._step.min_queries
        lasted = self._total is not None or elapsed >= self._step.min_duration_ns
        if enough and lasted and not self._step.ends_with_fleet:
            return End.DONE
        if elapsed >= self._step.max_duration_ns:
            return End.DONE if enough else End.MAX_DURATION
        return None

    def _send(self) -> None:
        """Send as many queries as the connections have room for.

        Clients take turns over the servers. If the number of queries is set, each server receives
        its own part of them, however fast the others are.
        """
        # Counting the last answer took a moment that is not part of the next query's latency.
        if self._total is None:
            for _ in range(self._clients - len(self._since) + len(self._free)):
                sent = self._clock()
                if not self._try_send(self._next_server, sent, sent):
                    return
                self._next_server = (self._next_server + 1) % self._servers
            return
        for server in range(self._servers):
            while self._left[server] and self.outstanding < self._clients:
                sent = self._clock()
                if not self._try_send(server, sent, sent):
                    break
                self._left[server] -= 1

    @override
    def _break_silence(self, now: int) -> None:
        if self.window_ns <= now and self._duration_ns is None:
            if now - self.last_reply_ns > self._heeded_ns:
                self._add_silence(now)
            self.last_reply_ns = now

    def _add_silence(self, now: int) -> None:
        self._silences.add(self.last_reply_ns, now)
        self._heeded_ns = self._silences.threshold_ns

    def _open_window(self, now: int) -> None:
        self.window_ns = self.last_reply_ns = now
        self._notify_window()
        if self._total is not None:
            servers = self._servers
            self._left = [(self._total + servers - 1 - each) // servers for each in range(servers)]
        elif self._servers == 1 and self._chosen is None:
            self._again_until_ns = now + self._step.min_duration_ns
        self._check_anew()
        self._seconds.begin(now)
        self._timers.later("maximum", self._step.max_duration_ns, self._on_maximum)

    def _close_window(self, now: int, why: End) -> None:
        self._measure_window(now)
        self._again_until_ns = 0
        self._why = why
        self._notify_window_over()
        if not self.outstanding:
            self.end(why)

    def _measure_window(self, now: int) -> None:
        """Record how long the window was that ends now, and its last silence."""
        self._duration_ns = now - self.window_ns
        self._add_silence(now)

    def _on_maximum(self) -> None:
        """End a step that stalls without a connection, at its maximum duration."""
        now = self._clock()
        left = self.window_ns + self._step.max_duration_ns - now
        if left > 0:
            self._timers.later("maximum", left, self._on_maximum)
        elif not self.outstanding:
            self._go_on(now)

    @override
    def _expire(self, now: int) -> int:
        return NEVER

    @override
    def _abandon(self, why: Failure) -> None:
        """Do nothing: no query waits, each is made when it can be sent."""

    @override
    def _waiting_since_before(self, time_ns: int) -> int:
        return 0

    @override
    def _measured_fraction(self, elapsed_ns: int) -> float | None:
        if self._why is not None:
            return None
        done = self._measured / max(1, self._step.min_queries)
        return (
            done if self._total is not None else min(elapsed_ns / self._step.min_duration_ns, done)
        )
