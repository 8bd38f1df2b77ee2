"""Base class of open and closed loops: queries in flight, their replies, their deadlines.

This is the hot path: a query in flight is a number, the index of its times in lists that are
reused. Times are nanoseconds of one monotonic clock. Servers take turns: a query belongs to one
server from the moment it is due, so that they share queries evenly however long each takes.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import cycle

from typing_extensions import override

from inferometer_loadgen.drive.contract import NEVER, LoopContext, RequestSource
from inferometer_loadgen.drive.step_lifecycle import StepLifecycle
from inferometer_loadgen.record.recorder import BLOCK, Recorder
from inferometer_loadgen.record.request_log import STATUSES, UNKNOWN, RequestLog
from inferometer_loadgen.record.request_tracer import ClientTrace, RequestTracer
from inferometer_loadgen.requests.replies import FIRST, gaps
from inferometer_loadgen.schedule.steps import StepPlan
from inferometer_loadgen.wire import (
    Connection,
    Failure,
    FailureKind,
    OnReply,
    PreparedRequest,
    ReplyBody,
    no_answer_message,
)

_FREE = -1


class Driver(StepLifecycle):
    """Sends the queries of one step and records the result of each."""

    def __init__(
        self, site: LoopContext, recorder: Recorder, queries: RequestSource, step: StepPlan
    ) -> None:
        super().__init__(site, recorder, queries, step)
        self._requests: list[Iterator[PreparedRequest]] = [cycle(each) for each in queries.requests]
        self._next_server = 0
        self._check = queries.check
        self._chosen = queries.chosen

        self._connections = self._pool.connections
        self._ready = self._pool.ready
        self._is_ready = self._pool.is_ready
        self._mark_ready = self._pool.mark_ready

        # One index in each list for each query in flight.
        self._since: list[int] = []
        self._sent: list[int] = []
        self._carrier: list[int] = []
        self._free: list[int] = []
        self._sends = 0
        self._next_checked = 1
        self._next_traced = NEVER
        self._gaps = gaps(queries.check_every)

        self._add_latency = recorder.latencies.append
        self._add_service_time = recorder.service_times.append
        self._gathered = recorder.latencies.__len__

        self._is_open_loop = self.open_loop
        self.last_reply_ns = 0
        self._measured = 0
        self.request_log: RequestLog | None = None
        """Set before `connect`. Without it nothing is spent on a log."""
        self.request_tracer: RequestTracer | None = None
        """Set before `connect`. Without it no query is traced."""

    # -- what a subclass decides -------------------------------------------------------------------

    @abstractmethod
    def _go_on(self, now: int) -> None:
        """Send what the connections have room for, and end the step if all is done."""

    @abstractmethod
    def _break_silence(self, now: int) -> None:
        """Record that a query succeeded, before `last_reply_ns` changes."""

    @abstractmethod
    def _expire(self, now: int) -> int:
        """Fail unsent queries past their deadline; return since when the oldest other one waits.

        `NEVER` if no query waits.
        """

    @abstractmethod
    def _waiting_since_before(self, time_ns: int) -> int:
        """Return how many measured queries wait unsent that were due before this time."""

    # -- what is in flight -----------------------------------------------------------------------

    async def connect(self) -> None:
        """Open all connections; raises ConnectionFailedError if one fails."""
        on_reply: OnReply = self._on_reply
        if self.request_log is not None:
            self.request_log.models = [each.model for each in self._recorder.statistics.models]
            on_reply = self._on_logged_reply
        if self.request_tracer is not None:
            on_reply = self._traced(self.request_tracer, on_reply)
        await self._pool.connect(on_reply, self._on_capacity)

    @property
    def traces(self) -> Sequence[ClientTrace]:
        """The traced queries of the window that were answered."""
        answered = [] if self.request_tracer is None else self.request_tracer.answered
        return [each for each in answered if each.due_ns >= self.window_ns]

    @property
    def outstanding(self) -> int:
        """Outstanding queries."""
        return len(self._since) - len(self._free)

    def overdue(self, bound_ns: int) -> int:
        """Return how many measured queries are unanswered for longer than this already."""
        before, window = self._clock() - bound_ns, self.window_ns
        in_flight = sum(window <= since < before for since in self._since)
        return in_flight + self._waiting_since_before(before)

    # -- sending and its answers -----------------------------------------------------------------

    def _try_send(self, server: int, since: int, now: int) -> bool:
        """Send a query on the server's next connection; return False if none has capacity."""
        ready = self._ready[server]
        while ready:
            place = ready[0]
            connection = self._connections[place]
            room = connection.capacity - connection.outstanding
            if room <= 1:
                ready.popleft()
                self._is_ready[place] = False
                if room <= 0:
                    continue
            else:
                ready.rotate(-1)
            if self._free:
                token = self._free.pop()
                self._since[token] = since
                self._sent[token] = now
                self._carrier[token] = place
            else:
                token = len(self._since)
                self._since.append(since)
                self._sent.append(now)
                self._carrier.append(place)
            self._sends = sends = self._sends + 1
            keep = sends >= self._next_checked
            if keep:
                self._choose_next_checked()
            if self._chosen is None:
                request = next(self._requests[server])
            else:
                request = self._chosen.take(server, token, is_measured=since >= self.window_ns)
            if sends >= self._next_traced:
                self._send_traced(request, token, keep)
            else:
                connection.send(request, token, keep)
            return True
        return False

    def _send_traced(self, prepared: PreparedRequest, token: int, keep: bool) -> None:  # noqa: FBT001 - as in `send`
        """Send a query on the connection that it was given, and trace it."""
        place, due = self._carrier[token], self._since[token]
        connection, tracer = self._connections[place], self.request_tracer
        if tracer is None:
            connection.send(prepared, token, keep)
            return
        self._next_traced = NEVER if tracer.is_full else self._sends + tracer.sample_every
        sent = self._sent[token] if self._is_open_loop else due
        trace = tracer.begin(token, place, due, sent)
        connection.send_traced(prepared, token, keep, trace.traceparent)
        trace.written_ns = self._clock()

    def _traced(self, tracer: RequestTracer, on_reply: OnReply) -> OnReply:
        """Return the handler of answers that ends their traces, then passes them on."""
        in_flight = tracer.in_flight

        def handle(token: int, failure: Failure | None, reply: ReplyBody | None) -> None:
            if token in in_flight:
                now = self._clock()
                first = self._connections[self._carrier[token]].first_byte_ns(token)
                tracer.end(token, first, now, "ok" if failure is None else failure.kind)
            on_reply(token, failure, reply)

        return handle

    def _choose_next_checked(self) -> None:
        """Choose the next query whose reply is checked."""
        self._next_checked = self._sends + (1 if self._sends < FIRST else next(self._gaps))

    def _on_reply(self, token: int, failure: Failure | None, reply: ReplyBody | None) -> None:
        if self._is_over:
            return
        now = self._clock()
        since = self._since[token]
        place = self._carrier[token]
        self._since[token] = _FREE
        self._free.append(token)
        if reply is not None and failure is None:
            failure = self._check_reply(reply, since, token)
        if since < self.window_ns:
            self._count_warm_up(since, now, is_good=failure is None)
        elif failure is None:
            self._measured += 1
            if self._is_open_loop:  # in a closed one it is the latency
                self._add_service_time(now - self._sent[token])
            else:
                self._break_silence(now)
            self.last_reply_ns = now
            self._add_latency(now - since)
            if self._chosen is not None:
                self._chosen.add_latency(token, now - since)
            if self._gathered() >= BLOCK:
                self._recorder.flush()
        else:
            self._fail(failure, token)
        if not self._is_ready[place]:
            self._mark_ready(place)
        self._go_on(now)

    def _count_warm_up(self, since: int, now: int, *, is_good: bool) -> None:
        self._recorder.statistics.warm_up_queries += 1
        if is_good:
            self._recorder.statistics.warm_up_answered += 1
            self._break_silence(now)
            if self._step.until_steady:
                self._recorder.warm_ups.append(now - since)

    def _on_logged_reply(
        self, token: int, failure: Failure | None, reply: ReplyBody | None
    ) -> None:
        """Handle an answer, and add its row to the log."""
        due, place = self._since[token], self._carrier[token]
        sent = self._sent[token] if self._is_open_loop else due
        is_logged = due >= self.window_ns and not self._is_over
        model = self._model_index(token)
        errors, now = self._recorder.statistics.errors, self._clock()
        faults = errors[FailureKind.CONTENT]
        self._on_reply(token, failure, reply)
        if not is_logged:
            return
        if failure is not None:
            self._log(due, sent, now, failure.kind, place, model)
        elif errors[FailureKind.CONTENT] != faults:
            self._log(due, sent, now, FailureKind.CONTENT, place, model)
        else:
            self._log(due, sent, self.last_reply_ns, "ok", place, model)

    def _model_index(self, token: int) -> int | None:
        """Return which model of a mix a query is for; None if there is no mix."""
        return None if self._chosen is None else self._chosen.model_index(token)

    def _log(
        self,
        due: int,
        sent: int | None,
        answered: int | None,
        status: str,
        place: int,
        model: int | None,
    ) -> None:
        """Add a row to the log, if there is one."""
        if self.request_log is None:
            return
        window = self.window_ns
        self.request_log.add(
            (
                due - window,
                UNKNOWN if sent is None else sent - window,
                UNKNOWN if answered is None else answered - window,
                STATUSES.index(status),
                place,
                UNKNOWN if model is None else model,
            )
        )

    def _fail(self, failure: Failure, token: int) -> None:
        self._measured += 1
        self._recorder.fail(failure.kind, failure.message)
        if self._chosen is not None:
            self._chosen.fail(token, failure.kind)

    def _check_reply(self, reply: ReplyBody, since: int, token: int) -> Failure | None:
        if since >= self.window_ns:
            self._recorder.statistics.checked_replies += 1
        check = self._check if self._chosen is None else self._chosen.check(token)
        try:
            fault = check(reply)
        except Exception as error:  # noqa: BLE001 - every query is counted, whatever its reply holds
            fault = f"The reply could not be checked: {error!r}."
        return None if fault is None else Failure(FailureKind.CONTENT, fault)

    def _on_capacity(self, connection: Connection) -> None:
        now = self._clock()
        if not self._ended.done() and self._pool.on_reconnected(connection, now):
            token = connection.resent_token
            if token is not None and self._since[token] >= self.window_ns:
                self._recorder.statistics.resent += 1
            self._go_on(now)

    def _check_anew(self) -> None:
        """Start to check and trace with the next query: the window's first, after the warm-up's."""
        self._sends, self._next_checked = 0, 1
        if self.request_tracer is not None:
            self._next_traced = self.request_tracer.sample_every

    @override
    def _check_deadlines(self) -> None:
        now = self._clock()
        timeout_ns = self._timeout_ns
        due = [
            token
            for token, since in enumerate(self._since)
            if since != _FREE and since + timeout_ns <= now
        ]
        for token in due:
            self._give_up(token)
        waiting = self._expire(now)
        if due:
            self._go_on(now)
        if self._ended.done():
            return
        in_flight = min((since for since in self._since if since != _FREE), default=now)
        wait_ns = min(now, waiting, in_flight) + timeout_ns - now
        self._timers.later("deadline", wait_ns, self._check_deadlines)

    def _give_up(self, token: int) -> None:
        place = self._carrier[token]
        since = self._since[token]
        self._since[token] = _FREE
        self._free.append(token)
        came = self._connections[place].cancel(token)
        if self.request_tracer is not None:
            self.request_tracer.forget(token)
        if since < self.window_ns:
            self._recorder.statistics.warm_up_queries += 1
        else:
            milliseconds = self._timeout_ns / 1_000_000
            message = no_answer_message(f"{milliseconds:g} ms", came)
            self._fail(Failure(FailureKind.TIMEOUT, message), token)
            sent = self._sent[token] if self._is_open_loop else since
            model = self._model_index(token)
            self._log(since, sent, None, FailureKind.TIMEOUT, place, model)
        if not self._is_ready[place]:
            self._mark_ready(place)
