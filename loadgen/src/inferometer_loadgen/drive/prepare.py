"""Preparation of a step: its requests, its first replies, its driver."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, assert_never

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.results.result import Tensor
from inferometer_api.scenarios.step_setting import (
    Arrivals,
    Bursts,
    Closed,
    Open,
    Steady,
    TraceArrivals,
)
from inferometer_api.spec.load import Load
from inferometer_loadgen.client.pace import SpinPacer, TimerPacer
from inferometer_loadgen.drive import (
    ClosedLoop,
    Driver,
    LoadDriver,
    LoopContext,
    OpenConnection,
    OpenLoop,
    RequestSource,
    Schedules,
)
from inferometer_loadgen.drive.contract import QueryRequests
from inferometer_loadgen.drive.first_requests import (
    FirstReplies,
    FirstRequestsRefusedError,
    send_first_requests,
)
from inferometer_loadgen.input_files import InputFiles
from inferometer_loadgen.record.recorder import Recorder
from inferometer_loadgen.record.request_log import RequestLog
from inferometer_loadgen.record.request_tracer import RequestTracer
from inferometer_loadgen.requests.encode import Encoder, uses_binary
from inferometer_loadgen.requests.pool import InputSources, make_pool
from inferometer_loadgen.requests.replies import EVERY, Expectation, first_axes, shared_shapes
from inferometer_loadgen.schedule.arrivals import PhasedPoisson, Replay, Stream, arrivals
from inferometer_loadgen.schedule.layout import connection_layout, worker_part
from inferometer_loadgen.schedule.steps import SECOND_NS, WHOLE_LOAD, LoadShare, StepPlan
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_loadgen.server.servers import Servers
from inferometer_loadgen.wire import (
    Connection,
    OnCapacity,
    OnReply,
    PreparedRequest,
    ReplyBody,
    RequestTarget,
)
from inferometer_loadgen.wire.connection import open_connection

_NS_PER_MS = 1_000_000
_STREAMS = (Stream.WARM_UP, Stream.MEASURED)


class DriverFactory(Protocol):
    """Prepares the drivers of a run's steps."""

    async def prepare(self, scenario: str, plan: StepPlan) -> LoadDriver:
        """Make requests, send the first of them to each server, and return the step's driver.

        Raises InputRefusedError, FirstRequestsRefusedError, NoAnswerError, ConnectionFailedError,
        and WorkerLostError if a worker of a fleet is lost.
        """


@dataclass(frozen=True, slots=True)
class ReadyRequests:
    """The requests of a step to one model, which the servers answered."""

    pools: Sequence[Sequence[PreparedRequest]]
    """Those to each server."""
    check: Callable[[ReplyBody], str | None]
    """Returns what is wrong with a reply."""
    first: FirstReplies
    shape_deviations: dict[str, str]
    """By output: a sentence on a shape that all first replies share and the metadata do not."""
    json_replies: int
    """First replies that carried tensors as JSON although the requests wanted binary data."""


