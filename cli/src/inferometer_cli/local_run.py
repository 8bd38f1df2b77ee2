"""How is a run done without a cluster: which processes, in which order, and what ends it?

The same fetch, server and load generator that a cluster runs in pods are started as child
processes on loopback (`inferometer_api.plan.launch` makes the command lines of both).
"""

import asyncio
import contextlib
import os
import sys
import traceback
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from pydantic import ValidationError

from inferometer_api.plan.launch import load_command, load_plan
from inferometer_api.plan.load_plan import LoadPlan, PlannedFleet, PlannedServer
from inferometer_api.plan.reports import (
    FinalReport,
    ListeningReport,
    ProgressReport,
    read_report,
)
from inferometer_api.plan.result_composer import ResultComposer
from inferometer_api.results.result import Outcome, ResultDocument
from inferometer_api.spec.resolve import launched, local_notes
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.timestamps import format_time
from inferometer_cli.children import Child, describe_exit
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.local_agent import Metering, agent_of, metering
from inferometer_cli.local_inputs import credentials, inputs_file, trace_files
from inferometer_cli.local_server import Server, death, lateness, serve, start, with_last_lines
from inferometer_cli.program import program_version
from inferometer_cli.progress import ProgressCallback, WebPage
from inferometer_cli.prometheus_targets import PrometheusTargets

_LAST_WORDS_SECONDS = 2.0
"""How long the load generator may take to hand over what it measured, once asked to stop."""
_DEATH_SECONDS = 0.5
"""How long a server that was lost may take to be seen dead."""
_SERVER_FAULTS = {"ServerLost", "ServerNotReady", "NoAnswer"}
"""Ends that the load generator tells of, and whose cause the server's last lines may tell."""

T = TypeVar("T")
End = asyncio.Future[Outcome]
"""Something that ends a run from outside its own work, and the outcome it stands for."""


class _Reports:
    """The reports of the load generator so far."""

    def __init__(self, run: BenchmarkRun) -> None:
        self.run_id = str(uuid4())
        self.started_at = _now()
        self.final: FinalReport | None = None
        self.composer = ResultComposer(
            run,
            run_id=self.run_id,
            started_at=self.started_at,
            inferometer_version=program_version(),
        )

    def document(self, outcome: Outcome) -> ResultDocument:
        """Return the load generator's document with the outcome of the whole run.

        A load generator that was killed left none: its reports are composed here.
        """
        if self.final is None or self.final.document is None:
            return self.composer.document(outcome, finished_at=_now())
        return self.final.document.model_copy(update={"outcome": outcome})


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run has beside its server and its load generator."""

    targets: PrometheusTargets
    agent_url: str | None = None
    """Of a node agent that runs already; None: the run starts its own."""
    fleet_web: bool = False
    """Whether Locust's web page shows what a fleet measures."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A run that is being done."""

    run: BenchmarkRun
    base: Path
    """The folder that relative paths in it are relative to."""
    beside: RunOptions
    reports: _Reports
    watch: ProgressCallback


async def run_locally(
    run: BenchmarkRun, *, base: Path, beside: RunOptions, stopped: End, watch: ProgressCallback
) -> ResultDocument:
    """Launch, load, measure, judge and clean up; return what was found.

    `run` is resolved, and relative paths in it are relative to `base`. `stopped` is done when a
    person asks for an end. Whatever happens, no process is left behind, and what was measured
    until then is in the document.
    """
    reports = _Reports(run)
    outcome = await _outcome(_Work(run, base, beside, reports, watch), stopped)
    return reports.document(outcome)


async def _outcome(work: _Work, stopped: End) -> Outcome:
    try:
        return await _run(work, stopped)
    except RefusedError as refusal:
        return Outcome(state="Refused", reason="CannotBeRun", message=str(refusal))
    except FailedError as fault:
        return Outcome(state="Failed", reason="NotStarted", message=str(fault))
    except OSError as error:
        message = f"The run could not go on: {error.strerror or error}."
        return Outcome(state="Failed", reason="SystemError", message=message)
    except Exception as error:  # noqa: BLE001 - what was measured is kept whatever happens
        if os.environ.get("INFEROMETER_DEBUG"):
            traceback.print_exc()
        message = (
            f"The run ended by a fault of Inferometer's own, {type(error).__name__}: {error}. "
            "Set INFEROMETER_DEBUG=1 to see where, and please report it."
        )
        return Outcome(state="Failed", reason="InternalError", message=message)


async def _run(work: _Work, stopped: End) -> Outcome:
    run = work.run
    file = inputs_file(run, work.base)
    fleet = _fleet(work)
    traces = trace_files(run, work.base)
    proofs = credentials(run, work.base)
    deadline = asyncio.create_task(_deadline(run.spec.active_deadline_seconds))
    ends = [stopped, deadline]
    try:
        async with AsyncExitStack() as stack:
            begun = await _unless(ends, _begun(work, file, stack))
            if isinstance(begun, Outcome):
                return begun
            server, metered = begun
            plan = load_plan(
                run,
                place="Local",
                servers=[PlannedServer(url=server.url)],
                model_sha256=server.model_sha256,
                inputs_file=None if file is None else str(file),
                trace_files={name: str(path) for name, path in traces.items()},
                credentials=proofs,
                fleet=fleet,
                server_process_ids=[] if server.process is None else [server.process.process_id],
                agents=metered.agents,
                unmetered=metered.unmetered,
                notes=local_notes(run),
                run_id=work.reports.run_id,
                started_at=work.reports.started_at,
            )
            return await _load(plan, server, ends, stack, work)
    finally:
        deadline.cancel()


