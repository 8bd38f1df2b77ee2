"""How does an operator come to lead, and how does it end?"""

import asyncio
import contextlib
import functools
import signal
from collections.abc import AsyncIterator, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import structlog
from aiohttp import web

from inferometer_operator.cluster.child_watch import ChildWatch
from inferometer_operator.cluster.connection import Connection, configuration
from inferometer_operator.cluster.errors import ApiError, UnreachableError
from inferometer_operator.cluster.lease import Lease, LeaseConfig
from inferometer_operator.cluster.loadgen_client import LoadgenClient
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.run_watch import watch_runs
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.reconcile.make_plan import make_plan
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.health import Health, serve
from inferometer_operator.wiring.metrics import exposition
from inferometer_operator.wiring.observer import Observer
from inferometer_operator.wiring.operator_stats import OperatorStats
from inferometer_operator.wiring.plan_executor import PlanExecutor
from inferometer_operator.wiring.worker import Dependencies
from inferometer_operator.wiring.worker_pool import WorkerPool

_RUNS = "BenchmarkRun"
_CHILDREN = ("Deployment", "Job", "Pod")
_AGAIN_SECONDS = 5.0
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """With what the operator was started."""

    settings: Settings
    kubeconfig: Path | None
    terms: LeaseConfig | None
    """None: no Lease is asked for."""
    identity: str
    health_port: int
    loadgen_port: int


@dataclass(frozen=True, slots=True)
class OperatorState:
    """What is told of the operator itself."""

    health: Health
    stats: OperatorStats


async def run_operator(started: OperatorConfig) -> None:
    """Lead once that is possible, until told to end; raises where work cannot go on."""
    health, stats = Health(), OperatorStats()
    stop = asyncio.Event()
    _end_by_signal(stop)
    async with (
        Connection(await configuration(started.kubeconfig), stats.count_api_error) as connection,
        _served(health, stats, started.health_port),
    ):
        ticking = asyncio.create_task(health.tick(), name="tick")
        lease = Lease(connection, started.terms) if started.terms is not None else None
        try:
            if lease is not None and not await _or_stopped(lease.acquire(), stop):
                return
            stats.is_leader = True
            await _lead(started, connection, OperatorState(health, stats), lease, stop)
        finally:
            ticking.cancel()


async def _lead(
    started: OperatorConfig,
    connection: Connection,
    seen: OperatorState,
    lease: Lease | None,
    stop: asyncio.Event,
) -> None:
    """Do the work of the one operator that leads; give the Lease back in the end."""
    async with aiohttp.ClientSession() as session:
        pool = WorkerPool(_dependencies(started, connection, session, seen.stats))
        seen.health.lead(_RUNS, *_CHILDREN)
        work = [
            _worked(started.settings.namespace, connection, seen.health, pool, stop),
            *([lease.keep_renewed()] if lease is not None else []),
        ]
        tasks = [asyncio.create_task(each) for each in work]
        try:
            if await _or_stopped(_first_fault(tasks), stop):
                raise RuntimeError("A part of the operator ended, and none should.")
            _log.info("told_to_end")
        finally:
            # Whoever leads next must not meet this one's writes.
            await pool.stop()
            if lease is not None and stop.is_set():
                await lease.release()
            await _ended(tasks)


async def _worked(
    namespace: str | None,
    connection: Connection,
    health: Health,
    pool: WorkerPool,
    stop: asyncio.Event,
) -> None:
    """Watch runs and their children, and let the crew work."""
    await _begun(pool)
    watches = [
        ChildWatch(
            connection,
            kind,
            namespace,
            changed=pool.child_changed,
            heard=functools.partial(health.heard, kind),
        )
        for kind in _CHILDREN
    ]
    async with asyncio.TaskGroup() as group:
        for watch in watches:
            group.create_task(watch.run())
        await watch_runs(
            connection,
            namespace,
            changed=pool.run_changed,
            heard=lambda: health.heard(_RUNS),
            listed=pool.runs_relisted,
            started=lambda: _end_by_signal(stop),
        )
        raise RuntimeError("The watch of BenchmarkRuns ended, and it should not.")


async def _begun(pool: WorkerPool) -> None:
    while True:
        try:
            return await pool.start()
        except (ApiError, UnreachableError) as error:
            missing = isinstance(error, ApiError) and error.code == 404
            _log.warning(
                "runs_not_listed",
                error=str(error),
                hint="Is the CustomResourceDefinition benchmarkruns.inferometer.dev installed?"
                if missing
                else "",
            )
        await asyncio.sleep(_AGAIN_SECONDS)


def _dependencies(
    started: OperatorConfig,
    connection: Connection,
    session: aiohttp.ClientSession,
    stats: OperatorStats,
) -> Dependencies:
    reader, writer = Reader(connection), Writer(connection, started.identity)
    loads = LoadgenClient(session, started.loadgen_port)
    return Dependencies(
        decide=make_plan,
        settings=started.settings,
        reader=reader,
        writer=writer,
        observer=Observer(reader, loads, started.settings),
        actor=PlanExecutor(reader, writer, loads),
        stats=stats,
    )


@contextlib.asynccontextmanager
async def _served(health: Health, stats: OperatorStats, port: int) -> AsyncIterator[web.AppRunner]:
    runner = await serve(health, exposition(stats), port)
    _log.info("health_served", addresses=[list(each[:2]) for each in runner.addresses])
    try:
        yield runner
    finally:
        await runner.cleanup()


def _end_by_signal(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


async def _first_fault(tasks: list[asyncio.Task[None]]) -> None:
    """Return or raise as the first task does that ends."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def _or_stopped(work: Coroutine[None, None, None], stop: asyncio.Event) -> bool:
    """Return True when the work is done, False when the operator shall end before that."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        working.result()
        return True
    finally:
        await _ended([working, stopping])


async def _ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their end; what they had to say is said already."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
