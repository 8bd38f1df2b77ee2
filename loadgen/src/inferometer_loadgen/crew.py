"""Who drives a step: this process, or a fleet?"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from inferometer_api.load import Load
from inferometer_api.result import Tensor
from inferometer_loadgen.drive import (
    ClosedLoop,
    Driver,
    Driving,
    OpenConnection,
    OpenLoop,
    Queries,
    Schedules,
    Site,
)
from inferometer_loadgen.encode import Encoder
from inferometer_loadgen.inputs import Source
from inferometer_loadgen.pace import TimerPacer
from inferometer_loadgen.pool import make_pool
from inferometer_loadgen.recorder import Recorder
from inferometer_loadgen.replies import Expectation, data_dependent
from inferometer_loadgen.schedule import Stream, arrivals
from inferometer_loadgen.steps import WHOLE, Open, Share, Steady, StepPlan
from inferometer_loadgen.trial import Trial, try_requests
from inferometer_loadgen.wire import Connection, OnCapacity, OnReply, Prepared, Reply, Target
from inferometer_loadgen.wire.connection import open_connection

_NS_PER_MS = 1_000_000


class Crew(Protocol):
    """Makes ready whoever drives a step."""

    async def prepare(self, scenario: str, plan: StepPlan) -> Driving:
        """Make requests, try the first of them at each server, and return who drives the step.

        Raises InputRefusedError, RequestRefusedError, NoAnswerError, ConnectionFailedError, and
        WorkerLostError where a worker of a fleet is lost.
        """


@dataclass(frozen=True, slots=True)
class Hand:
    """What drives every step of a run in this process: all of it, or a worker's share."""

    load: Load
    targets: Sequence[Target]
    """The servers, which take turns."""
    encoder: Encoder
    outputs: list[Tensor]
    source: Callable[[int], Source]
    """Where the requests of a batch size come from."""
    told: Callable[[float], None]
    """Hears how far the making of requests is."""
    on_first_query: Callable[[], None]
    """Called before the first query of a step is sent."""
    share: Share = WHOLE

    async def prepare(self, scenario: str, plan: StepPlan) -> Driving:
        """See Crew."""
        source = self.source(plan.batch_size)
        pools = await make_pool(source, self.encoder, self.targets, self.told)
        trial = await self._try(scenario, plan, pools)
        recorder = Recorder()
        recorder.tallied.warm_up_queries = trial.sent
        driver = self._driver(plan, recorder, pools, self._check(plan, trial))
        # A closed loop has one query outstanding and needs one connection.
        streams = self.load.streams_per_connection if driver.open_loop else 1
        count = self.load.connections if driver.open_loop else 1
        driver.lay_out([_opener(target, streams) for target in self.targets], count)
        return driver

    async def _try(
        self, scenario: str, plan: StepPlan, pools: Sequence[Sequence[Prepared]]
    ) -> Trial:
        """Send the first requests to each server, one after the other."""
        what = f"of {scenario!r}" + (f" ({plan.label})" if plan.label else "")
        timeout_seconds = self.load.request_timeout_milliseconds / 1000
        replies: list[Reply] = []
        sent = 0
        for target, pool in zip(self.targets, pools, strict=True):
            trial = await try_requests(
                _opener(target, 1), pool, timeout_seconds, what, self.on_first_query
            )
            replies += trial.replies
            sent += trial.sent
        return Trial(replies, sent)

    def _check(self, plan: StepPlan, trial: Trial) -> Callable[[Reply], str | None]:
        protocol = self.load.protocol
        free = data_dependent(protocol, self.outputs, trial.replies)
        return Expectation(protocol, self.outputs, plan.batch_size, free).fault

    def _driver(
        self,
        plan: StepPlan,
        recorder: Recorder,
        pools: Sequence[Sequence[Prepared]],
        check: Callable[[Reply], str | None],
    ) -> Driver:
        loop = asyncio.get_running_loop()
        site = Site(loop, time.monotonic_ns, lambda wake: TimerPacer(loop, wake))
        queries = Queries(pools, check, self.load.request_timeout_milliseconds * _NS_PER_MS)
        match plan.loop:
            case Open(arrivals=Steady(kind=kind, milli_qps=rate)):
                schedules = Schedules(
                    warm_up=arrivals(kind, rate, plan.seed, Stream.WARM_UP),
                    measured=arrivals(kind, rate, plan.seed, Stream.MEASURED),
                )
                return OpenLoop(site, recorder, queries, plan, schedules)
            case _:
                return ClosedLoop(site, recorder, queries, plan)


def _opener(target: Target, streams: int) -> OpenConnection:
    def open_one(on_reply: OnReply, on_capacity: OnCapacity) -> Awaitable[Connection]:
        return open_connection(target, on_reply, on_capacity, streams=streams)

    return open_one