def _fleet(work: _Work) -> PlannedFleet | None:
    """Return the fleet that the run asks for: its workers are processes of this machine."""
    if work.run.spec.load.workers == 1:
        if work.beside.fleet_web:
            raise RefusedError(
                "--fleet-web shows Locust's page of a fleet, but spec.load.workers is 1, and one "
                "process needs no Locust: leave it out, or ask for more workers."
            )
        return None
    return PlannedFleet(web_port=0 if work.beside.fleet_web else None)


async def _begun(work: _Work, file: Path | None, stack: AsyncExitStack) -> tuple[Server, Metering]:
    """Return the server to load and the agent beside it, which begin at once."""
    targets = stack.enter_context(work.beside.targets)
    agent = await agent_of(work.beside.agent_url, is_launched=launched(work.run.spec), stack=stack)
    server = await serve(work.run, work.base, file, stack, work.watch)
    metered = await metering(agent, server)
    if server.metrics_address:
        targets.add("server", server.metrics_address)
    for planned in metered.agents:
        targets.add("node agent", planned.url.removeprefix("http://"))
    return server, metered


async def _load(
    plan: LoadPlan, server: Server, ends: list[End], stack: AsyncExitStack, work: _Work
) -> Outcome:
    """Run the load generator until it, the server, a deadline or a person ends the run."""
    reports, watch, targets = work.reports, work.watch, work.beside.targets
    words = plan.model_dump_json(exclude_none=True).encode()
    command = load_command(sys.executable, metrics_port=0 if targets.is_enabled else None)
    load = await start("load generator", command, stack, words)
    reading = asyncio.create_task(_read_reports(load, reports, targets, watch))
    faults = [] if server.process is None else _server_faults(plan.run, server, server.process)
    try:
        await asyncio.wait([reading, *ends, *faults], return_when=asyncio.FIRST_COMPLETED)
        if reports.final is not None and reports.final.outcome.state == "Complete":
            return reports.final.outcome
        if any(end.done() for end in ends):
            watch("stopping")
        load.request_stop()
        await asyncio.wait([reading], timeout=_LAST_WORDS_SECONDS)
        fault = next((end.result() for end in (*ends, *faults) if end.done()), None)
        return fault or await _explained(reading.result(), server.process)
    finally:
        for task in (reading, *faults):
            task.cancel()


def _server_faults(
    run: BenchmarkRun, server: Server, process: Child
) -> list[asyncio.Task[Outcome]]:
    return [
        asyncio.create_task(death(process)),
        asyncio.create_task(lateness(process, run, server.ready_by)),
    ]


async def _explained(outcome: Outcome, process: Child | None) -> Outcome:
    """Return the outcome that the load generator told, with what the server has to say to it."""
    if outcome.state in {"Interrupted", "Terminated"}:
        # Nobody asked this run to end, so it did not end as one that was.
        message = "The load generator was stopped by someone else, before it was done."
        return Outcome(state="Failed", reason="LoadGeneratorStopped", message=message)
    if process is None or outcome.reason not in _SERVER_FAULTS:
        return outcome
    with contextlib.suppress(TimeoutError):
        return await asyncio.wait_for(death(process), timeout=_DEATH_SECONDS)
    message = with_last_lines(outcome.message, process)
    return outcome.model_copy(update={"message": message})


async def _read_reports(
    load: Child, reports: _Reports, targets: PrometheusTargets, watch: ProgressCallback
) -> Outcome:
    """Take in the load generator's reports until its end; return the outcome it stands for."""
    async for line in load.lines():
        try:
            report = read_report(line)
        except ValidationError:
            # Half a line: it was ended by force while it wrote.
            break
        match report:
            case ProgressReport():
                watch(report)
            case ListeningReport():
                _tell_where(report, targets, watch)
            case FinalReport():
                reports.final = report
            case _:
                reports.composer.add(report)
    if reports.final is not None:
        return reports.final.outcome
    ended = describe_exit(await load.wait())
    return Outcome(
        state="Failed",
        reason="LoadGeneratorDied",
        message=with_last_lines(f"The load generator ended by {ended} before it was done.", load),
    )


def _tell_where(
    listening: ListeningReport, targets: PrometheusTargets, watch: ProgressCallback
) -> None:
    if listening.metrics_port is not None:
        targets.add("load generator", f"127.0.0.1:{listening.metrics_port}")
    if listening.fleet_web_port is not None:
        watch(WebPage(f"http://127.0.0.1:{listening.fleet_web_port}/"))


async def _deadline(seconds: int) -> Outcome:
    await asyncio.sleep(seconds)
    return Outcome(
        state="Failed",
        reason="DeadlineExceeded",
        message=f"The run was not done after {seconds} s (spec.activeDeadlineSeconds): "
        "raise it, or ask for shorter scenarios.",
    )


async def _unless(ends: list[End], work: Coroutine[None, None, T]) -> T | Outcome:
    """Return what the work returns, or the outcome of the end that comes before it."""
    task = asyncio.create_task(work)
    either: list[asyncio.Future[Any]] = [task, *ends]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        return task.result()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return next(end.result() for end in ends if end.done())


def _now() -> str:
    return format_time(datetime.now(UTC))
