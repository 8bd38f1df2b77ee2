"""Local files of a run (manifest, inputs, traces, data, certificates), checked before it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer_api.manifest.dataset_manifest import DATASET_MANIFEST
from inferometer_api.plan.credentials import Credentials
from inferometer_api.results.result import Tensor
from inferometer_api.runtimes.table import RUNTIMES
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import RefusedError
from inferometer_cli.local.engines import engines_of
from inferometer_cli.quick_run import QuickOptions, compose_run, model_uri
from inferometer_cli.run_file import parse_run_text
from inferometer_fetch.model import local_path
from inferometer_loadgen.validate import (
    InvalidInputsError,
    check_credentials,
    check_traces,
    open_shapes,
)
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import sha256_of

if TYPE_CHECKING:
    from inferometer_api.manifest.model_manifest import ModelManifest
    from inferometer_tasks.manifest_file import ManifestFile

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The checked local files that a run names, but its model; None: it has none."""

    manifest: "ManifestFile | None"
    inputs: Path | None
    traces: Mapping[str, Path]
    """The trace or data set of each scenario that has one, by its name."""
    credentials: Credentials


def check_files(run: BenchmarkRun, base: Path, *, allow_python_steps: bool = False) -> LocalFiles:
    """Return every local file that a run names, checked; raises RefusedError.

    A relative path starts in the folder `base`.
    """
    manifest = manifest_file(run, base)
    check_python_steps(run, manifest, is_allowed=allow_python_steps)
    return LocalFiles(
        manifest, inputs_file(run, base), trace_files(run, base), credentials(run, base)
    )


def inputs_file(run: BenchmarkRun, base: Path) -> Path | None:
    """Return the .npz file of a run, None for random inputs; raises RefusedError.

    A relative path starts in the folder `base`.
    """
    file = run.spec.load.inputs.file
    return None if file is None else _existing("Inputs", file.uri, base, file.sha256)


def trace_files(run: BenchmarkRun, base: Path) -> dict[str, Path]:
    """Return the checked trace or data set of each scenario that has one, by its name.

    Raises RefusedError.
    """
    files = {
        scenario.name: _existing(
            "Trace" if scenario.dataset is None else "Data set",
            scenario.data_uri,
            base,
            scenario.data_sha256,
        )
        for scenario in run.spec.scenarios
        if scenario.data_uri is not None
    }
    try:
        check_traces(run, files)
    except InvalidInputsError as error:
        raise RefusedError(str(error)) from error
    return files


def credentials(run: BenchmarkRun, base: Path) -> Credentials:
    """Return the checked certificates, key and headers file of a run; raises RefusedError.

    A relative path starts in the folder `base`.
    """
    load, tls = run.spec.load, run.spec.load.tls
    names = (
        *((tls.ca_file, tls.client_certificate_file, tls.client_key_file) if tls else (None,) * 3),
        load.headers_file,
    )
    found = Credentials(*(None if name is None else str(base / name) for name in names))
    try:
        check_credentials(load, found)
    except InvalidInputsError as error:
        raise RefusedError(str(error)) from error
    return found


def manifest_file(run: BenchmarkRun, base: Path) -> "ManifestFile | None":
    """Return the checked manifest of a run's model; None if it has none. Raises RefusedError.

    Its constraints are resolved over the engines that are installed here, and this machine. The
    run's measures and built-in data sets are checked with it.
    """
    path = _manifest_path(run, base)
    if path is None:
        _check_accuracy(run, None)
        return None
    from inferometer_tasks.assets import Assets
    from inferometer_tasks.errors import TaskRefusedError
    from inferometer_tasks.manifest_file import read_manifest_file
    from inferometer_tasks.resolution import check_engine, check_machine, this_machine

    try:
        file = read_manifest_file(path)
        Assets(file.manifest, path.parent).check()
        check_machine(file.manifest, this_machine(run.spec.server.device))
        launch = RUNTIMES[run.spec.server.runtime].launch
        if launch is not None and launch.local is not None:
            engine = launch.engine(run.spec.server)
            if engine is not None:
                check_engine(file.manifest, engine, engines_of(launch.local, engine))
    except TaskRefusedError as error:
        of_file = "" if str(path) in str(error) else f"{path}: "
        raise RefusedError(f"{of_file}{error}") from error
    _check_accuracy(run, file.manifest)
    return file


def check_manifest_of(model: str, device: str = "CPU") -> None:
    """Raise RefusedError if the manifest next to a model refuses it here.

    `model` is what a command line names: a path or an address.
    """
    text, settings = compose_run(model_uri(model), QuickOptions()), [f"spec.server.device={device}"]
    manifest_file(parse_run_text(text, source=model, settings=settings), Path.cwd())


def check_loaded_engine(
    run: BenchmarkRun, file: "ManifestFile | None", engine_version: str
) -> None:
    """Raise RefusedError if a started server has an engine that the manifest excludes.

    Only the server's processes have the version of some engines, such as those of Triton.
    """
    launch = RUNTIMES[run.spec.server.runtime].launch
    engine = None if launch is None else launch.engine(run.spec.server)
    if file is None or engine is None or not engine_version:
        return
    from inferometer_tasks.errors import TaskRefusedError
    from inferometer_tasks.resolution import check_engine

    try:
        check_engine(file.manifest, engine, {engine: engine_version})
    except TaskRefusedError as error:
        raise RefusedError(str(error)) from error


