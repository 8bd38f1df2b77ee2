"""Validation of the files that a run's load reads, by the load generator's own rules.

The command line calls it before it starts a server, so that a run whose inputs cannot be used is
refused at once, and so that the server warms up with the very shapes that will be sent.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from inferometer_api.plan.credentials import Credentials
from inferometer_api.results.result import Tensor
from inferometer_api.scenarios.table import recorded_arrivals
from inferometer_api.spec.load import Load
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.scenario import Validity
from inferometer_loadgen.input_files import InputFiles
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.requests.pool import InputSources, load_of_model
from inferometer_loadgen.schedule.arrivals import Offsets
from inferometer_loadgen.schedule.steps import SECOND_NS
from inferometer_loadgen.server.headers import read_headers
from inferometer_loadgen.wire.tls import TlsFiles, TlsRefusedError, tls_context


class InvalidInputsError(ValueError):
    """The load cannot be generated from these files; the message says what to change."""


def check_traces(run: BenchmarkRun, files: Mapping[str, Path]) -> None:
    """Check the trace of each `trace` scenario; `files` has its path by the scenario's name.

    Raises InvalidInputsError if one cannot be replayed, or can only be INVALID.
    """
    traces = InputFiles()
    for scenario in run.spec.scenarios:
        for recorded in recorded_arrivals(scenario, str(files.get(scenario.name, ""))):
            path = Path(recorded.file)
            try:
                arrivals = traces.arrivals(path, recorded.milli_time_scale)
            except InputRefusedError as refusal:
                raise InvalidInputsError(str(refusal)) from refusal
            _check_length(path, arrivals, run.spec.validity)


def check_credentials(load: Load, credentials: Credentials) -> None:
    """Check that certificates, key and headers can be used; raises InvalidInputsError."""
    authority, certificate, key, headers = (
        None if name is None else Path(name)
        for name in (
            credentials.ca_file,
            credentials.certificate_file,
            credentials.key_file,
            credentials.headers_file,
        )
    )
    try:
        if headers is not None:
            read_headers(headers)
        if load.tls is not None:
            tls_context(load.protocol, TlsFiles(authority, certificate, key))
    except (InputRefusedError, TlsRefusedError) as refusal:
        raise InvalidInputsError(str(refusal)) from refusal


def open_shapes(
    run: BenchmarkRun,
    inputs_file: Path | None,
    model_inputs: Sequence[Tensor],
    other_models: Sequence[Sequence[Tensor]] = (),
) -> dict[str, tuple[int, ...]]:
    """Return the whole shape of each input with an open axis, in the smallest request.

    `other_models` are the inputs of further models of the server. Scalars are left out. Raises
    InvalidInputsError if the inputs of any batch size do not fit a model.
    """
    models = (model_inputs, *other_models)
    names = {tensor.name for tensors in models for tensor in tensors}
    found: dict[str, tuple[int, ...]] = {}
    files = InputFiles()
    for tensors in models:
        load = load_of_model(run.spec.load, tensors, names)
        found |= _open_shapes(load, run.spec.request_batch_sizes, inputs_file, tensors, files)
    return found


def _open_shapes(
    load: Load,
    batch_sizes: Sequence[int],
    inputs_file: Path | None,
    model_inputs: Sequence[Tensor],
    files: InputFiles,
) -> dict[str, tuple[int, ...]]:
    file = None if inputs_file is None else str(inputs_file)
    try:
        sources = InputSources(load, file, list(model_inputs), files=files)
        shapes = [sources.shapes(size) for size in batch_sizes]
    except InputRefusedError as refusal:
        raise InvalidInputsError(str(refusal)) from refusal
    is_open = {tensor.name: any(axis < 0 for axis in tensor.shape) for tensor in model_inputs}
    return {name: shape for name, shape in shapes[0].items() if is_open[name] and shape}


def _check_length(path: Path, arrivals: Offsets, validity: Validity) -> None:
    """Raise InvalidInputsError if a trace misses a minimum, or the maximum cuts its end off."""
    # The window ends with the last arrival.
    seconds = int(arrivals[-1]) / SECOND_NS
    if seconds < validity.min_duration_seconds:
        raise InvalidInputsError(
            f"The trace {path} lasts {seconds:.4g} s after its time scale, less than "
            f"spec.validity.minDurationSeconds ({validity.min_duration_seconds} s): the scenario "
            "could only be INVALID. Lower the minimum, or use a longer trace."
        )
    if seconds >= validity.max_duration_seconds:
        raise InvalidInputsError(
            f"The trace {path} lasts {seconds:.6g} s after its time scale, but "
            f"spec.validity.maxDurationSeconds cuts it at {validity.max_duration_seconds} s: the "
            "scenario could only be INVALID. Raise the maximum, or use a shorter trace."
        )
    if len(arrivals) < validity.min_queries:
        raise InvalidInputsError(
            f"The trace {path} has {len(arrivals):,} queries, fewer than "
            f"spec.validity.minQueries ({validity.min_queries:,}): the scenario could only be "
            "INVALID. Lower the minimum, or use a longer trace."
        )
