"""Command lines of a run's processes, and the plan of its load generator.

A laptop and a cluster use the same ones, so that their results differ only in where they ran. This
module starts no process.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import join
from types import MappingProxyType
from typing import Literal

from inferometer_api.plan.cluster_objects import CACHE_FOLDER, CACHE_MODEL_FILE
from inferometer_api.plan.credentials import NO_CREDENTIALS, Credentials
from inferometer_api.plan.load_plan import LoadPlan, PlannedAgent, PlannedFleet, PlannedServer
from inferometer_api.plan.spec_warnings import spec_warnings
from inferometer_api.runtimes.descriptor import (
    FetchedLayout,
    ServerContainer,
    ServerLaunch,
    ServerStart,
)
from inferometer_api.spec.address import MANIFEST_FILE, address, dataset_file
from inferometer_api.spec.model import OtherModel
from inferometer_api.spec.resolve import is_launched
from inferometer_api.spec.run import BenchmarkRun

_FETCHER = "inferometer_fetch"
_OTHER_MODELS_FOLDER = "others"
"""Folder of the further models of a server, each in a folder of its own name."""


def pod_layout(
    run: BenchmarkRun, launch: ServerLaunch, *, destination: str, sources: str
) -> FetchedLayout:
    """Return where the files of a launched server's model are in its pod, before they are fetched.

    A model on a claim stays there, below the folder `sources`, if the server takes any path, and
    one of the node's cache is mounted there; every other one is written into the folder
    `destination`. Raises AddressError.
    """
    layout = launch.layout(run)
    if run.spec.model.cache is not None:
        return layout.located(destination, join(sources, CACHE_FOLDER, CACHE_MODEL_FILE))
    found = address(run.spec.model.uri or "")
    file = None if found is None else found.file
    on_claim = f"{sources}/{file}" if file is not None and layout.takes_any_path else None
    return layout.located(destination, on_claim)


@dataclass(frozen=True, slots=True)
class FetchingPod:
    """Folder and limits of the fetcher in a pod."""

    sources: str
    """The folder of mounted claims and ConfigMaps."""
    max_model_bytes: int
    max_written_bytes: int


def fetch_command(
    run: BenchmarkRun,
    launch: ServerLaunch,
    *,
    destination: str,
    python: str,
    base: str | None = None,
    pod: FetchingPod | None = None,
) -> tuple[str, ...]:
    """Return the command line that fetches and checks the model of a launched server.

    `destination` is the folder for written files. In a local run, a relative `file:` path starts in
    the folder `base`. Written files lie in the layout of the runtime (`pod_layout`). In a `pod`,
    the .npz file of inputs is fetched too, and the manifest if the server runs its steps. A model
    of the node's cache is not fetched: the command is empty if nothing else is. The command prints
    one line of JSON with path, sha256 and name. Raises ValueError if the server is External.
    """
    model, file = run.spec.model, run.spec.load.inputs.file
    if model.uri is None:
        raise ValueError("An External server already has its model: nothing is fetched for it.")
    layout = launch.layout(run)
    by_place: tuple[str, ...] = ("--zoo-cache",)
    if pod is not None:
        manifest = model.manifest if model.runs_steps_in_server else None
        data = (
            *_option("--inputs-uri", None if file is None else file.uri),
            *_option("--inputs-sha256", None if file is None else file.sha256),
            *(() if manifest is None else _data(MANIFEST_FILE, manifest.uri, manifest.sha256)),
        )
        if model.cache is not None:
            words = (python, *("-m", _FETCHER), *("--destination", destination), *data)
            return (*words, *_sources(pod)) if data else ()
        by_place = (*("--max-model-bytes", str(pod.max_model_bytes)), *data, *_sources(pod))
    return (
        python,
        *("-m", _FETCHER),
        *("--uri", model.uri),
        *("--destination", destination),
        *_option("--relative-to", base),
        *_option("--sha256", model.sha256),
        *("--file-name", layout.model_path),
        *(() if layout.takes_any_path else ("--copy-model",)),
        *(f"--write={join(layout.root, path)}={text}" for path, text in layout.files.items()),
        *(f"--program={join(layout.root, path)}={name}" for path, name in layout.programs.items()),
        *by_place,
    )


def fetch_other_command(
    other: OtherModel,
    *,
    destination: str,
    python: str,
    base: str | None = None,
    pod: FetchingPod | None = None,
) -> tuple[str, ...]:
    """Return the command line that fetches and checks a further model of a launched server.

    It writes into a folder of the model's own below `destination`, and prints what that of
    `fetch_command` prints.
    """
    by_place = (
        ("--zoo-cache",)
        if pod is None
        else (*("--max-model-bytes", str(pod.max_model_bytes)), *_sources(pod))
    )
    return (
        python,
        *("-m", _FETCHER),
        *("--uri", other.uri),
        *("--destination", join(destination, _OTHER_MODELS_FOLDER, other.served_name)),
        *_option("--relative-to", base),
        *_option("--sha256", other.sha256),
        *("--file-name", _other_file(other)),
        *by_place,
    )


def other_model_path(other: OtherModel, *, destination: str, sources: str) -> str:
    """Return where a further model of a server is in its pod; on a claim it stays there.

    Raises AddressError.
    """
    found = address(other.uri)
    if found is not None and found.kind == "pvc" and found.file is not None:
        return join(sources, found.file)
    return join(destination, _OTHER_MODELS_FOLDER, other.served_name, _other_file(other))


def _other_file(other: OtherModel) -> str:
    return f"{other.served_name}.onnx"


def fetch_inputs_command(
    run: BenchmarkRun, *, destination: str, python: str, pod: FetchingPod
) -> tuple[str, ...]:
    """Return the command line that fetches the data of a run's load generator in a pod.

    It writes manifest, inputs, traces and data sets as MANIFEST_FILE, INPUTS_FILE, `trace_file` and
    `dataset_file` into the folder `destination`. Raises ValueError
    if the run needs no data files.
    """
    file, manifest = run.spec.load.inputs.file, run.spec.model.manifest
    if not run.spec.data_addresses:
        raise ValueError("Random inputs are generated: nothing is fetched for them.")
    return (
        python,
        *("-m", _FETCHER),
        *(() if manifest is None else _data(MANIFEST_FILE, manifest.uri, manifest.sha256)),
        *_option("--inputs-uri", None if file is None else file.uri),
        *_option("--inputs-sha256", None if file is None else file.sha256),
        *_scenario_files(run),
        *("--destination", destination),
        *_sources(pod),
    )


def _scenario_files(run: BenchmarkRun) -> Iterator[str]:
    """Yield the options for the traces and data sets of a run, with their checksums."""
    for scenario in run.spec.scenarios:
        uri, sha256 = scenario.data_uri, scenario.data_sha256
        if uri is None:
            continue
        if scenario.dataset is not None:
            yield from _data(dataset_file(scenario.name), uri, sha256)
            continue
        yield f"--trace={scenario.name}={uri}"
        if sha256 is not None:
            yield f"--trace-sha256={scenario.name}={sha256}"


def _data(file: str, uri: str, sha256: str | None) -> Iterator[str]:
    yield f"--data={file}={uri}"
    if sha256 is not None:
        yield f"--data-sha256={file}={sha256}"


def _sources(pod: FetchingPod) -> tuple[str, ...]:
    return ("--sources", pod.sources, "--max-written-bytes", str(pod.max_written_bytes))


def server_containers(
    run: BenchmarkRun, launch: ServerLaunch, start: ServerStart
) -> tuple[ServerContainer, ...]:
    """Return the containers of a pod of a resolved run's server; the first one is the server.

    Raises ValueError if the run is not resolved.
    """
    if run.spec.server.threads is None:
        raise ValueError("Only a resolved run has a server to start.")
    return launch.containers(run, start)


def _option(flag: str, value: str | int | None) -> tuple[str, ...]:
    return () if value is None else (flag, str(value))


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
        *_option("--plan", plan_path),
        *_option("--listen", port),
        *_option("--metrics-listen", metrics_port),
        *_option("--results", results),
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
    manifest_file: str | None = None,
    manifest_sha256: str | None = None,
    allow_python_steps: bool = False,
    credentials: Credentials = NO_CREDENTIALS,
    fleet: PlannedFleet | None = None,
    server_process_ids: Sequence[int] = (),
    agents: Sequence[PlannedAgent] = (),
    unmetered: str = "",
    notes: Sequence[str] = (),
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
        run_id=run_id,
        started_at=started_at,
        stop_token=stop_token,
        request_log=request_log,
    )
