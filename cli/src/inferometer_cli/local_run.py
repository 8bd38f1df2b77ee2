"""How is a run done without a cluster: which processes, in which order, and what ends it?

The same fetch, server and load generator that a cluster runs in pods are started as child
processes on loopback (`inferometer_api.launch` makes the command lines of both).
"""

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from inferometer_api.launch import (
    fetch_command,
    load_command,
    load_plan,
    server_command,
)
from inferometer_api.plan import Ended, LoadPlan, Measured, Progress, Report, Surroundings
from inferometer_api.resolve import local_notes
from inferometer_api.result import Environment, Outcome, ResultDocument, ScenarioResult
from inferometer_api.run import BenchmarkRun
from inferometer_cli.children import Child, describe_exit
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.progress import Watch
from inferometer_cli.version import VERSION
from inferometer_serving.errors import ModelRefusedError
from inferometer_serving.fetch import local_path

_REPORT: TypeAdapter[Report] = TypeAdapter(Report)
_REFUSED_EXIT = 2
_LAST_WORDS_SECONDS = 2.5
"""How long the load generator may take to hand over what it measured, once asked to stop."""
_GRACE_SECONDS = 1.0
"""How long a child may take to end by itself, once asked to."""


T = TypeVar("T")
End = asyncio.Future[Outcome]
"""Something that ends a run from outside its own work, and the outcome it stands for."""


@dataclass(slots=True)
class _Found:
    """What the load generator has reported so far."""

    environment: Environment | None = None
    scenarios: list[ScenarioResult] = field(default_factory=list)
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class _Serving:
    """A server to load: ours, with its process, or one that already serves."""

    url: str
    process: Child | None
    model_sha256: str | None


async def run_locally(
    run: BenchmarkRun, *, base: Path, stopped: End, watch: Watch
) -> ResultDocument:
    """Launch, load, measure, judge and clean up; return what was found.

    `run` is resolved, and relative paths in it are relative to `base`. `stopped` is done when a
    person asks for an end. Whatever happens, no process is left behind, and what was measured
    until then is in the document.
    """
    started_at = _now()
    found = _Found()
    outcome = await _run(run, base, stopped, found, watch)
    return ResultDocument(
        api_version="inferometer.dev/v1alpha1",
        kind="BenchmarkResult",
        schema_version=1,
        run_id=str(uuid4()),
        inferometer_version=VERSION,
        started_at=started_at,
        finished_at=_now(),
        outcome=outcome,
        run=run,
        environment=found.environment,
        scenarios=found.scenarios,
    )


async def _run(run: BenchmarkRun, base: Path, stopped: End, found: _Found, watch: Watch) -> Outcome:
    deadline = asyncio.create_task(_deadline(run.spec.active_deadline_seconds))
    ends = [stopped, deadline]
    try:
        async with AsyncExitStack() as stack:
            serving = await _unless(ends, _serve(run, base, stack, watch))
            if isinstance(serving, Outcome):
                return serving
            plan = _plan(run, base, serving)
            return await _load(plan, serving.process, ends, stack, found, watch)
    except RefusedError as refusal:
        return Outcome(state="Refused", reason="CannotBeRun", message=str(refusal))
    except FailedError as fault:
        return Outcome(state="Failed", reason="NotStarted", message=str(fault))
    except OSError as error:
        message = f"The run could not go on: {error.strerror or error}."
        return Outcome(state="Failed", reason="SystemError", message=message)
    finally:
        deadline.cancel()


async def _serve(run: BenchmarkRun, base: Path, stack: AsyncExitStack, watch: Watch) -> _Serving:
    """Return the server to load, which listens but may not be ready yet."""
    external = run.spec.server.external
    if external is not None:
        return _Serving(url=external.url or "", process=None, model_sha256=None)
    folder = stack.enter_context(
        tempfile.TemporaryDirectory(prefix="inferometer-", ignore_cleanup_errors=True)
    )
    watch(f"fetching {run.spec.model.uri}")
    command = fetch_command(run, base=str(base), destination=folder, python=sys.executable)
    model = json.loads(await _first_line(await _start("model fetcher", command, stack)))
    watch("starting the server")
    command = server_command(run, model_path=model["path"], python=sys.executable)
    server = await _start("server", command, stack)
    ports = json.loads(await _first_line(server))
    http = run.spec.load.protocol == "HTTP"
    url = (
        f"http://127.0.0.1:{ports['httpPort']}" if http else f"grpc://127.0.0.1:{ports['grpcPort']}"
    )
    return _Serving(url=url, process=server, model_sha256=model["sha256"])


