"""The server of a local run: its model is fetched, its process started and watched."""

import asyncio
import contextlib
import json
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from inferometer_api.plan.cluster_objects import DEFAULT_PORTS
from inferometer_api.plan.launch import (
    fetch_command,
    fetch_other_command,
    server_containers,
)
from inferometer_api.plan.load_plan import StartEvidence
from inferometer_api.results.result import Outcome
from inferometer_api.runtimes.descriptor import LOOPBACK, Listen, ServerLaunch, ServerStart
from inferometer_api.runtimes.table import launch_of
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.suite.labels import SUITE_LABEL
from inferometer_cli.exits import ExitCode, FailedError, RefusedError
from inferometer_cli.local.child_process import ChildProcess, describe_exit
from inferometer_cli.local.files import request_shapes, served_manifest
from inferometer_cli.progress import ProgressCallback

_REFUSED, _FAILED = "refused: ", "failed: "
"""Prefixes of the last line in which a child process explains its exit code."""
_GRACE_SECONDS = 1.0
"""How long a child may take to stop after SIGTERM."""
_POLL_SECONDS = 0.1
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 5.0
"""How long a server may take to answer whether it is ready."""


@dataclass(frozen=True, slots=True)
class TargetServer:
    """A server to load: a child of this run, or one that is already running."""

    url: str
    metrics_address: str = ""
    """HOST:PORT of its metrics; empty if this run did not start it."""
    process: ChildProcess | None = None
    model_sha256: str | None = None
    ready_by: float | None = None
    """When a child must report that it is ready, on the event loop's clock; None: it is ready."""
    launched_microseconds: int | None = None
    """When its process was started, in Unix time."""
    ready_microseconds: int | None = None
    """When it was seen to be ready, of servers that do not report that."""
    start: StartEvidence | None = None
    """For cold starts."""


@dataclass(frozen=True, slots=True)
class LaunchedModel:
    """The model of a launched server, as the fetcher has left it."""

    folder: str
    path: str
    sha256: str
    shapes: Mapping[str, Sequence[int]] | None
    """The shapes that requests will have, by input; None: those of random inputs."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Paths of the further models of the server, by name."""
    manifest_file: str | None = None
    """The model's manifest, if the server runs its steps."""


async def check_listener(run: BenchmarkRun) -> None:
    """Raise RefusedError if nothing listens at the URL of the External server.

    A run that sets its own readyDeadlineSeconds waits so long for a server that is starting.
    """
    server = run.spec.server
    if server.external is None or "ready_deadline_seconds" in server.model_fields_set:
        return
    url = server.external.url or ""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            port = parts.port or DEFAULT_PORTS[parts.scheme]
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except TimeoutError:
        return  # a firewall or a slow network: the load generator reports it while it waits
    except OSError as error:
        # Slow to import, and rarely needed.
        from inferometer_loadgen.wire.contract import connection_error_text

        in_suite = SUITE_LABEL in run.metadata.labels
        wait = "set spec.server.readyDeadlineSeconds" if in_suite else "add --wait SECONDS"
        raise RefusedError(
            f"No server can be reached at {url}: {connection_error_text(error)}. Check host and "
            f"port, and that the server runs. To wait for one that is starting, {wait}."
        ) from error
    writer.transport.abort()


async def fetch_model(
    run: BenchmarkRun, base: Path, file: Path | None, stack: AsyncExitStack, watch: ProgressCallback
) -> LaunchedModel:
    """Fetch the model of a launched server into a folder that goes with the stack.

    `file` is the .npz file of the inputs. Raises RefusedError or FailedError.
    """
    folder = stack.enter_context(
        tempfile.TemporaryDirectory(prefix="inferometer-", ignore_cleanup_errors=True)
    )
    watch(f"fetching {run.spec.model.uri}")
    command = fetch_command(
        run, launch_of(run.spec), base=str(base), destination=folder, python=sys.executable
    )
    model = await _fetched(command, stack)
    others = {}
    for other in run.spec.other_models or ():
        watch(f"fetching {other.uri}")
        command = fetch_other_command(
            other, base=str(base), destination=folder, python=sys.executable
        )
        others[other.served_name] = await _fetched(command, stack)
    inputs = [each["inputs"] for each in others.values()]
    return LaunchedModel(
        folder,
        model["path"],
        model["sha256"],
        request_shapes(run, file, model["inputs"], inputs),
        {name: each["path"] for name, each in others.items()},
        served_manifest(run, base),
    )


