"""How is one step measured, from its requests to its figures?"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from inferometer_api.document import milli
from inferometer_api.load import Load
from inferometer_api.result import Tensor
from inferometer_api.scenario import Scenario
from inferometer_loadgen.board import Board
from inferometer_loadgen.drive import (
    ClosedLoop,
    Driver,
    OpenConnection,
    OpenLoop,
    Queries,
    Schedules,
    Site,
)
from inferometer_loadgen.encode import Encoder
from inferometer_loadgen.inputs import Source
from inferometer_loadgen.live import Live, LiveStep
from inferometer_loadgen.meter import Meter, StepMeter
from inferometer_loadgen.pace import TimerPacer
from inferometer_loadgen.pool import make_pool
from inferometer_loadgen.recorder import Recorder
from inferometer_loadgen.replies import Expectation, data_dependent
from inferometer_loadgen.schedule import Stream, arrivals
from inferometer_loadgen.steps import End, StepPlan
from inferometer_loadgen.summary import Metered, Span, Used, late_ns, summarize
from inferometer_loadgen.trial import Trial, try_requests
from inferometer_loadgen.usage import Usage
from inferometer_loadgen.verdict.breaches import Measurement
from inferometer_loadgen.wire import Connection, OnCapacity, OnReply, Prepared, Reply, Target
from inferometer_loadgen.wire.connection import open_connection

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Bench:
    """What every step of a run has in common."""

    load: Load
    targets: Sequence[Target]
    """The servers, which take turns."""
    encoder: Encoder
    outputs: list[Tensor]
    server_process_ids: list[int]
    meter: Meter
    board: Board
    live: Live
    on_driver: Callable[[Driver | None], None]
    """Told which driver can be ended from outside, and None when there is none."""
    on_first_query: Callable[[], None]
    """Called before the first query of a step is sent."""


async def run_step(
    bench: Bench, scenario: Scenario, plan: StepPlan, source: Source
) -> tuple[Measurement | None, End]:
    """Measure one step; return why it ended and its figures, None where its window never began.

    Raises InputRefusedError, RequestRefusedError, NoAnswerError and ConnectionFailedError.
    """
    pools = await make_pool(source, bench.encoder, bench.targets, bench.board.prepared)
    trial = await _try(bench, scenario, plan, pools)
    recorder = Recorder()
    recorder.tallied.warm_up_queries = trial.sent
    driver = _driver(bench, scenario, plan, recorder, pools, _check(bench, plan, trial))
    meter = bench.meter.step()
    watch = _Watch(driver, recorder, Usage(bench.server_process_ids), meter)
    try:
        await meter.idle(bench.board)
        await _connect(bench, driver)
        bench.live.begin(_shown(scenario, plan, driver, recorder))
        end, used = await _drive(bench, driver, recorder, watch)
    finally:
        bench.live.end()
        await driver.close()
    if not watch.started_at:
        return None, end
    span = _span(driver, watch.started_at)
    step = summarize(
        plan,
        recorder.tallied,
        span,
        used,
        Metered(meter.terms, meter.found(driver.window_ns), watch.answered),
        end=end,
        reconnects=driver.reconnects,
        open_loop=isinstance(driver, OpenLoop),
    )
    return Measurement(plan, step, end, late_ns(recorder.tallied, span)), end


async def _connect(bench: Bench, driver: Driver) -> None:
    """Connect to every server; a closed loop has one query outstanding and needs one connection."""
    is_open = isinstance(driver, OpenLoop)
    streams = bench.load.streams_per_connection if is_open else 1
    openers = [_opener(target, streams) for target in bench.targets]
    await driver.connect(openers, bench.load.connections if is_open else 1)


def _span(driver: Driver, started_at: str) -> Span:
    return Span(
        started_at=started_at,
        warm_up_ns=driver.window_ns - driver.begin_ns,
        duration_ns=driver.duration_ns,
        drain_ns=max(0, driver.last_reply_ns - driver.window_ns - driver.duration_ns),
    )


def _shown(scenario: Scenario, plan: StepPlan, driver: Driver, recorder: Recorder) -> LiveStep:
    asked = scenario.server
    rate = None if asked is None else milli(asked.target_qps) / 1000
    return LiveStep(scenario.name, plan.label, plan.batch_size, rate, driver, recorder)


class _Watch:
    """Reads meter and usage as the window goes on."""

    def __init__(self, driver: Driver, recorder: Recorder, usage: Usage, meter: StepMeter) -> None:
        self.started_at = ""
        """When the window began; empty where it did not."""
        self.answered = 0
        """Queries answered between the window's edges."""
        self._recorder = recorder
        self._usage = usage
        self._meter = meter
        self._server_cpu_seconds: float | None = None
        driver.on_window, driver.on_second = self._begin, self._second
        driver.on_window_over = self._over

    def _begin(self) -> None:
        self._meter.begin()
        self.answered = -self._recorder.answered_at_all
        self.started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._usage.begin()

    def _second(self) -> None:
        self._meter.second()
        self._usage.sample()

    def _over(self) -> None:
        self._meter.over()
        self.answered += self._recorder.answered_at_all
        self._server_cpu_seconds = self._usage.server_cpu_seconds()

    async def used(self) -> Used:
        """Return what was used, once the agents have answered."""
        usage = self._usage
        used = Used(usage.samples, self._server_cpu_seconds, usage.client_cpu_seconds())
        await self._meter.settled()
        return used


