"""Command lines of a run's processes, and the plan of its load generator.

A laptop and a cluster use the same ones, so that their results differ only in where they ran. This
module starts no process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

from inferometer_api.plan.cluster_objects import load_service_name
from inferometer_api.plan.credentials import NO_CREDENTIALS, Credentials
from inferometer_api.plan.fetch_commands import option
from inferometer_api.plan.load_plan import (
    LoadNodeFault,
    LoadPlan,
    PlannedAgent,
    PlannedFleet,
    PlannedServer,
)
from inferometer_api.plan.spec_warnings import spec_warnings
from inferometer_api.runtimes.descriptor import (
    LOOPBACK,
    Place,
    ServerContainer,
    ServerLaunch,
    ServerStart,
)
from inferometer_api.spec.resolve import is_launched
from inferometer_api.spec.run import BenchmarkRun


def server_containers(
    run: BenchmarkRun, launch: ServerLaunch, start: ServerStart
) -> tuple[ServerContainer, ...]:
    """Return the containers of a pod of a resolved run's server; the first one is the server.

    Raises ValueError if the run is not resolved.
    """
    if run.spec.server.threads is None:
        raise ValueError("Only a resolved run has a server to start.")
    server, *others = launch.containers(run, start)
    if start.spans_url:
        # As OpenTelemetry's SDKs read it; what an admin has set stays.
        spans = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": start.spans_url,
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        }
        server = replace(server, env={**spans, **server.env})
    return (server, *others)


def spans_url(run: BenchmarkRun, place: Place) -> str:
    """Return where other programs send the spans of a run by OTLP/HTTP; empty if it takes none."""
    port = run.spec.load.receiver_port
    if port is None:
        return ""
    host = LOOPBACK.host
    if place == "Cluster":
        host = f"{load_service_name(run.name)}.{run.metadata.namespace}.svc"
    return f"http://{host}:{port}/v1/traces"


def load_command(
    python: str,
    *,
    plan_path: str | None = None,
    port: int | None = None,
    metrics_port: int | None = None,
    results: str | None = None,
) -> tuple[str, ...]:
    """Return the command line of a load generator.

    It reads a LoadPlan from standard input or from the file `plan_path`. Without `port` it reports
    on standard output, and serves its metrics at `metrics_port` of 127.0.0.1; port 0 is a free one,
    which its first report names. With `port` (in a pod) it serves both there, and writes the whole
    result to the folder `results` for an exporter.

    A fleet (`LoadPlan.fleet`) has the same command. If `fleet.starts_workers`, the load generator
    starts Locust's master and all workers as its children. Otherwise every pod of an Indexed Job
    with `fleet_pods(run)` completions has this command and this plan, and Kubernetes sets
    POD_INDEX_VARIABLE in each. Pod 0 is the session and Locust's master: it serves `port` and
    delivers the result. Pod i > 0 is worker i - 1 (`worker_command`): it serves nothing and
    connects to the master at `fleet.host` (the name of pod 0 below a headless Service that
    publishes addresses that are not ready) and `fleet.port`.
    """
    return (
        python,
        *("-m", "inferometer_loadgen"),
        *option("--plan", plan_path),
        *option("--listen", port),
        *option("--metrics-listen", metrics_port),
        *option("--results", results),
    )


FLEET_TOKEN_VARIABLE = "INFEROMETER_FLEET_TOKEN"  # noqa: S105 - its name
"""The environment variable with the fleet's token, for its master and workers."""


def fleet_pods(run: BenchmarkRun) -> int:
    """Return how many pods drive the load of a resolved run: a fleet's workers and their master."""
    workers = run.spec.load.workers
    return 1 if workers == 1 else workers + 1


def worker_command(
    python: str, *, host: str, port: int, index: int, has_parent: bool = True
) -> tuple[str, ...]:
    """Return the command line of one worker of a fleet, the `index`-th from 0.

    Locust's master, at `host` and `port`, sends it the plan. FLEET_TOKEN_VARIABLE must hold
    the fleet's token. With `has_parent` it exits as soon as its standard input is closed, so that
    it never outlives its parent. It hosts one measuring process. Exit codes: 0 the master reported
    the end of the run; 1 it lost its master (no heartbeat for 10 s) or its measuring process; 143
    SIGTERM.
    """
    return (
        python,
        *("-m", "inferometer_loadgen"),
        "worker",
        *("--master-host", host),
        *("--master-port", str(port)),
        *("--index", str(index)),
        *(("--has-parent",) if has_parent else ()),
    )


def agent_command(python: str, *, host: str, port: int = 0, node: str = "") -> tuple[str, ...]:
    """Return the command line of a node agent; with port 0 it chooses a free one.

    It prints one line of JSON when it listens: `{"event": "listening", "port": ...}`.
    """
    return (
        python,
        *("-m", "inferometer_telemetry"),
        *("--host", host),
        *("--port", str(port)),
        *option("--node", node or None),
    )


def load_plan(  # noqa: PLR0913 - each is one fact of the plan, and named
    run: BenchmarkRun,
    *,
    place: Literal["Local", "Cluster"],
    servers: Sequence[PlannedServer],
    model_sha256: str | None = None,
    engine_version: str = "",
    inputs_file: str | None = None,
    trace_files: Mapping[str, str] = MappingProxyType({}),
    manifest_file: str | None = None,
    manifest_sha256: str | None = None,
    allow_python_steps: bool = False,
    credentials: Credentials = NO_CREDENTIALS,
    fleet: PlannedFleet | None = None,
    server_process_ids: Sequence[int] = (),
    agents: Sequence[PlannedAgent] = (),
    unmetered: str = "",
    notes: Sequence[str] = (),
    load_node_faults: Sequence[LoadNodeFault] = (),
    run_id: str = "",
    started_at: str | None = None,
    stop_token: str = "",
    request_log: str | None = None,
) -> LoadPlan:
    """Return the plan of the load generator of a resolved run.

    The scheme of the URLs of `servers` fits load.protocol. `trace_files` has the path of the trace
    of each scenario. `fleet` is required for several workers. `notes` follow `spec_warnings`.
    """
    return LoadPlan(
        run=run,
        place=place,
        launched=is_launched(run.spec),
        servers=list(servers),
        model_name=run.spec.model.served_name,
        model_version=run.spec.model.version or "",
        model_sha256=model_sha256,
        engine_version=engine_version,
        inputs_file=inputs_file,
        trace_files=dict(trace_files),
        manifest_file=manifest_file,
        manifest_sha256=manifest_sha256,
        allow_python_steps=allow_python_steps,
        tls_ca_file=credentials.ca_file,
        tls_certificate_file=credentials.certificate_file,
        tls_key_file=credentials.key_file,
        headers_file=credentials.headers_file,
        fleet=fleet,
        server_process_ids=list(server_process_ids),
        agents=list(agents),
        energy_unavailable_reason=unmetered,
        notes=[*spec_warnings(run.spec), *notes],
        load_node_faults=list(load_node_faults),
        run_id=run_id,
        started_at=started_at,
        stop_token=stop_token,
        request_log=request_log,
    )