async def _fetched(command: Sequence[str], stack: AsyncExitStack) -> dict[str, Any]:
    """Return what the fetcher reports of a model."""
    child = await start_child("model fetcher", command, stack)
    found: dict[str, Any] = json.loads(await _first_line(child))
    return found


async def start_server(
    run: BenchmarkRun,
    model: LaunchedModel,
    stack: AsyncExitStack,
    *,
    allow_python_steps: bool = False,
) -> TargetServer:
    """Start the server of a model; it ends with the stack.

    It may not be ready yet if it announces its ports. Raises RefusedError or FailedError if it
    cannot be started.
    """
    launch = launch_of(run.spec)
    announces = launch.local is not None and launch.local.announces_ports
    start = ServerStart(
        layout=launch.layout(run).located(model.folder, model.path),
        python=sys.executable,
        listen=LOOPBACK if announces else _free_ports(launch),
        shapes=model.shapes,
        other_models=model.others,
        manifest_file=model.manifest_file,
        allow_python_steps=allow_python_steps and model.manifest_file is not None,
    )
    server = server_containers(run, launch, start)[0]
    ready_by = asyncio.get_running_loop().time() + run.spec.server.ready_deadline_seconds
    launched = time.time_ns() // 1000
    process = await ChildProcess.start(
        "server", server.command, env=server.env, logs_to_output=not announces
    )
    # Others free shared memory and end their own children first.
    grace = _GRACE_SECONDS if announces else launch.stop_seconds
    stack.push_async_callback(process.stop, grace_seconds=grace)
    listen, ready = start.listen, None
    if announces:
        listen = await _announced_ports(process, run, ready_by)
    else:
        url = f"http://{listen.host}:{listen.http_port}{launch.ready_path_of(run)}"
        await _poll_until_ready(process, url, run, ready_by)
        ready = time.time_ns() // 1000
    is_http = run.spec.load.protocol == "HTTP"
    return TargetServer(
        url=f"http://{listen.host}:{listen.http_port}"
        if is_http
        else f"grpc://{listen.host}:{listen.grpc_port}",
        metrics_address=f"{listen.host}:{listen.metrics_port}",
        process=process,
        model_sha256=model.sha256,
        ready_by=ready_by if announces else None,
        launched_microseconds=launched,
        ready_microseconds=ready,
    )


async def try_server(run: BenchmarkRun, base: Path, file: Path | None) -> Outcome | None:
    """Start the server of a run, and stop it once it is ready.

    Return why it did not become ready, None if it did. Raises what `fetch_model` and `start_server`
    raise.
    """
    async with AsyncExitStack() as stack:
        model = await fetch_model(run, base, file, stack, lambda _: None)
        server = await start_server(run, model, stack)
        process = server.process
        if process is None or server.ready_by is None:
            return None
        try:
            async with asyncio.timeout_at(server.ready_by):
                is_ready = await _wait_until_ready(process)
        except TimeoutError:
            raise _not_ready_error(run, process) from None
        return None if is_ready else await wait_for_death(process)


async def start_child(
    name: str,
    command: Sequence[str],
    stack: AsyncExitStack,
    standard_input: bytes | None = None,
    *,
    grace_seconds: float = _GRACE_SECONDS,
) -> ChildProcess:
    """Start a child that ends with the stack: by SIGTERM, then after its grace by SIGKILL."""
    child = await ChildProcess.start(name, command, standard_input=standard_input)
    stack.push_async_callback(child.stop, grace_seconds=grace_seconds)
    return child


async def wait_for_death(process: ChildProcess) -> Outcome:
    """Wait until the server exits; return what that means for the run."""
    code = await process.wait()
    if _is_refusal(code, process):
        return Outcome(
            state="Refused",
            reason="ServerRefused",
            message=process.last_line().removeprefix(_REFUSED),
        )
    sentence = f"The server died during the run ({describe_exit(code)})."
    return Outcome(state="Failed", reason="ServerDied", message=with_last_output(sentence, process))