def _plan(run: BenchmarkRun, base: Path, serving: _Serving) -> LoadPlan:
    inputs = run.spec.load.inputs.file
    return load_plan(
        run,
        place="Local",
        server_url=serving.url,
        model_sha256=serving.model_sha256,
        inputs_file=None if inputs is None else _inputs_file(inputs.uri, base),
        server_process_ids=[] if serving.process is None else [serving.process.process_id],
        notes=local_notes(run),
    )


def _inputs_file(uri: str, base: Path) -> str:
    try:
        path = local_path(uri, base)
    except ModelRefusedError as error:
        raise RefusedError(str(error)) from error
    if not path.is_file():
        raise RefusedError(f"The inputs {uri} were asked for, but there is no file {path}.")
    return str(path)


async def _load(
    plan: LoadPlan,
    server: Child | None,
    ends: list[End],
    stack: AsyncExitStack,
    found: _Found,
    watch: Watch,
) -> Outcome:
    """Run the load generator until it, the server, a deadline or a person ends the run."""
    words = plan.model_dump_json(exclude_none=True).encode()
    load = await _start("load generator", load_command(sys.executable), stack, words)
    reading = asyncio.create_task(_read_reports(load, found, watch))
    faults = [*ends] if server is None else [*ends, asyncio.create_task(_death(server))]
    await asyncio.wait([reading, *faults], return_when=asyncio.FIRST_COMPLETED)
    fault = next((end for end in faults if end.done()), None)
    if fault is None or (found.outcome is not None and found.outcome.state == "Complete"):
        return reading.result()
    watch("stopping")
    load.ask_to_stop()
    await asyncio.wait([reading], timeout=_LAST_WORDS_SECONDS)
    reading.cancel()
    return fault.result()


async def _read_reports(load: Child, found: _Found, watch: Watch) -> Outcome:
    """Take in the load generator's reports until its end; return the outcome it stands for."""
    async for line in load.lines():
        try:
            report = _REPORT.validate_json(line)
        except ValidationError:
            # Half a line: it was ended by force while it wrote.
            break
        match report:
            case Progress():
                watch(report)
            case Surroundings():
                found.environment = report.environment
            case Measured():
                found.scenarios.append(report.scenario)
            case Ended():
                found.outcome = report.outcome
    if found.outcome is not None:
        return found.outcome
    ended = describe_exit(await load.ended())
    return Outcome(
        state="Failed",
        reason="LoadGeneratorDied",
        message=_with_last_lines(f"The load generator ended by {ended} before it was done.", load),
    )


async def _start(
    name: str, command: Sequence[str], stack: AsyncExitStack, words: bytes | None = None
) -> Child:
    child = await Child.start(name, command, standard_input=words)
    stack.push_async_callback(child.stop, grace_seconds=_GRACE_SECONDS)
    return child


async def _first_line(child: Child) -> bytes:
    """Return the first line that a child says; raises the sentence it ended with instead."""
    async for line in child.lines():
        return line
    code = await child.ended()
    if code == _REFUSED_EXIT:
        raise RefusedError(child.last_line())
    raise FailedError(
        _with_last_lines(f"The {child.name} ended by {describe_exit(code)} at its start.", child)
    )


async def _death(server: Child) -> Outcome:
    code = await server.ended()
    if code == _REFUSED_EXIT:
        return Outcome(state="Refused", reason="ServerRefused", message=server.last_line())
    sentence = f"The server died while it was needed ({describe_exit(code)})."
    return Outcome(state="Failed", reason="ServerDied", message=_with_last_lines(sentence, server))


async def _deadline(seconds: int) -> Outcome:
    await asyncio.sleep(seconds)
    return Outcome(
        state="Failed",
        reason="DeadlineExceeded",
        message=f"The run was not done after activeDeadlineSeconds ({seconds} s): "
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


def _with_last_lines(sentence: str, child: Child) -> str:
    lines = child.last_lines()
    return f"{sentence} Its last lines:\n{lines}" if lines else f"{sentence} It said nothing."


def _now() -> str:
    return datetime.now(tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
