"""A local run: its processes, in which order they start, and what ends it.

The fetcher, server and load generator that run in pods in a cluster are started as child processes
on loopback; `inferometer_api.plan.launch` makes the command lines of both.
"""

import asyncio
import contextlib
import os
import secrets
import sys
import tempfile
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
from inferometer_api.plan.spec_warnings import local_notes
from inferometer_api.results.result import Outcome, ResultDocument
from inferometer_api.spec.resolve import is_launched, restarts_server
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.timestamps import format_time
from inferometer_cli.exits import STOPPED_STATES, FailedError, RefusedError
from inferometer_cli.local.agent import Metering, find_agent, plan_metering
from inferometer_cli.local.child_process import (
    ChildProcess,
    describe_exit,
    start_child,
    with_last_output,
)
from inferometer_cli.local.files import check_files, check_loaded_engine
from inferometer_cli.local.machine_check import MachineCheck
from inferometer_cli.local.node_documents import load_generation_warnings
from inferometer_cli.local.prometheus_targets import PrometheusTargets
from inferometer_cli.local.replaceable_server import ReplaceableServer, hand_over
from inferometer_cli.local.request_log import planned_log
from inferometer_cli.local.server import TargetServer
from inferometer_cli.local.server_readiness import wait_for_death
from inferometer_cli.program import program_version
from inferometer_cli.progress import ProgressCallback, Warn, WebPage
from inferometer_cli.terminal import ProgressFormat

_FINAL_REPORT_SECONDS = 2.0
"""How long the load generator may take to report what it measured, after SIGTERM."""
_DEATH_SECONDS = 0.5
"""How long the exit of a lost server may take to be noticed."""
_SERVER_FAULTS = {"ServerLost", "ServerNotReady", "NoAnswer"}
"""Failures that the load generator reports and that the server's last output may explain."""

T = TypeVar("T")
End = asyncio.Future[Outcome]
"""A future that ends the run from outside, with the outcome."""


class _Reports:
    """The reports of the load generator so far."""

    def __init__(self, run: BenchmarkRun) -> None:
        self.run_id = str(uuid4())
        self.started_at = _now()
        self.final: FinalReport | None = None
        self.load_port = 0
        """The port of the load generator for metrics and targets; 0: it has none."""
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
    """Options of the command line, in addition to the run itself."""

    targets: PrometheusTargets
    agent_url: str | None = None
    """The URL of a running node agent; None to start one."""
    fleet_web: bool = False
    """Whether to serve Locust's web page while a fleet measures."""
    progress: ProgressFormat = "auto"
    """How the progress is written to standard error."""
    request_log: Path | None = None
    """The file that gets a row for each measured query."""
    allow_python_steps: bool = False
    """Whether Python in the model's manifest may run here."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A run in progress."""

    run: BenchmarkRun
    base: Path
    """The directory to which the paths of the run are relative."""
    options: RunOptions
    reports: _Reports
    watch: ProgressCallback


async def run_locally(
    run: BenchmarkRun, *, base: Path, options: RunOptions, stopped: End, watch: ProgressCallback
) -> ResultDocument:
    """Start the server, drive the load, measure, judge and clean up; return the result.

    `run` is resolved; its paths are relative to `base`. `stopped` is done when the user stops the
    run. Whatever happens, no process is left behind, and the document has what was measured.
    """
    reports = _Reports(run)
    outcome = await _outcome(_Work(run, base, options, reports, watch), stopped)
    return reports.document(outcome)


async def _outcome(work: _Work, stopped: End) -> Outcome:
    try:
        return await _run(work, stopped)
    except RefusedError as refusal:
        return Outcome(state="Refused", reason="CannotBeRun", message=str(refusal))
    except FailedError as fault:
        return Outcome(state="Failed", reason="NotStarted", message=str(fault))
    except OSError as error:
        message = f"The run cannot continue: {error.strerror or error}."
        return Outcome(state="Failed", reason="SystemError", message=message)
    except Exception as error:  # noqa: BLE001 - what was measured is kept whatever happens
        if os.environ.get("INFEROMETER_DEBUG"):
            traceback.print_exc()
        message = (
            f"Internal error: {type(error).__name__}: {error}. "
            "Set INFEROMETER_DEBUG=1 for the traceback, and please report it."
        )
        return Outcome(state="Failed", reason="InternalError", message=message)


async def _run(work: _Work, stopped: End) -> Outcome:
    run = work.run
    files = check_files(run, work.base, allow_python_steps=work.options.allow_python_steps)
    manifest, fleet = files.manifest, _fleet(work)
    deadline = asyncio.create_task(_deadline(run.spec.active_deadline_seconds))
    ends = [stopped, deadline]
    try:
        async with AsyncExitStack() as stack:
            started = await _first_of(ends, _start(work, files.inputs, stack))
            if isinstance(started, Outcome):
                return started
            server, metered, warnings = started
            current = server.current
            check_loaded_engine(run, manifest, current.engine_version)
            plan = load_plan(
                run,
                place="Local",
                servers=[PlannedServer(url=current.url, start=current.start)],
                model_sha256=current.model_sha256,
                engine_version=current.engine_version,
                inputs_file=None if files.inputs is None else str(files.inputs),
                trace_files={name: str(path) for name, path in files.traces.items()},
                manifest_file=None if manifest is None else str(manifest.path),
                manifest_sha256=None if manifest is None else manifest.sha256,
                allow_python_steps=work.options.allow_python_steps,
                credentials=files.credentials,
                fleet=fleet,
                server_process_ids=[] if current.process is None else [current.process.process_id],
                agents=metered.agents,
                unmetered=metered.unmetered,
                notes=[*local_notes(run), *warnings],
                run_id=work.reports.run_id,
                started_at=work.reports.started_at,
                stop_token=secrets.token_urlsafe(24) if restarts_server(run.spec) else "",
                request_log=planned_log(run, work.options.request_log),
            )
            return await _load(plan, server, ends, stack, work)
    finally:
        deadline.cancel()