async def _drive(
    bench: Bench, driver: Driver, recorder: Recorder, watch: _Watch
) -> tuple[End, Used]:
    bench.board.driving(driver, recorder)
    bench.on_driver(driver)
    # A collection takes tens of milliseconds: once now, over everything, never within the window.
    gc.collect()
    gc.freeze()
    try:
        end = await driver.run()
        # Whoever ends the run now ends what is over: the step is kept.
        return end, await watch.used()
    finally:
        gc.unfreeze()
        bench.on_driver(None)


async def _try(
    bench: Bench, scenario: Scenario, plan: StepPlan, pools: Sequence[Sequence[Prepared]]
) -> Trial:
    """Send the first requests to each server, one after the other."""
    what = f"of {scenario.name!r}" + (f" ({plan.label})" if plan.label else "")
    timeout_seconds = bench.load.request_timeout_milliseconds / 1000
    replies: list[Reply] = []
    sent = 0
    for target, pool in zip(bench.targets, pools, strict=True):
        trial = await try_requests(
            _opener(target, 1), pool, timeout_seconds, what, bench.on_first_query
        )
        replies += trial.replies
        sent += trial.sent
    return Trial(replies, sent)


def _check(bench: Bench, plan: StepPlan, trial: Trial) -> Callable[[Reply], str | None]:
    protocol = bench.load.protocol
    free = data_dependent(protocol, bench.outputs, trial.replies)
    return Expectation(protocol, bench.outputs, plan.batch_size, free).fault


def _opener(target: Target, streams: int) -> OpenConnection:
    def open_one(on_reply: OnReply, on_capacity: OnCapacity) -> Awaitable[Connection]:
        return open_connection(target, on_reply, on_capacity, streams=streams)

    return open_one


def _driver(
    bench: Bench,
    scenario: Scenario,
    plan: StepPlan,
    recorder: Recorder,
    pools: Sequence[Sequence[Prepared]],
    check: Callable[[Reply], str | None],
) -> Driver:
    loop = asyncio.get_running_loop()
    site = Site(loop, time.monotonic_ns, lambda wake: TimerPacer(loop, wake))
    queries = Queries(pools, check, bench.load.request_timeout_milliseconds * _NS_PER_MS)
    asked = scenario.server
    if asked is None:
        return ClosedLoop(site, recorder, queries, plan)
    rate = milli(asked.target_qps)
    schedules = Schedules(
        warm_up=arrivals(asked.arrivals, rate, bench.load.seed, Stream.WARM_UP),
        measured=arrivals(asked.arrivals, rate, bench.load.seed, Stream.MEASURED),
    )
    return OpenLoop(site, recorder, queries, plan, schedules)