@dataclass(frozen=True, slots=True)
class LocalDriverFactory:
    """Prepares drivers in this process, for the whole load or for a worker's share."""

    load: Load
    targets: Sequence[RequestTarget]
    """The servers, which take turns."""
    encoder: Encoder
    outputs: list[Tensor]
    inputs: InputSources
    on_progress: Callable[[float], None]
    """Receives the share of a step's requests that are made."""
    on_first_query: Callable[[], None]
    """Called before the first query of a step is sent."""
    on_first_answers: Callable[[Sequence[int]], None] = lambda _: None
    """Receives the latencies of the first queries of a step, in nanoseconds, before its warm-up."""
    share: LoadShare = WHOLE_LOAD
    request_log: RequestLog | None = None
    _answered: dict[int, list[ReplyBody]] = field(default_factory=dict, init=False)
    """The first replies to requests of a batch size, once there were some."""

    async def prepare(self, scenario: str, plan: StepPlan) -> Driver:
        """Prepare the driver of a step."""
        ready = await self.ready_requests(scenario, plan)
        recorder = self.recorder(plan, [ready])
        requests = self.request_source(ready.pools, ready.check)
        return self.driver(plan, recorder, requests)

    async def ready_requests(self, scenario: str, plan: StepPlan) -> "ReadyRequests":
        """Make the requests of a step, and send the first of them."""
        source = self.inputs.source(plan.batch_size, plan.seed)
        pools = await make_pool(source, self.encoder, self.targets, self.on_progress)
        first = await self._send_first(scenario, plan, pools)
        deviations: dict[str, str] = {}
        check = self._expectation(plan, first, deviations).fault
        in_json = 0
        if self.load.protocol == "HTTP" and self.encoder.binary:
            in_json = len([reply for reply in first.replies if reply.json_length is None])
        return ReadyRequests(pools, check, first, deviations, in_json)

    def recorder(self, plan: StepPlan, ready: Sequence["ReadyRequests"]) -> Recorder:
        """Return a recorder that has counted the first requests of a step."""
        recorder = Recorder(None if plan.judged is None else plan.judged.bound_ns)
        statistics = recorder.statistics
        for each in ready:
            statistics.warm_up_queries += each.first.sent
            statistics.json_replies += each.json_replies
            statistics.shape_deviations.update(each.shape_deviations)
        self.on_first_answers([latency for each in ready for latency in each.first.latencies_ns])
        return recorder

    def request_source(
        self,
        pools: Sequence[Sequence[PreparedRequest]],
        check: Callable[[ReplyBody], str | None],
        chosen: QueryRequests | None = None,
        check_every: int = EVERY,
    ) -> RequestSource:
        """Return the requests of a step with the run's deadlines."""
        return RequestSource(
            pools,
            check,
            self.load.request_timeout_milliseconds * _NS_PER_MS,
            self.load.reconnect_deadline_seconds * SECOND_NS,
            chosen,
            check_every,
        )

    def driver(self, plan: StepPlan, recorder: Recorder, requests: RequestSource) -> Driver:
        """Return the driver of this worker's part of a step."""
        part = worker_part(plan, self.share)
        driver = self._driver(part, recorder, requests)
        connections = connection_layout(self.load, part.loop, self.share)
        openers = [opener(target, connections.streams) for target in self.targets]
        driver.configure(openers, connections.connections)
        driver.request_log = self.request_log
        if self.load.tracing is not None:
            driver.request_tracer = RequestTracer(self.load.tracing.sample_every, os.urandom)
        return driver

    async def _send_first(
        self, scenario: str, plan: StepPlan, pools: Sequence[Sequence[PreparedRequest]]
    ) -> FirstReplies:
        """Send the first requests to each server, one after the other.

        A server that accepted such requests before and refuses them now is overloaded: that is
        measured, and is no reason to refuse the run.
        """
        what = f"of {scenario!r}" + (f" ({plan.label})" if plan.label else "")
        timeout_seconds = self.load.request_timeout_milliseconds / 1000
        replies: list[ReplyBody] = []
        latencies_ns: list[int] = []
        count = plan.first_queries
        sent = 0
        for target, pool in zip(self.targets, pools, strict=True):
            try:
                trial = await send_first_requests(
                    opener(target, 1), pool, timeout_seconds, what, self.on_first_query, count
                )
            except FirstRequestsRefusedError:
                if plan.batch_size not in self._answered:
                    raise
                trial = FirstReplies([], count)
            replies += trial.replies
            latencies_ns += trial.latencies_ns
            sent += trial.sent
        if replies:
            self._answered[plan.batch_size] = replies
        return FirstReplies(self._answered[plan.batch_size], sent, latencies_ns)

    def _expectation(
        self, plan: StepPlan, trial: FirstReplies, deviations: dict[str, str]
    ) -> Expectation:
        """Return what replies must hold; note deviations that all first replies share."""
        protocol = self.load.protocol
        firsts = first_axes(protocol, self.outputs, trial.replies, plan.batch_size)
        expected = Expectation(protocol, self.outputs, plan.batch_size, firsts)
        shapes = shared_shapes(expected, trial.replies)
        deviations.update(
            {
                tensor.name: (
                    f"The output {tensor.name!r} has the shape {list(shapes[tensor.name])} in "
                    f"every reply, where the metadata say {tensor.shape}."
                )
                for tensor in self.outputs
                if tensor.name in shapes
            }
        )
        return replace(expected, shapes=shapes)

    def _driver(self, plan: StepPlan, recorder: Recorder, requests: RequestSource) -> Driver:
        loop = asyncio.get_running_loop()
        spins = self.load.pacing == "Spin"
        context = LoopContext(
            loop,
            time.monotonic_ns,
            lambda wake: (SpinPacer if spins else TimerPacer)(loop, wake),
        )
        match plan.loop:
            case Open(arrivals=process):
                schedules = schedules_of(process, plan.seed, self.share, self.inputs.files)
                return OpenLoop(context, recorder, requests, plan, schedules)
            case Closed() as closed:
                return ClosedLoop(context, recorder, requests, plan, closed)
            case _:
                assert_never(plan.loop)


def local_driver_factory(
    plan: LoadPlan,
    description: ServerDescription,
    inputs: InputSources,
    on_progress: Callable[[float], None],
    on_first_query: Callable[[], None],
    share: LoadShare = WHOLE_LOAD,
) -> LocalDriverFactory:
    """Return the factory of a plan's drivers, for servers with this description."""
    return LocalDriverFactory(
        load=plan.run.spec.load,
        targets=Servers(plan).targets(),
        encoder=encoder_of(plan, description),
        outputs=description.outputs,
        inputs=inputs,
        on_progress=on_progress,
        on_first_query=on_first_query,
        share=share,
    )


def encoder_of(
    plan: LoadPlan, description: ServerDescription, model_name: str | None = None
) -> Encoder:
    """Return the encoder of requests to the plan's model, or to another one of its servers."""
    load = plan.run.spec.load
    return Encoder(
        load.protocol,
        model_name or plan.model_name,
        plan.model_version if model_name is None else "",
        description.inputs,
        description.outputs,
        binary=uses_binary(load, description.extensions),
    )


def schedules_of(
    process: Arrivals, seed: int, share: LoadShare, files: InputFiles | None = None
) -> Schedules:
    """Return when the queries of an open loop arrive; raises TraceRefusedError.

    The warm-up has the scenario's own load: a rate draws from a random stream of its own, a trace
    starts at its beginning. `files` holds those that were read before.
    """
    match process:
        case Steady(kind=kind, milli_qps=rate):
            warm_up, measured = (arrivals(kind, rate, seed, each) for each in _STREAMS)
            return Schedules(warm_up, measured, share=share)
        case Bursts():
            warm_up, measured = (PhasedPoisson(process, seed, each) for each in _STREAMS)
            return Schedules(warm_up, measured, share=share)
        case TraceArrivals(file=file, milli_time_scale=scale):
            times = (files or InputFiles()).arrivals(Path(file), scale)
            return Schedules(Replay(times), Replay(times), len(times), share)
        case _:
            assert_never(process)


def opener(target: RequestTarget, streams: int) -> OpenConnection:
    """Return how a connection to a target is opened."""

    def open_one(on_reply: OnReply, on_capacity: OnCapacity) -> Awaitable[Connection]:
        return open_connection(target, on_reply, on_capacity, streams=streams)

    return open_one
