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

from inferometer_operator.cluster.connection import Connection, configuration
from inferometer_operator.cluster.errors import RefusedError, UnreachableError
from inferometer_operator.cluster.lease import Lease, Terms
from inferometer_operator.cluster.load_answers import LoadAnswers
from inferometer_operator.cluster.reading import Reader
from inferometer_operator.cluster.watching import Watch
from inferometer_operator.cluster.writing import Writer
from inferometer_operator.handlers.runs import watch_runs
from inferometer_operator.reconcile.decide import plan
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.acting import Actor
from inferometer_operator.wiring.crew import Crew
from inferometer_operator.wiring.health import Health, serve
from inferometer_operator.wiring.metrics import exposition
from inferometer_operator.wiring.observing import Observer
from inferometer_operator.wiring.tally import Tally
from inferometer_operator.wiring.worker import Edges

_RUNS = "BenchmarkRun"
_CHILDREN = ("Deployment", "Job", "Pod")
_AGAIN_SECONDS = 5.0
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Started:
    """With what the operator was started."""

    settings: Settings
    kubeconfig: Path | None
    terms: Terms | None
    """None: no Lease is asked for."""
    identity: str
    health_port: int
    loadgen_port: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What is told of the operator itself."""

    health: Health
    tally: Tally


async def led(started: Started) -> None:
    """Lead once that is possible, until told to end; raises where work cannot go on."""
    health, tally = Health(), Tally()
    stop = asyncio.Event()
    _end_by_signal(stop)
    async with (
        Connection(await configuration(started.kubeconfig), tally.api_failed) as connection,
        _served(health, tally, started.health_port),
    ):
        ticking = asyncio.create_task(health.tick(), name="tick")
        lease = Lease(connection, started.terms) if started.terms is not None else None
        try:
            if lease is not None and not await _or_stopped(lease.won(), stop):
                return
            tally.leads = True
            await _lead(started, connection, Seen(health, tally), lease, stop)
        finally:
            ticking.cancel()


async def _lead(
    started: Started,
    connection: Connection,
    seen: Seen,
    lease: Lease | None,
    stop: asyncio.Event,
) -> None:
    """Do the work of the one operator that leads; give the Lease back in the end."""
    async with aiohttp.ClientSession() as session:
        crew = Crew(_edges(started, connection, session, seen.tally))
        seen.health.lead(_RUNS, *_CHILDREN)
        work = [
            _worked(started.settings.namespace, connection, seen.health, crew, stop),
            *([lease.kept()] if lease is not None else []),
        ]
        tasks = [asyncio.create_task(each) for each in work]
        try:
            if await _or_stopped(_first_fault(tasks), stop):
                raise RuntimeError("A part of the operator ended, and none should.")
            _log.info("told_to_end")
        finally:
            # Whoever leads next must not meet this one's writes.
            await crew.dismiss()
            if lease is not None and stop.is_set():
                await lease.released()
            await _ended(tasks)


async def _worked(
    namespace: str | None,
    connection: Connection,
    health: Health,
    crew: Crew,
    stop: asyncio.Event,
) -> None:
    """Watch runs and their children, and let the crew work."""
    await _begun(crew)
    watches = [
        Watch(
            connection,
            kind,
            namespace,
            changed=crew.child_changed,
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
            changed=crew.run_changed,
            heard=lambda: health.heard(_RUNS),
            listed=crew.listed,
            started=lambda: _end_by_signal(stop),
        )
        raise RuntimeError("The watch of BenchmarkRuns ended, and it should not.")


async def _begun(crew: Crew) -> None:
    while True:
        try:
            return await crew.begin()
        except (RefusedError, UnreachableError) as error:
            missing = isinstance(error, RefusedError) and error.code == 404
            _log.warning(
                "runs_not_listed",
                error=str(error),
                hint="Is the CustomResourceDefinition benchmarkruns.inferometer.dev installed?"
                if missing
                else "",
            )
        await asyncio.sleep(_AGAIN_SECONDS)


def _edges(
    started: Started, connection: Connection, session: aiohttp.ClientSession, tally: Tally
) -> Edges:
    reader, writer = Reader(connection), Writer(connection, started.identity)
    loads = LoadAnswers(session, started.loadgen_port)
    return Edges(
        decide=plan,
        settings=started.settings,
        reader=reader,
        writer=writer,
        observer=Observer(reader, loads, started.settings),
        actor=Actor(reader, writer, loads),
        tally=tally,
    )


@contextlib.asynccontextmanager
async def _served(health: Health, tally: Tally, port: int) -> AsyncIterator[web.AppRunner]:
    runner = await serve(health, exposition(tally), port)
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
