"""The server of a local run: its model is fetched and its process started."""

import asyncio
import json
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from inferometer_api.plan.cluster_objects import DEFAULT_PORTS
from inferometer_api.plan.fetch_commands import fetch_command, fetch_other_command
from inferometer_api.plan.launch import load_plan, server_containers, spans_url
from inferometer_api.plan.load_plan import PlannedServer, StartEvidence
from inferometer_api.results.result import Outcome
from inferometer_api.runtimes.descriptor import LOOPBACK, Listen, ServerLaunch, ServerStart
from inferometer_api.runtimes.table import launch_of
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.suite.labels import SUITE_LABEL
from inferometer_cli.exits import RefusedError
from inferometer_cli.local.child_process import (
    GRACE_SECONDS,
    ChildProcess,
    first_line,
    start_child,
)
from inferometer_cli.local.engines import loaded_version
from inferometer_cli.local.files import check_loaded_engine, request_shapes, served_manifest
from inferometer_cli.local.server_readiness import (
    announced_ports,
    not_ready_error,
    poll_until_ready,
    wait_for_death,
    wait_until_ready,
)
from inferometer_cli.progress import ProgressCallback

if TYPE_CHECKING:
    from inferometer_tasks.manifest_file import ManifestFile

WAIT_ADVICE = "To wait for one that is starting"
"""Begin of the last sentence about an External server that cannot be reached."""
_CONNECT_SECONDS = 5.0


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
    engine_version: str = ""
    """Of an engine whose version the server may not report; empty if not known."""


@dataclass(frozen=True, slots=True)
class LaunchedModel:
    """The model of a launched server, as the fetcher has left it."""

    folder: str
    path: str
    sha256: str
    shapes: Mapping[str, Sequence[int]] | None
    """The shapes that requests will have, by input; None: those of random inputs."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Paths of the further models of the server, by name; files of this machine are not copied."""
    manifest_file: str | None = None
    """The model's manifest, if the server runs its steps."""
    source_path: str | None = None
    """The file of which `path` is a copy; None if it is none."""
    fetch_started_microseconds: int | None = None
    """When the fetcher began to fetch, in Unix time."""


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
            f"port, and that the server runs. {WAIT_ADVICE}, {wait}."
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
    model = await _fetch(command, stack)
    others = {}
    for other in run.spec.other_models or ():
        watch(f"fetching {other.uri}")
        command = fetch_other_command(
            other, base=str(base), destination=folder, python=sys.executable
        )
        others[other.served_name] = await _fetch(command, stack)
    inputs = [each["inputs"] for each in others.values()]
    return LaunchedModel(
        folder,
        model["path"],
        model["sha256"],
        request_shapes(run, file, model["inputs"], inputs),
        {name: each["path"] for name, each in others.items()},
        served_manifest(run, base),
        model.get("sourcePath"),
        model["startedMicroseconds"],
    )


async def _fetch(command: Sequence[str], stack: AsyncExitStack) -> dict[str, Any]:
    """Return what the fetcher reports of a model."""
    child = await start_child("model fetcher", command, stack)
    found: dict[str, Any] = json.loads(await first_line(child))
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
        spans_url=spans_url(run, "Local"),
    )
    server = server_containers(run, launch, start)[0]
    ready_by = asyncio.get_running_loop().time() + run.spec.server.ready_deadline_seconds
    launched = time.time_ns() // 1000
    try:
        process = await ChildProcess.start(
            "server", server.command, env=server.env, logs_to_output=not announces
        )
    except OSError as error:
        program = shutil.which(server.command[0]) or server.command[0]
        raise RefusedError(
            f"The server cannot be started: {program}: {error.strerror}. If the file is there, the "
            "program that its first line names is missing."
        ) from error
    # Others free shared memory and end their own children first.
    grace = GRACE_SECONDS if announces else launch.stop_seconds
    stack.push_async_callback(process.stop, grace_seconds=grace)
    listen, ready = start.listen, None
    if announces:
        listen = await announced_ports(process, run, ready_by)
    else:
        url = f"http://{listen.host}:{listen.http_port}{launch.ready_path_of(run)}"
        await poll_until_ready(process, url, run, ready_by)
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
        engine_version="" if announces else _engine_version(run, launch, process),
    )


def _engine_version(run: BenchmarkRun, launch: ServerLaunch, process: ChildProcess) -> str:
    """Return the version of the engine that a server which is ready has loaded."""
    engine = launch.engine(run.spec.server)
    return "" if engine is None else loaded_version(process.process_id, engine)


async def try_server(
    run: BenchmarkRun,
    base: Path,
    file: Path | None,
    manifest: "ManifestFile | None",
    *,
    allow_python_steps: bool = False,
) -> Outcome | None:
    """Start the server of a run, and stop it once it is ready.

    A manifest is compared with the engine and the model that it has. Return why it did not become
    ready, None if it did. Raises what `fetch_model` and `start_server` raise, and RefusedError if
    the manifest does not fit.
    """
    async with AsyncExitStack() as stack:
        model = await fetch_model(run, base, file, stack, lambda _: None)
        server = await start_server(run, model, stack, allow_python_steps=allow_python_steps)
        check_loaded_engine(run, manifest, server.engine_version)
        process = server.process
        if process is not None and server.ready_by is not None:
            try:
                async with asyncio.timeout_at(server.ready_by):
                    is_ready = await wait_until_ready(process)
            except TimeoutError:
                raise not_ready_error(run, process) from None
            if not is_ready:
                return await wait_for_death(process)
        if any(each.evaluated for each in run.spec.scenarios):
            await _check_task(run, manifest, server, allow_python_steps=allow_python_steps)
        return None


async def _check_task(
    run: BenchmarkRun,
    manifest: "ManifestFile | None",
    server: TargetServer,
    *,
    allow_python_steps: bool,
) -> None:
    """Check a manifest against the model of its server, as the load generator does in a run."""
    # Slow to import, and only needed for scenarios with accuracy.
    from inferometer_loadgen.task.model_task import check_task
    from inferometer_tasks.errors import TaskRefusedError

    plan = load_plan(
        run,
        place="Local",
        servers=[PlannedServer(url=server.url)],
        engine_version=server.engine_version,
        manifest_file=None if manifest is None else str(manifest.path),
        manifest_sha256=None if manifest is None else manifest.sha256,
        allow_python_steps=allow_python_steps,
    )
    try:
        await check_task(plan)
    except TaskRefusedError as error:
        raise RefusedError(str(error)) from error


def _free_ports(launch: ServerLaunch) -> Listen:
    """Return free ports; if another process takes one first, the server says so and exits."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind((LOOPBACK.host, 0))
        http, grpc, metrics = (each.getsockname()[1] for each in sockets)
    return Listen(LOOPBACK.host, http, grpc, http if launch.metrics_port is None else metrics)
