"""Do the inputs that a run asks for fit its model, and how is each request shaped?

Asked before the server starts, with the load generator's own rules, so that what does not fit is
refused at once and the server can warm up with the very shapes that will be sent.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inferometer_api.document import milli
from inferometer_api.results.result import Tensor
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.scenario import Validity
from inferometer_cli.exits import RefusedError
from inferometer_fetch.model import local_path
from inferometer_loadgen.requests.inputs import FileSource, InputRefusedError, fit_shapes, read_npz
from inferometer_loadgen.requests.trace import read_trace
from inferometer_loadgen.schedule.arrivals import Offsets
from inferometer_loadgen.schedule.steps import SECOND_NS
from inferometer_models.errors import ModelRefusedError

Shapes = dict[str, tuple[int, ...]]


def inputs_file(run: BenchmarkRun, base: Path) -> Path | None:
    """Return the .npz file of a run, None for random inputs; raises RefusedError.

    A relative path begins in the folder `base`.
    """
    asked = run.spec.load.inputs.file
    if asked is None:
        return None
    return _found("inputs", asked.uri, base)


def trace_files(run: BenchmarkRun, base: Path) -> dict[str, Path]:
    """Return the file of each `trace` scenario by the scenario's name; raises RefusedError.

    Each is read, so that one that cannot be replayed, or is too short to be VALID, is refused
    before anything starts.
    """
    found: dict[str, Path] = {}
    for scenario in run.spec.scenarios:
        if scenario.trace is None:
            continue
        path = found[scenario.name] = _found("trace", scenario.trace.uri, base)
        try:
            times = read_trace(path, milli(scenario.trace.time_scale))
        except InputRefusedError as refusal:
            raise RefusedError(str(refusal)) from refusal
        _check_length(path, times, run.spec.validity)
    return found


def _check_length(path: Path, times: Offsets, validity: Validity) -> None:
    """Raise RefusedError where a trace misses a minimum for sure, or its end the maximum."""
    # The window ends with the last arrival.
    lasts = int(times[-1]) / SECOND_NS
    if lasts < validity.min_duration_seconds:
        raise RefusedError(
            f"The trace {path} lasts for {lasts:.4g} s after its time scale, but "
            f"spec.validity.minDurationSeconds asks for {validity.min_duration_seconds} s, so that "
            "it would be INVALID for sure: lower that, or take a longer trace."
        )
    if lasts >= validity.max_duration_seconds:
        raise RefusedError(
            f"The trace {path} lasts for {lasts:.6g} s after its time scale, but "
            f"spec.validity.maxDurationSeconds cuts it at {validity.max_duration_seconds} s, so "
            "that it would be INVALID for sure: raise that, or take a shorter trace."
        )
    if len(times) < validity.min_queries:
        raise RefusedError(
            f"The trace {path} has {len(times):,} of the "
            f"{validity.min_queries:,} queries that spec.validity.minQueries asks for, so that it "
            "would be INVALID for sure: lower that, or take a longer trace."
        )


def _found(what: str, uri: str, base: Path) -> Path:
    try:
        path = local_path(uri, base)
    except ModelRefusedError as error:
        raise RefusedError(str(error)) from error
    if not path.is_file():
        raise RefusedError(f"The {what} {uri} was asked for, but there is no file {path}.")
    return path


def request_shapes(
    run: BenchmarkRun, file: Path | None, told: Sequence[dict[str, Any]] | None
) -> Shapes | None:
    """Return the whole shape of each input with an open axis, as the server is to be warmed up.

    `told` is what the fetcher said of the model's inputs; None, which leaves all to the server,
    where it could not know. Raises RefusedError where the inputs do not fit the model, or it
    cannot take joined requests.
    """
    if told is None:
        return None
    tensors = [Tensor.model_validate(each) for each in told]
    _check_joinable(run, tensors)
    try:
        shapes = [_shapes(run, file, tensors, size) for size in run.spec.request_batch_sizes]
    except InputRefusedError as refusal:
        raise RefusedError(str(refusal)) from refusal
    is_open = {tensor.name: any(axis < 0 for axis in tensor.shape) for tensor in tensors}
    return {name: shape for name, shape in shapes[0].items() if is_open[name] and shape}


def _check_joinable(run: BenchmarkRun, tensors: Sequence[Tensor]) -> None:
    """Raise RefusedError where batching is asked of a model whose batch axis is fixed."""
    fixed = next((each for each in tensors if not each.shape or each.shape[0] >= 0), None)
    if run.spec.server.batching is not None and fixed is not None:
        raise RefusedError(
            f"spec.server.batching was asked for, but the model's input '{fixed.name}' has the "
            f"shape {fixed.shape}, whose first axis is not open (-1), so that requests cannot be "
            "joined: leave batching out, or export the model with an open batch axis."
        )


def _shapes(
    run: BenchmarkRun, file: Path | None, tensors: Sequence[Tensor], batch_size: int
) -> Shapes:
    if file is not None:
        request = FileSource(file, read_npz(file), tensors, batch_size).request(0)
        return {name: array.shape for name, array in request.items()}
    random = run.spec.load.inputs.random
    return fit_shapes(tensors, {} if random is None else random.shapes, batch_size)
