"""The operator's main loop: win the Lease, watch the cluster, and end cleanly."""

import asyncio
import contextlib
import functools
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import structlog
from aiohttp import web

from inferometer_operator.cluster.child_store import ChildStore
from inferometer_operator.cluster.child_watch import ChildChange, ChildWatch
from inferometer_operator.cluster.connection import ApiConnection, configuration
from inferometer_operator.cluster.image_removal import ImageRemovalClient
from inferometer_operator.cluster.lease import LeaseConfig
from inferometer_operator.cluster.lease_thread import LeaseThread
from inferometer_operator.cluster.loadgen_client import LoadgenClient
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.results_client import ResultsClient
from inferometer_operator.cluster.run_watch import watch_runs
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.reconcile.children import CHILD_KINDS, KSERVE_KIND, POD, QUOTA_KIND
from inferometer_operator.reconcile.make_plan import make_plan
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.health import Health, serve
from inferometer_operator.wiring.metrics import exposition
from inferometer_operator.wiring.nodes.pool import NodePool
from inferometer_operator.wiring.observer import Observer
from inferometer_operator.wiring.operator_stats import OperatorStats
from inferometer_operator.wiring.ownership import Ownership
from inferometer_operator.wiring.plan_executor import PlanExecutor
from inferometer_operator.wiring.suite.pool import SuitePool
from inferometer_operator.wiring.worker_pool import WorkerPool

_RUNS = "BenchmarkRun"
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """What the command line and the settings file say."""

    settings: Settings
    kubeconfig: Path | None
    lease: LeaseConfig | None
    """None: lead without a Lease."""
    identity: str
    health_port: int
    loadgen_port: int


@dataclass(frozen=True, slots=True)
class OperatorState:
    """What /healthz, /readyz and /metrics report."""

    health: Health
    stats: OperatorStats


@dataclass(frozen=True, slots=True)
class _Pools:
    """What works on runs, suites and NodeBenchmarks."""

    runs: WorkerPool
    suites: SuitePool
    nodes: NodePool

    def run_changed(self, kind: str | None, run: Json) -> None:
        """Handle an event of a run."""
        self.runs.run_changed(kind, run)
        self.suites.run_changed(kind, run)

    def runs_listed(self, uids: frozenset[str]) -> None:
        """Handle the end of a list of all runs."""
        self.runs.runs_listed(uids)
        self.suites.runs_listed(uids)
        self.nodes.runs_listed()

    def child_changed(self, change: ChildChange) -> None:
        """Handle an event of a child."""
        self.runs.child_changed(change)
        self.nodes.child_changed(change)


async def run_operator(config: OperatorConfig) -> None:
    """Lead as soon as the Lease is won, until SIGTERM; raise if the work cannot continue."""
    state = OperatorState(Health(), OperatorStats())
    stop = asyncio.Event()
    _set_on_signals(stop)
    async with (
        _serve_health(state, config),
        _lease_thread(config, state) as lease,
        ApiConnection(
            await configuration(config.kubeconfig),
            state.stats.count_api_error,
            _write_check(lease),
        ) as connection,
    ):
        ticking = asyncio.create_task(state.health.tick(), name="tick")
        try:
            if lease is not None and not await _wait_unless_stopped(lease.acquire(), stop):
                return
            state.stats.is_leader = True
            await _lead(config, connection, state, lease, stop)
        finally:
            ticking.cancel()


async def _lead(
    config: OperatorConfig,
    connection: ApiConnection,
    state: OperatorState,
    lease: LeaseThread | None,
    stop: asyncio.Event,
) -> None:
    """Do the leader's work, then release the Lease."""
    async with aiohttp.ClientSession() as session:
        children = ChildStore()
        loadgen = LoadgenClient(session, config.loadgen_port, _write_check(lease))
        shared = _dependencies(config, connection, loadgen, state.stats, children)
        service = config.settings.results
        if service is not None:
            client = ResultsClient(session, service, _write_check(lease))
            shared = replace(shared, results=client)
        if (remover := _image_removal(config.settings, session, shared.reader, lease)) is not None:
            shared = replace(shared, executor=replace(shared.executor, images=remover))
        runs = WorkerPool(shared)
        pools = _Pools(runs, SuitePool(shared), NodePool(shared, runs.queue))
        state.health.require_watches(_RUNS, *_child_kinds(config.settings))
        working = asyncio.create_task(
            _work(config.settings, connection, state.health, pools, children)
        )
        renewing = [] if lease is None else [asyncio.create_task(lease.keep_renewed())]
        try:
            if await _wait_unless_stopped(_wait_for_first([working, *renewing]), stop):
                raise RuntimeError("A task of the operator ended unexpectedly.")
            _log.info("stopping")
        finally:
            # The next leader must not meet writes of this one, nor a renewal after the release.
            await _cancel([working])
            await _cancel(renewing)
            if lease is not None and stop.is_set():
                await lease.release()


