"""`inferometer validate`: checks whether a run file can be run on this machine."""

import tempfile
from dataclasses import asdict
from pathlib import Path

from inferometer_api.spec.resolve import is_launched
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import RefusedError
from inferometer_cli.run_file import RunFile, SetOption, read_run_file
from inferometer_cli.terminal import print_output


def validate(file: RunFile, set_: SetOption = None) -> None:
    """Check that a file is a BenchmarkRun that can be run here, or report what is wrong.

    Models from the zoo or this machine are read, and the inputs are checked against them. Not
    checked, because only a run can: models from https://, External servers, GPUs. For a run in a
    cluster use `inferometer preflight`.
    """
    run = read_run_file(file, set_ or [])
    _check_files(run, file.absolute().parent)
    names = ", ".join(f"{scenario.name} ({scenario.kind})" for scenario in run.spec.scenarios)
    print_output(f"{file} is a valid BenchmarkRun: {run.name}, scenarios {names}")


def _check_files(run: BenchmarkRun, base: Path) -> None:
    from inferometer_cli.local.files import (
        credentials,
        inputs_file,
        request_shapes,
        trace_files,
    )
    from inferometer_fetch.model import fetch_model
    from inferometer_models.errors import ModelRefusedError

    file = inputs_file(run, base)
    trace_files(run, base)
    credentials(run, base)
    uri = run.spec.model.uri
    if not is_launched(run.spec) or uri is None or uri.startswith("https:"):
        return
    with tempfile.TemporaryDirectory(prefix="inferometer-") as folder:
        try:
            model = fetch_model(uri, Path(folder), relative_to=base, sha256=run.spec.model.sha256)
        except ModelRefusedError as refusal:
            raise RefusedError(str(refusal)) from refusal
    # In the form in which the fetcher reports them to a run, as JSON: lists instead of tuples.
    inputs = model.inputs
    tensors = (
        None if inputs is None else [asdict(each) | {"shape": [*each.shape]} for each in inputs]
    )
    request_shapes(run, file, tensors)
