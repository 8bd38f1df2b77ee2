"""Drives one step at simulated servers, on the virtual clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferometer_api.scenarios.step_setting import Closed
from inferometer_loadgen.drive import ClosedLoop, Driver, OpenLoop, RequestSource, Schedules
from inferometer_loadgen.drive.mixed_requests import MixedModelRequests, MixedRequests
from inferometer_loadgen.record.recorder import ModelStatistics, Recorder, StepStatistics
from inferometer_loadgen.record.request_log import RequestLog
from inferometer_loadgen.record.request_tracer import RequestTracer
from inferometer_loadgen.schedule.arrivals import Constant, Poisson, Stream, generator
from inferometer_loadgen.schedule.steps import WHOLE_LOAD, End, LoadShare, StepPlan
from inferometer_loadgen.wire import Failure, FailureKind, PreparedRequest, ReplyBody
from support.simulated import (
    SECOND,
    Answer,
    Answering,
    SimulatedLoop,
    SimulatedServer,
    a_site,
    drive,
)

A_STEP = StepPlan(
    label="",
    batch_size=1,
    warm_up_ns=0,
    min_duration_ns=10 * SECOND,
    max_duration_ns=100 * SECOND,
    min_queries=1,
)
CUT = Failure(FailureKind.CONNECTION, "It was cut.")
BAD = Failure(FailureKind.STATUS, "It was refused.")


def after(delay_ns: int) -> Answering:
    """Answer every request well after the same time."""
    return lambda _index, _now: Answer(delay_ns)


@dataclass(slots=True)
class Drill:
    """A step of a driver at a simulated server, and what came of it."""

    answering: Answering
    step: StepPlan = A_STEP
    milli_qps: int | None = 100_000
    """The rate of an open loop with equal gaps; None: a closed loop."""
    connections: int = 1
    capacity: int = 1
    timeout_ns: int = 60 * SECOND
    reconnect_deadline_ns: int = 3 * SECOND
    check: Callable[[ReplyBody], str | None] = lambda _: None
    lateness: Callable[[int], int] = lambda _: 0
    poisson: bool = False
    schedules: Schedules | None = None
    """The arrivals of an open loop, if they are neither constant nor Poisson at one rate."""
    share: LoadShare = WHOLE_LOAD
    """Which of the arrivals of an open loop are driven."""
    others: Sequence[Answering] = ()
    """How further servers answer, with which the first takes turns."""

    shares: Sequence[float] = ()
    """The shares of the models of a mix; empty: there is one model."""
    model_faults: Sequence[str] = ()
    """What the check of each model's replies finds; empty: nothing."""

    log: RequestLog | None = None
    """Takes a row for each measured query."""
    tracer: RequestTracer | None = None
    """Traces every Nth query."""

    def run(self, at: dict[int, Callable[["Drill"], None]] | None = None) -> StepStatistics:
        """Drive the step; `at` are things that happen at virtual times."""
        self.loop = SimulatedLoop()
        judged = self.step.judged
        self.recorder = Recorder(None if judged is None else judged.bound_ns)
        self.servers = [
            SimulatedServer(self.loop, answering, self.capacity)
            for answering in (self.answering, *self.others)
        ]
        self.server = self.servers[0]
        self.driver = self._driver()
        self.driver.request_log = self.log
        self.driver.request_tracer = self.tracer
        for when, what in (at or {}).items():
            self.loop.call_at_ns(when, lambda what=what: what(self))  # type: ignore[misc]  # bound now
        self.end = drive(self.loop, self.driver, self.servers, self.connections)
        return self.recorder.statistics

    def _driver(self) -> Driver:
        site = a_site(self.loop, self.lateness)
        queries = RequestSource(
            [[PreparedRequest((b"",))]] * len(self.servers),
            self.check,
            self.timeout_ns,
            self.reconnect_deadline_ns,
            self._mix() if self.shares else None,
        )
        if self.milli_qps is None:
            closed = self.step.loop if isinstance(self.step.loop, Closed) else Closed()
            return ClosedLoop(site, self.recorder, queries, self.step, closed)
        schedules = self.schedules or Schedules(
            warm_up=Constant(self.milli_qps),
            measured=(
                Poisson(self.milli_qps, generator(1, Stream.MEASURED))
                if self.poisson
                else Constant(self.milli_qps)
            ),
            share=self.share,
        )
        return OpenLoop(site, self.recorder, queries, self.step, schedules)

    def _mix(self) -> MixedRequests:
        counts = [ModelStatistics(f"m{n}", share) for n, share in enumerate(self.shares)]
        self.recorder.statistics.models = counts
        faults = self.model_faults or [""] * len(counts)
        models = [
            MixedModelRequests(
                each,
                [[PreparedRequest((each.model.encode(),))]] * len(self.servers),
                lambda _, fault=fault: fault or None,  # type: ignore[misc]  # bound now
            )
            for each, fault in zip(counts, faults, strict=True)
        ]
        return MixedRequests(models, self.step.seed)

    loop: SimulatedLoop = None  # type: ignore[assignment]  # set by run
    recorder: Recorder = None  # type: ignore[assignment]  # set by run
    server: SimulatedServer = None  # type: ignore[assignment]  # set by run
    servers: list[SimulatedServer] = None  # type: ignore[assignment]  # set by run
    driver: Driver = None  # type: ignore[assignment]  # set by run
    end: End = End.INTERRUPTED
