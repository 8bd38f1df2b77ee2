"""How is the server of a local run fetched and started, and what may go wrong with it?"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferometer_api.plan.launch import fetch_command, server_command
from inferometer_api.results.result import Outcome
from inferometer_api.runtimes.descriptor import ServerStart
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.children import Child, describe_exit
from inferometer_cli.exits import ExitCode, FailedError, RefusedError
from inferometer_cli.local_inputs import request_shapes
from inferometer_cli.progress import ProgressCallback

_REFUSED, _FAILED = "refused: ", "failed: "
"""What begins the sentence in which a process says why it ended so."""
_GRACE_SECONDS = 1.0
"""How long a child may take to end by itself, once asked to."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server to load: ours, with its process, or one that already serves."""

    url: str
    metrics_address: str = ""
    """HOST:PORT of its metrics; empty where it was not started here."""
    process: Child | None = None
    model_sha256: str | None = None
    ready_by: float = 0.0
    """When a server of ours must be ready, on the event loop's clock."""


async def serve(
    run: BenchmarkRun, base: Path, file: Path | None, stack: AsyncExitStack, watch: ProgressCallback
) -> Server:
    """Return the server to load, which listens but may not be ready yet.

    `file` is the .npz file of the inputs. Whatever is started ends with the stack. Raises
    RefusedError or FailedError where there can be no server.
    """
    external = run.spec.server.external
    if external is not None:
        return Server(url=external.url or "")
    folder = stack.enter_context(
        tempfile.TemporaryDirectory(prefix="inferometer-", ignore_cleanup_errors=True)
    )
    watch(f"fetching {run.spec.model.uri}")
    command = fetch_command(run, base=str(base), destination=folder, python=sys.executable)
    model = json.loads(await _first_line(await start("model fetcher", command, stack)))
    shapes = request_shapes(run, file, model["inputs"])
    watch("starting the server")
    start_facts = ServerStart(model_path=model["path"], python=sys.executable, shapes=shapes)
    command = server_command(run, start_facts)
    ready_by = asyncio.get_running_loop().time() + run.spec.server.ready_deadline_seconds
    process = await start("server", command, stack)
    ports = await _ports(process, run, ready_by)
    is_http = run.spec.load.protocol == "HTTP"
    http, grpc = (f"127.0.0.1:{ports[name]}" for name in ("httpPort", "grpcPort"))
    return Server(
        url=f"http://{http}" if is_http else f"grpc://{grpc}",
        metrics_address=http,
        process=process,
        model_sha256=model["sha256"],
        ready_by=ready_by,
    )


async def start(
    name: str,
    command: Sequence[str],
    stack: AsyncExitStack,
    words: bytes | None = None,
    *,
    grace_seconds: float = _GRACE_SECONDS,
) -> Child:
    """Start a child that ends with the stack, by request or, after its grace, by force."""
    child = await Child.start(name, command, standard_input=words)
    stack.push_async_callback(child.stop, grace_seconds=grace_seconds)
    return child


async def death(process: Child) -> Outcome:
    """Wait for the end of the server; return what it means for a run that needs it."""
    code = await process.wait()
    if code == ExitCode.REFUSED:
        return Outcome(
            state="Refused",
            reason="ServerRefused",
            message=process.last_line().removeprefix(_REFUSED),
        )
    sentence = f"The server died while it was needed ({describe_exit(code)})."
    return Outcome(state="Failed", reason="ServerDied", message=with_last_lines(sentence, process))


async def lateness(process: Child, run: BenchmarkRun, ready_by: float) -> Outcome:
    """Return the outcome of a server that is not ready in time; wait for ever where it is."""
    try:
        async with asyncio.timeout_at(ready_by):
            await _says_ready(process)
    except TimeoutError:
        return Outcome(
            state="Failed", reason="ServerNotReady", message=str(_not_ready(run, process))
        )
    never: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    return await never


def with_last_lines(sentence: str, child: Child) -> str:
    """Return a sentence about a process with the last lines of its standard error."""
    lines = child.last_lines()
    return f"{sentence} Its last lines:\n{lines}" if lines else f"{sentence} It said nothing."


async def _first_line(child: Child) -> bytes:
    """Return the first line that a child says; raises the sentence it ended with instead."""
    async for line in child.lines():
        return line
    code = await child.wait()
    if code == ExitCode.REFUSED:
        raise RefusedError(child.last_line().removeprefix(_REFUSED))
    if code == ExitCode.FAILED and child.last_line().startswith(_FAILED):
        raise FailedError(child.last_line().removeprefix(_FAILED))
    raise FailedError(
        with_last_lines(f"The {child.name} ended by {describe_exit(code)} at its start.", child)
    )


async def _ports(process: Child, run: BenchmarkRun, ready_by: float) -> Mapping[str, int]:
    try:
        async with asyncio.timeout_at(ready_by):
            event: dict[str, Any] = json.loads(await _first_line(process))
    except TimeoutError:
        raise _not_ready(run, process) from None
    if event["event"] == "refused":
        raise RefusedError(event["message"])
    if event["event"] != "listening":
        raise FailedError(event["message"])
    return event


async def _says_ready(process: Child) -> None:
    """Return once the server says that it is ready, or can say nothing any more."""
    async for line in process.lines():
        if json.loads(line)["event"] == "ready":
            return


def _not_ready(run: BenchmarkRun, process: Child) -> FailedError:
    seconds = run.spec.server.ready_deadline_seconds
    return FailedError(
        with_last_lines(
            f"The server was not ready within {seconds} s (spec.server.readyDeadlineSeconds): "
            "raise it, or see what kept the server.",
            process,
        )
    )
