"""With which command lines and which plan is a run launched?

The same here for a laptop and a cluster, so that their results differ only in where they ran. No
process is started here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from inferometer_api.plan.credentials import NO_CREDENTIALS, Credentials
from inferometer_api.plan.load_plan import LoadPlan, PlannedAgent, PlannedFleet, PlannedServer
from inferometer_api.plan.spec_warnings import spec_warnings
from inferometer_api.runtimes.descriptor import ServerStart
from inferometer_api.runtimes.table import launch_of
from inferometer_api.spec.address import address
from inferometer_api.spec.resolve import launched
from inferometer_api.spec.run import BenchmarkRun

_FETCHER = "inferometer_fetch"


def pod_model_path(run: BenchmarkRun, *, destination: str, sources: str) -> str:
    """Return where a pod finds the model of a launched server, known before it is fetched.

    A model on a claim is served where it lies, below the folder `sources`; every other one is
    written into the folder `destination`. Raises AddressError.
    """
    found = address(run.spec.model.uri or "")
    file = None if found is None else found.file
    written = f"{destination}/{launch_of(run.spec).model_file(run)}"
    return written if file is None else f"{sources}/{file}"


@dataclass(frozen=True, slots=True)
class FetchingPod:
    """What a pod has for fetching."""

    sources: str
    """The folder of mounted claims and ConfigMaps."""
    max_model_bytes: int
    max_written_bytes: int


def fetch_command(
    run: BenchmarkRun,
    *,
    destination: str,
    python: str,
    base: str | None = None,
    pod: FetchingPod | None = None,
) -> tuple[str, ...]:
    """Return the command line that fetches and checks the model of a launched server.

    `destination` is the folder for what has to be written. Locally `base` is the folder that a
    relative `file:` begins in. In a `pod` the model is where `pod_model_path` says, and the .npz
    file of inputs that come from one is fetched too. It prints one line of JSON: path, sha256,
    name.
    """
    model, file = run.spec.model, run.spec.load.inputs.file
    if model.uri is None:
        raise ValueError("An External server has its model already: nothing is fetched for it.")
    in_pod: tuple[str, ...] = ()
    if pod is not None:
        in_pod = (
            *("--file-name", launch_of(run.spec).model_file(run)),
            *("--max-model-bytes", str(pod.max_model_bytes)),
            *_option("--inputs-uri", None if file is None else file.uri),
            *_sources(pod),
        )
    return (
        python,
        *("-m", _FETCHER),
        *("--uri", model.uri),
        *("--destination", destination),
        *_option("--relative-to", base),
        *_option("--sha256", model.sha256),
        *in_pod,
    )


def fetch_inputs_command(
    run: BenchmarkRun, *, destination: str, python: str, pod: FetchingPod
) -> tuple[str, ...]:
    """Return the command line that fetches a run's inputs and traces in a pod.

    They are written as INPUTS_FILE and `trace_file` into the folder `destination`.
    """
    file = run.spec.load.inputs.file
    if not run.spec.data_addresses:
        raise ValueError("Random inputs are made: nothing is fetched for them.")
    traces = (
        f"--trace={scenario.name}={scenario.profile.data_uri}"
        for scenario in run.spec.scenarios
        if scenario.profile.data_uri is not None
    )
    return (
        python,
        *("-m", _FETCHER),
        *_option("--inputs-uri", None if file is None else file.uri),
        *traces,
        *("--destination", destination),
        *_sources(pod),
    )


def _sources(pod: FetchingPod) -> tuple[str, ...]:
    return ("--sources", pod.sources, "--max-written-bytes", str(pod.max_written_bytes))


def server_command(run: BenchmarkRun, start: ServerStart) -> tuple[str, ...]:
    """Return the command line of the server of a resolved run.

    Raises ValueError if the run is not resolved or its server is External.
    """
    launch = launch_of(run.spec)
    if run.spec.server.threads is None:
        raise ValueError("Only a resolved run has a server to start.")
    return launch.command(run, start)


def _option(flag: str, value: str | int | None) -> tuple[str, ...]:
    return () if value is None else (flag, str(value))


def load_command(
    python: str,
    *,
    plan_path: str | None = None,
    port: int | None = None,
    metrics_port: int | None = None,
) -> tuple[str, ...]:
    """Return the command line of a load generator.

    It reads a LoadPlan from standard input or from the file `plan_path`, and reports on standard
    output or, in a pod, to whoever asks at `port`, where its metrics are too. Where it reports on
    standard output its metrics are at `metrics_port` of 127.0.0.1; 0 is a free one of its own
    choice, and its first report (`Listening`) tells which.

    A fleet (`LoadPlan.fleet`) has the same command. Where `fleet.starts_workers` the load generator
    starts Locust's master and all workers as its children. Else every pod of an Indexed Job with
    `fleet_pods(run)` completions has this one command and this one plan, and the environment
    variable POD_INDEX_VARIABLE, which Kubernetes sets, tells what a pod is: 0 is the session and
    Locust's master, which answers at `port` and hands the result over; a pod i > 0 is worker i - 1
    (`worker_command`), answers nowhere, and looks for the master at `fleet.host` (the pod 0's name
    below a headless Service that publishes addresses that are not ready) and `fleet.port`.
    """
    return (
        python,
        *("-m", "inferometer_loadgen"),
        *_option("--plan", plan_path),
        *_option("--listen", port),
        *_option("--metrics-listen", metrics_port),
    )


POD_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
"""Where a pod of an Indexed Job is told its index."""


def fleet_pods(run: BenchmarkRun) -> int:
    """Return how many pods drive the load of a resolved run: a fleet's workers and their master."""
    workers = run.spec.load.workers
    return 1 if workers == 1 else workers + 1