def _image_removal(
    settings: Settings, session: aiohttp.ClientSession, reader: Reader, lease: LeaseThread | None
) -> ImageRemovalClient | None:
    agents = settings.agent
    if agents is None or agents.image_removal_token_file is None:
        return None
    token_file = Path(agents.image_removal_token_file)
    return ImageRemovalClient(session, reader, agents, token_file, _write_check(lease))


@contextlib.asynccontextmanager
async def _lease_thread(
    config: OperatorConfig, state: OperatorState
) -> AsyncIterator[LeaseThread | None]:
    if config.lease is None:
        yield None
        return
    loop = asyncio.get_running_loop()

    def count(code: str) -> None:
        loop.call_soon_threadsafe(state.stats.count_api_error, code)

    async def connect() -> ApiConnection:
        return ApiConnection(await configuration(config.kubeconfig), count)

    async with LeaseThread(connect, config.lease, lambda: state.health.alive()[0]) as lease:
        yield lease


def _write_check(lease: LeaseThread | None) -> Callable[[], None]:
    return (lambda: None) if lease is None else lease.check_held


def _child_kinds(settings: Settings) -> tuple[str, ...]:
    """Return the kinds of children to watch: others than the settings enable, it may not see."""
    absent: set[str] = set()
    if not settings.kueue.enabled:
        absent.add(QUOTA_KIND)
    if not settings.kserve.enabled:
        absent.add(KSERVE_KIND)
    return (*(kind for kind in CHILD_KINDS if kind not in absent), POD)


async def _work(
    settings: Settings,
    connection: ApiConnection,
    health: Health,
    pools: _Pools,
    children: ChildStore,
) -> None:
    """Watch runs, their children and suites, and work on them once all are known."""
    pool = pools.runs
    watches = [
        ChildWatch(
            connection,
            kind,
            settings.namespace,
            children,
            changed=pools.child_changed,
            on_event=functools.partial(health.record_watch, kind),
        )
        for kind in _child_kinds(settings)
    ]
    async with asyncio.TaskGroup() as group:
        for watch in watches:
            group.create_task(watch.run())
        hearers = {
            _RUNS: (pools.run_changed, pools.runs_listed),
            "BenchmarkSuite": (pools.suites.suite_changed, pools.suites.suites_listed),
            "NodeBenchmark": (pools.nodes.benchmark_changed, pools.nodes.benchmarks_listed),
        }
        for kind, (changed, listed) in hearers.items():
            # Readiness depends on the watch of runs alone.
            heard = functools.partial(health.record_watch, kind) if kind == _RUNS else _ignore
            group.create_task(
                watch_runs(
                    connection,
                    settings.namespace,
                    changed=changed,
                    listed=listed,
                    on_event=heard,
                    kind=kind,
                )
            )
        group.create_task(pools.suites.run())
        for watch in watches:
            await watch.listed.wait()
        group.create_task(pools.nodes.run())
        await pool.run()


def _ignore() -> None:
    """Ignore a sign of a watch."""


def _dependencies(
    config: OperatorConfig,
    connection: ApiConnection,
    loadgen: LoadgenClient,
    stats: OperatorStats,
    children: ChildStore,
) -> Dependencies:
    reader = Reader(connection, children)
    now = connection.clock.now
    writer = Writer(connection, config.identity, now, children)
    return Dependencies(
        make_plan=make_plan,
        settings=config.settings,
        reader=reader,
        writer=writer,
        observer=Observer(reader, loadgen, config.settings, now=now),
        executor=PlanExecutor(reader, writer, loadgen, now),
        ownership=Ownership(
            reader,
            "" if config.lease is None else f"{config.lease.namespace}/{config.lease.name}",
            is_cluster_wide=config.settings.namespace is None,
        ),
        now=now,
        stats=stats,
    )


@contextlib.asynccontextmanager
async def _serve_health(
    state: OperatorState, config: OperatorConfig
) -> AsyncIterator[web.AppRunner]:
    file = config.settings.metrics.token_file
    page = exposition(state.stats)
    runner = await serve(
        state.health, page, config.health_port, None if file is None else Path(file)
    )
    _log.info("health_served", addresses=[list(each[:2]) for each in runner.addresses])
    try:
        yield runner
    finally:
        await runner.cleanup()


def _set_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


async def _wait_for_first(tasks: list[asyncio.Task[None]]) -> None:
    """Wait until one task ends; return or raise as it does."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def _wait_unless_stopped(work: Coroutine[None, None, None], stop: asyncio.Event) -> bool:
    """Return True once the work is done, False if the stop event comes first."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        working.result()
        return True
    finally:
        await _cancel([working, stopping])


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their end; their errors were raised already."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