async def wait_for_deadline(process: ChildProcess, run: BenchmarkRun, ready_by: float) -> Outcome:
    """Return the outcome of a server that is not ready in time; wait forever if it is."""
    try:
        async with asyncio.timeout_at(ready_by):
            await _wait_until_ready(process)
    except TimeoutError:
        return Outcome(
            state="Failed", reason="ServerNotReady", message=str(_not_ready_error(run, process))
        )
    never: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    return await never


def with_last_output(sentence: str, child: ChildProcess) -> str:
    """Return a sentence about a process, with the last lines of its standard error."""
    lines = child.last_lines()
    return f"{sentence} Its last output:\n{lines}" if lines else f"{sentence} It printed nothing."


async def _first_line(child: ChildProcess) -> bytes:
    """Return the first line of a child's output. Raises an error if it exits without one."""
    async for line in child.lines():
        return line
    code = await child.wait()
    if _is_refusal(code, child):
        raise RefusedError(child.last_line().removeprefix(_REFUSED))
    if code == ExitCode.FAILED and child.last_line().startswith(_FAILED):
        raise FailedError(child.last_line().removeprefix(_FAILED))
    raise FailedError(
        with_last_output(f"The {child.name} exited at once ({describe_exit(code)}).", child)
    )


def _is_refusal(code: int, child: ChildProcess) -> bool:
    """Return whether a child of Inferometer refused its work; in others the code means anything."""
    return code == ExitCode.REFUSED and child.last_line().startswith(_REFUSED)


def _free_ports(launch: ServerLaunch) -> Listen:
    """Return free ports; if another process takes one first, the server says so and exits."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind((LOOPBACK.host, 0))
        http, grpc, metrics = (each.getsockname()[1] for each in sockets)
    return Listen(LOOPBACK.host, http, grpc, http if launch.metrics_port is None else metrics)


async def _poll_until_ready(
    process: ChildProcess, url: str, run: BenchmarkRun, ready_by: float
) -> None:
    """Return once `url` answers 200. Raises FailedError if the server dies first or is late."""
    polling = asyncio.create_task(_poll(url))
    death = asyncio.create_task(process.wait())
    try:
        left_seconds = ready_by - asyncio.get_running_loop().time()
        done, _ = await asyncio.wait(
            (polling, death), timeout=left_seconds, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        polling.cancel()
        death.cancel()
    if death in done:
        ended = describe_exit(death.result())
        raise FailedError(
            with_last_output(f"The server died before it was ready ({ended}).", process)
        )
    if polling not in done:
        raise _not_ready_error(run, process)
    polling.result()


async def _poll(url: str) -> None:
    # Slow to import, and not needed by every runtime.
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async with session.get(url, allow_redirects=False) as answer:
                    if answer.status == HTTPStatus.OK:
                        return
            await asyncio.sleep(_POLL_SECONDS)


async def _announced_ports(process: ChildProcess, run: BenchmarkRun, ready_by: float) -> Listen:
    try:
        async with asyncio.timeout_at(ready_by):
            event: dict[str, Any] = json.loads(await _first_line(process))
    except TimeoutError:
        raise _not_ready_error(run, process) from None
    if event["event"] == "refused":
        raise RefusedError(event["message"])
    if event["event"] != "listening":
        raise FailedError(event["message"])
    http_port = event["httpPort"]
    return Listen(LOOPBACK.host, http_port, event["grpcPort"], http_port)


async def _wait_until_ready(process: ChildProcess) -> bool:
    """Return True once the server reports that it is ready, False if it closes its output."""
    async for line in process.lines():
        if json.loads(line)["event"] == "ready":
            return True
    return False


def _not_ready_error(run: BenchmarkRun, process: ChildProcess) -> FailedError:
    seconds = run.spec.server.ready_deadline_seconds
    return FailedError(
        with_last_output(
            f"The server was not ready within {seconds} s (spec.server.readyDeadlineSeconds). "
            "Raise the deadline, or check what delays the server.",
            process,
        )
    )