def worker_command(
    python: str, *, host: str, port: int, index: int, has_parent: bool = True
) -> tuple[str, ...]:
    """Return the command line of one worker of a fleet, the `index`-th from 0.

    It needs no plan: Locust's master, at `host` and `port`, moves that out. With `has_parent` it
    ends as soon as its standard input does, so that it outlives nobody. It hosts one measuring
    process and exits with 0 once the master says that the run is over, 1 where it lost its master
    (no heartbeat for 10 s) or its measuring process, and 143 after SIGTERM.
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
    """Return the command line of a node agent; port 0 is a free one of its own choice.

    It prints one line of JSON when it listens: event ("listening"), port.
    """
    return (
        python,
        *("-m", "inferometer_telemetry"),
        *("--host", host),
        *("--port", str(port)),
        *_option("--node", node or None),
    )


def load_plan(  # noqa: PLR0913 - each is one fact of the plan, and named
    run: BenchmarkRun,
    *,
    place: Literal["Local", "Cluster"],
    servers: Sequence[PlannedServer],
    model_sha256: str | None = None,
    inputs_file: str | None = None,
    trace_files: Mapping[str, str] = MappingProxyType({}),
    credentials: Credentials = NO_CREDENTIALS,
    fleet: PlannedFleet | None = None,
    server_process_ids: Sequence[int] = (),
    agents: Sequence[PlannedAgent] = (),
    unmetered: str = "",
    notes: Sequence[str] = (),
    run_id: str = "",
    started_at: str | None = None,
    stop_token: str = "",
) -> LoadPlan:
    """Return what the load generator of a resolved run is started with.

    The URLs of `servers` are http:// or grpc://, or the same with TLS, as load.protocol asks;
    `inputs_file` is the path of the .npz file where inputs come from one, `trace_files` those of
    each `trace` scenario. `fleet` is needed where load.workers is more than 1. `notes` come behind
    the run's `spec_warnings`.
    """
    return LoadPlan(
        run=run,
        place=place,
        launched=launched(run.spec),
        servers=list(servers),
        model_name=run.spec.model.served_name,
        model_version=run.spec.model.version or "",
        model_sha256=model_sha256,
        inputs_file=inputs_file,
        trace_files=dict(trace_files),
        tls_ca_file=credentials.ca_file,
        tls_certificate_file=credentials.certificate_file,
        tls_key_file=credentials.key_file,
        headers_file=credentials.headers_file,
        fleet=fleet,
        server_process_ids=list(server_process_ids),
        agents=list(agents),
        energy_unavailable_reason=unmetered,
        notes=[*spec_warnings(run.spec), *notes],
        run_id=run_id,
        started_at=started_at,
        stop_token=stop_token,
    )