def _fleet(work: _Work) -> PlannedFleet | None:
    """Return the fleet of the run, whose workers are processes on this machine, if it has one."""
    if work.run.spec.load.workers == 1:
        if work.options.fleet_web:
            raise RefusedError(
                "--fleet-web needs a fleet, but spec.load.workers is 1. Omit --fleet-web, or set "
                "more workers."
            )
        return None
    return PlannedFleet(web_port=0 if work.options.fleet_web else None)


async def _start(
    work: _Work, file: Path | None, stack: AsyncExitStack
) -> tuple[ReplaceableServer, Metering, list[str]]:
    """Start the server and the node agent at the same time; return warnings about the machine."""
    check = MachineCheck()
    targets = stack.enter_context(work.options.targets)
    agent = await find_agent(
        work.options.agent_url, is_launched=is_launched(work.run.spec), stack=stack
    )
    server = await ReplaceableServer.start(
        work.run,
        work.base,
        file,
        stack,
        work.watch,
        allow_python_steps=work.options.allow_python_steps,
    )
    metered = await plan_metering(agent, server.current)
    if server.current.metrics_address:
        targets.add("server", server.current.metrics_address)
    for planned in metered.agents:
        targets.add("node agent", planned.url.removeprefix("http://"))
    warnings = [*await check.warnings(), *load_generation_warnings()]
    for warning in warnings:
        work.watch(Warn(warning))
    return server, metered, warnings


async def _load(
    plan: LoadPlan, server: ReplaceableServer, ends: list[End], stack: AsyncExitStack, work: _Work
) -> Outcome:
    """Run the load generator until it, the server, the deadline or the user ends the run."""
    reports, watch, targets = work.reports, work.watch, work.options.targets
    plan_text = plan.model_dump_json(exclude_none=True).encode()
    listens = targets.is_enabled or restarts_server(plan.run.spec)
    command = load_command(sys.executable, metrics_port=0 if listens else None)
    # Unpacked data sets go with this folder, even if the load generator is killed.
    folder = stack.enter_context(
        tempfile.TemporaryDirectory(prefix="inferometer-load-", ignore_cleanup_errors=True)
    )
    load = await start_child("load generator", command, stack, plan_text, env={"TMPDIR": folder})
    reading = asyncio.create_task(_read_reports(load, server, work))

    async def on_replaced(repeat: int, replacement: TargetServer) -> None:
        targets.add("server", replacement.metrics_address)
        await hand_over(plan, reports.load_port, repeat, replacement)

    fault_of_server = asyncio.create_task(server.wait_for_fault(on_replaced))
    try:
        either = [reading, *ends, fault_of_server]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if reports.final is not None and reports.final.outcome.state == "Complete":
            return reports.final.outcome
        if any(end.done() for end in ends):
            watch("stopping")
        load.request_stop()
        await asyncio.wait([reading], timeout=_FINAL_REPORT_SECONDS)
        fault = next((end.result() for end in (*ends, fault_of_server) if end.done()), None)
        return fault or await _explain(reading.result(), server.current.process)
    finally:
        reading.cancel()
        fault_of_server.cancel()


async def _explain(outcome: Outcome, process: ChildProcess | None) -> Outcome:
    """Return the outcome that the load generator reported, with the server's last output."""
    if outcome.state in STOPPED_STATES:
        # This command did not stop the load generator.
        message = "Another process stopped the load generator before it was finished."
        return Outcome(state="Failed", reason="LoadGeneratorStopped", message=message)
    if process is None or outcome.reason not in _SERVER_FAULTS:
        return outcome
    with contextlib.suppress(TimeoutError):
        return await asyncio.wait_for(wait_for_death(process), timeout=_DEATH_SECONDS)
    message = with_last_output(outcome.message, process)
    return outcome.model_copy(update={"message": message})


async def _read_reports(load: ChildProcess, server: ReplaceableServer, work: _Work) -> Outcome:
    """Read the load generator's reports until it exits; return the outcome.

    Once a repeat is over, the server is replaced for the next.
    """
    reports = work.reports
    async for line in load.lines():
        try:
            report = read_report(line)
        except ValidationError:
            # Half a line: it was killed while writing.
            break
        match report:
            case ProgressReport():
                if report.stage == "WaitingForRestart":
                    server.request_replacement(report.repeat)
                work.watch(report)
            case ListeningReport():
                _announce(report, work)
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
        message=with_last_output(f"The load generator died ({ended}) during the run.", load),
    )


def _announce(listening: ListeningReport, work: _Work) -> None:
    if listening.metrics_port is not None:
        work.reports.load_port = listening.metrics_port
        work.options.targets.add("load generator", f"127.0.0.1:{listening.metrics_port}")
    if listening.fleet_web_port is not None:
        work.watch(WebPage(f"http://127.0.0.1:{listening.fleet_web_port}/"))


async def _deadline(seconds: int) -> Outcome:
    await asyncio.sleep(seconds)
    return Outcome(
        state="Failed",
        reason="DeadlineExceeded",
        message=f"The run was not finished after {seconds} s (spec.activeDeadlineSeconds). "
        "Raise the deadline, or use shorter scenarios.",
    )


async def _first_of(ends: list[End], work: Coroutine[None, None, T]) -> T | Outcome:
    """Return the result of the work, or the outcome of an end that comes first."""
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