def check_python_steps(run: BenchmarkRun, file: "ManifestFile | None", *, is_allowed: bool) -> None:
    """Raise RefusedError if a run would execute Python of its manifest that is not allowed."""
    evaluates = any(each.evaluated for each in run.spec.scenarios)
    if file is None or not (evaluates or run.spec.model.runs_steps_in_server):
        return
    from inferometer_tasks.errors import TaskRefusedError
    from inferometer_tasks.python_steps import check_allowed

    try:
        check_allowed(file, is_allowed=is_allowed)
    except TaskRefusedError as error:
        raise RefusedError(str(error)) from error


def _check_accuracy(run: BenchmarkRun, manifest: "ModelManifest | None") -> None:
    """Raise RefusedError if a measure does not fit the steps, or a data set is not built in."""
    scenarios = [(each, each.evaluated) for each in run.spec.scenarios]
    if not any(evaluated for _, evaluated in scenarios):
        return
    from inferometer_tasks.datasets.dataset import check_built_in
    from inferometer_tasks.errors import TaskRefusedError
    from inferometer_tasks.metrics.requirements import check_metrics

    for scenario, evaluated in scenarios:
        if evaluated is None:
            continue
        try:
            check_built_in(evaluated.dataset.uri)
            check_metrics(evaluated.metrics, manifest)
        except TaskRefusedError as error:
            raise RefusedError(f"Scenario {scenario.name}: {error}") from error


def check_manifest_dataset(file: "ManifestFile | None") -> None:
    """Raise RefusedError if the local data set that a manifest names is missing or another one.

    A relative path starts in the manifest's folder. A run does not need this data set.
    """
    dataset = None if file is None else file.manifest.dataset
    if file is not None and dataset is not None and dataset.uri.startswith("file:"):
        folder = file.path.parent
        _existing("Data set", dataset.uri, folder, dataset.sha256, named_in="the manifest")


def served_manifest(run: BenchmarkRun, base: Path) -> str | None:
    """Return the manifest whose steps the server of a run executes; None if it executes none.

    Raises RefusedError if it has none to execute.
    """
    if not run.spec.model.runs_steps_in_server:
        return None
    file = manifest_file(run, base)
    if file is None:
        raise RefusedError(
            "spec.model.pipeline is Server, but the model has no manifest: put model.yaml next to "
            "it, or set spec.model.manifest."
        )
    return str(file.path.absolute())


def _manifest_path(run: BenchmarkRun, base: Path) -> Path | None:
    """Return the manifest that the run names, or that lies next to its model."""
    source, uri = run.spec.model.manifest, run.spec.model.uri or ""
    if source is not None:
        return _existing("Manifest", source.uri, base, source.sha256)
    if not uri.startswith("file:"):
        return None
    from inferometer_tasks.manifest_file import BESIDE_MODEL, is_manifest

    try:
        manifest = local_path(uri, base).parent / BESIDE_MODEL
    except ModelRefusedError as error:
        raise RefusedError(str(error)) from error
    return manifest if is_manifest(manifest) else None


def request_shapes(
    run: BenchmarkRun,
    file: Path | None,
    model_inputs: Sequence[dict[str, Any]] | None,
    others: Sequence[Sequence[dict[str, Any]] | None] = (),
) -> Shapes | None:
    """Return the whole shape of each input with an open axis, for the server's warm-up.

    `model_inputs` is what the fetcher reported of the model, and `others` of further ones; None
    leaves all to the server. Raises RefusedError if the inputs do not fit a model, or its requests
    cannot be joined to batches.
    """
    if model_inputs is None or None in others:
        return None
    models = [
        [Tensor.model_validate(each) for each in inputs or ()] for inputs in (model_inputs, *others)
    ]
    for tensors in models:
        _check_joinable(run, tensors)
    try:
        return open_shapes(run, file, models[0], models[1:])
    except InvalidInputsError as error:
        raise RefusedError(str(error)) from error


def _existing(
    what: str, uri: str, base: Path, sha256: str | None, *, named_in: str = "the run file"
) -> Path:
    """Return the file, or of a data set also the folder, at a local address."""
    try:
        path = local_path(uri, base)
    except ModelRefusedError as error:
        raise RefusedError(str(error)) from error
    if path.is_dir():
        _check_folder(what, path, sha256)
        return path
    if not path.is_file():
        raise RefusedError(
            f"{what} file not found: {path}. Paths are relative to {named_in} ({base})."
        )
    if sha256 is not None and (found := sha256_of(path)) != sha256:
        raise RefusedError(
            f"{what} file {path} should have the sha256 {sha256}, but has {found}: it is another "
            "file. Correct the checksum or the path."
        )
    return path


def _check_folder(what: str, path: Path, sha256: str | None) -> None:
    """Raise RefusedError if a folder cannot take the place of a file: only data sets may be one."""
    if what != "Data set":
        raise RefusedError(
            f"{what} {path} is a folder, but must be a file: name the file in that folder."
        )
    if sha256 is not None:
        raise RefusedError(
            f"Data set {path} is a folder, but has a checksum, which only a file can have: remove "
            "sha256, or name a tar or zip of the folder."
        )
    if not (path / DATASET_MANIFEST).is_file():
        raise RefusedError(
            f"Data set {path} is a folder without {DATASET_MANIFEST}: add that file, or name a "
            "CSV or JSONL file, a tar or a zip."
        )


def _check_joinable(run: BenchmarkRun, tensors: Sequence[Tensor]) -> None:
    """Raise RefusedError if batching is requested of a model whose batch axis is fixed."""
    fixed = next((each for each in tensors if not each.shape or each.shape[0] >= 0), None)
    if run.spec.server.batching is not None and fixed is not None:
        raise RefusedError(
            f"spec.server.batching is set, but the model's input '{fixed.name}' has the shape "
            f"{fixed.shape}. Its first axis is not open (-1), so the server cannot join requests. "
            "Remove batching, or export the model with an open batch axis."
        )
