"""Command lines of the fetcher, and where it leaves the files of a run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from posixpath import join

from inferometer_api.plan.cluster_objects import CACHE_FOLDER, CACHE_MODEL_FILE
from inferometer_api.runtimes.descriptor import FetchedLayout, ServerLaunch
from inferometer_api.spec.address import MANIFEST_FILE, address, dataset_file
from inferometer_api.spec.model import ManifestSource, OtherModel
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
    engine: str = ""
    """The server's engine, which a manifest in the pod must take; empty if not known."""
    engines: Mapping[str, str] = field(default_factory=dict)
    """Versions of the engines in the server's image, by name; "" if not known."""


def pod_manifest(run: BenchmarkRun) -> ManifestSource | None:
    """Return the manifest that a server's pod fetches and compares with its engine and node.

    None for one in a ConfigMap, which the operator compares, unless the server runs its steps.
    """
    model = run.spec.model
    if model.manifest is None or model.runs_steps_in_server:
        return model.manifest
    return None if model.manifest.uri.startswith("configmap://") else model.manifest


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
    the .npz file of inputs is fetched too, and the manifest (`pod_manifest`). A model of the node's
    cache is not fetched: the command is empty if nothing else is. The command prints one line of
    JSON with path, sha256 and name. Raises ValueError if the server is External.
    """
    model, file = run.spec.model, run.spec.load.inputs.file
    if model.uri is None:
        raise ValueError("An External server already has its model: nothing is fetched for it.")
    layout = launch.layout(run)
    by_place: tuple[str, ...] = ("--zoo-cache",)
    if pod is not None:
        data = (
            *option("--inputs-uri", None if file is None else file.uri),
            *option("--inputs-sha256", None if file is None else file.sha256),
            *_checked_manifest(run, pod),
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
        *option("--relative-to", base),
        *option("--sha256", model.sha256),
        *("--file-name", layout.model_path),
        *(() if layout.takes_any_path else ("--copy-model",)),
        *(f"--write={join(layout.root, path)}={text}" for path, text in layout.files.items()),
        *(f"--program={join(layout.root, path)}={name}" for path, name in layout.programs.items()),
        *by_place,
    )


def _checked_manifest(run: BenchmarkRun, pod: FetchingPod) -> Iterator[str]:
    """Yield the options that fetch a manifest and compare it with the pod's engine and node."""
    manifest = pod_manifest(run)
    if manifest is None:
        return
    yield from _data(MANIFEST_FILE, manifest.uri, manifest.sha256)
    yield f"--check-manifest={MANIFEST_FILE}"
    yield f"--device={run.spec.server.device}"
    if pod.engine:
        yield f"--engine={pod.engine}"
        yield from (f"--engine-version={name}={each}" for name, each in pod.engines.items())


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
        *option("--relative-to", base),
        *option("--sha256", other.sha256),
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
        *option("--inputs-uri", None if file is None else file.uri),
        *option("--inputs-sha256", None if file is None else file.sha256),
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


def option(flag: str, value: str | int | None) -> tuple[str, ...]:
    """Return an option of a command line with its value; nothing without a value."""
    return () if value is None else (flag, str(value))
