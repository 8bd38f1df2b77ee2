"""Local files of a run (inputs, traces, certificates, headers), checked before anything starts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inferometer_api.plan.credentials import Credentials
from inferometer_api.results.result import Tensor
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import RefusedError
from inferometer_fetch.model import local_path
from inferometer_loadgen.validate import (
    InvalidInputsError,
    check_credentials,
    check_traces,
    open_shapes,
)
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import sha256_of

Shapes = dict[str, tuple[int, ...]]


def inputs_file(run: BenchmarkRun, base: Path) -> Path | None:
    """Return the .npz file of a run, None for random inputs; raises RefusedError.

    A relative path starts in the folder `base`.
    """
    file = run.spec.load.inputs.file
    return None if file is None else _existing("Inputs", file.uri, base, file.sha256)


def trace_files(run: BenchmarkRun, base: Path) -> dict[str, Path]:
    """Return the checked file of each `trace` scenario by the scenario's name.

    Raises RefusedError.
    """
    files = {
        scenario.name: _existing(
            "Trace", scenario.load_profile.data_uri, base, scenario.load_profile.data_sha256
        )
        for scenario in run.spec.scenarios
        if scenario.load_profile.data_uri is not None
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


def request_shapes(
    run: BenchmarkRun, file: Path | None, model_inputs: Sequence[dict[str, Any]] | None
) -> Shapes | None:
    """Return the whole shape of each input with an open axis, for the server's warm-up.

    `model_inputs` is what the fetcher reported of the model; None leaves all to the server. Raises
    RefusedError if the inputs do not fit the model, or its requests cannot be joined to batches.
    """
    if model_inputs is None:
        return None
    tensors = [Tensor.model_validate(each) for each in model_inputs]
    _check_joinable(run, tensors)
    try:
        return open_shapes(run, file, tensors)
    except InvalidInputsError as error:
        raise RefusedError(str(error)) from error


def _existing(what: str, uri: str, base: Path, sha256: str | None) -> Path:
    try:
        path = local_path(uri, base)
    except ModelRefusedError as error:
        raise RefusedError(str(error)) from error
    if not path.is_file():
        raise RefusedError(
            f"{what} file not found: {path}. Paths are relative to the run file ({base})."
        )
    if sha256 is not None and (found := sha256_of(path)) != sha256:
        raise RefusedError(
            f"{what} file {path} should have the sha256 {sha256}, but has {found}: it is another "
            "file. Correct the checksum or the path."
        )
    return path


def _check_joinable(run: BenchmarkRun, tensors: Sequence[Tensor]) -> None:
    """Raise RefusedError if batching is requested of a model whose batch axis is fixed."""
    fixed = next((each for each in tensors if not each.shape or each.shape[0] >= 0), None)
    if run.spec.server.batching is not None and fixed is not None:
        raise RefusedError(
            f"spec.server.batching is set, but the model's input '{fixed.name}' has the shape "
            f"{fixed.shape}. Its first axis is not open (-1), so the server cannot join requests. "
            "Remove batching, or export the model with an open batch axis."
        )
