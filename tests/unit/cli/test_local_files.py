"""The local files of a run are checked before its server starts."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import RefusedError
from inferometer_cli.local.files import inputs_file, request_shapes, trace_files
from support.results import a_run

IMAGE = {"name": "image", "datatype": "FP32", "shape": [-1, 3, -1, -1]}
ROW = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
SINGLE = {"name": "one", "singleStream": {}}
SMALL = {"minDurationSeconds": 1, "minQueries": 2}
BATCHES = {"name": "many", "batch": {"batchSizes": [2, 3]}}


def _run(inputs: dict[str, Any], *scenarios: dict[str, Any]) -> BenchmarkRun:
    run = a_run(list(scenarios) or [SINGLE])
    load = run.spec.load.model_dump(mode="json", exclude_none=True) | {"inputs": inputs}
    spec = run.spec.model_dump(mode="json", exclude_none=True) | {"load": load}
    return BenchmarkRun.model_validate(
        run.model_dump(mode="json", exclude_none=True) | {"spec": spec}
    )


def _with(run: BenchmarkRun, **members: Any) -> BenchmarkRun:
    document = run.model_dump(mode="json", exclude_none=True)
    return BenchmarkRun.model_validate({**document, "spec": {**document["spec"], **members}})


def test_only_inputs_with_open_axes_need_shapes() -> None:
    """The server knows closed shapes itself; open ones are passed as whole shapes."""
    run = _run({"random": {"shapes": {"image": [1, 3, 8, 9]}}}, BATCHES)
    closed = {"name": "scale", "datatype": "FP32", "shape": [1]}
    assert request_shapes(run, None, [IMAGE, closed]) == {"image": (2, 3, 8, 9)}
    assert request_shapes(_run({"random": {}}), None, [closed]) == {}


def test_unknown_inputs_are_left_to_the_server() -> None:
    """If the inputs are unknown, nothing is refused and nothing is invented."""
    assert request_shapes(_run({"random": {}}), None, None) is None


@pytest.mark.parametrize(
    ("inputs", "tensor", "sentence"),
    [
        ({"random": {}}, IMAGE, "give the whole shape, as spec.load.inputs.random.shapes"),
        ({"random": {"shapes": {"y": [1, 4]}}}, ROW, "names the input 'y'"),
        ({"random": {"shapes": {"x": [1, 5]}}}, ROW, "axis 1 is 4"),
        ({"random": {}}, {**ROW, "shape": [5, 4]}, "A batch of 2 is requested"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    inputs: dict[str, Any], tensor: dict[str, Any], sentence: str
) -> None:
    """Unknown names, ranks, axes and batches are refused with the load generator's message."""
    with pytest.raises(RefusedError, match=sentence):
        request_shapes(_run(inputs, BATCHES), None, [tensor])


def test_the_server_warms_up_with_the_shapes_of_the_file(tmp_path: Path) -> None:
    """The shape of a request comes from the array, whose first axis counts samples."""
    np.savez(tmp_path / "inputs.npz", image=np.zeros((5, 3, 6, 7), np.float32))
    run = _run({"file": {"uri": "file:inputs.npz"}}, BATCHES)
    file = inputs_file(run, tmp_path)
    assert file == tmp_path / "inputs.npz"
    assert request_shapes(run, file, [IMAGE]) == {"image": (2, 3, 6, 7)}
    with pytest.raises(RefusedError, match="has no array for the model's input 'x'"):
        request_shapes(run, file, [ROW])


def test_a_missing_inputs_file_is_refused(tmp_path: Path) -> None:
    """A missing .npz file is refused before the model is fetched."""
    with pytest.raises(RefusedError, match="Inputs file not found: "):
        inputs_file(_run({"file": {"uri": "file:nowhere.npz"}}), tmp_path)
    assert inputs_file(_run({"random": {}}), tmp_path) is None


def test_the_checksum_of_a_file_is_compared(tmp_path: Path) -> None:
    """Of inputs and traces alike, before anything starts."""
    (tmp_path / "a.csv").write_text("0\n1.5\n")
    right = sha256((tmp_path / "a.csv").read_bytes()).hexdigest()

    def named(checksum: str) -> tuple[BenchmarkRun, BenchmarkRun]:
        file = {"uri": "file:a.csv", "sha256": checksum}
        traced = _run({"random": {}}, {"name": "replay", "trace": file})
        return _run({"file": file}), _with(traced, validity=SMALL)

    inputs, trace = named(right)
    assert inputs_file(inputs, tmp_path) == tmp_path / "a.csv"
    assert trace_files(trace, tmp_path) == {"replay": tmp_path / "a.csv"}
    inputs, trace = named("0" * 64)
    with pytest.raises(RefusedError, match="should have the sha256"):
        inputs_file(inputs, tmp_path)
    with pytest.raises(RefusedError, match="should have the sha256"):
        trace_files(trace, tmp_path)


def test_the_files_of_traces_are_found_and_read(tmp_path: Path) -> None:
    """Each trace is a file relative to the run file; one that cannot be replayed is refused."""
    replay = {"name": "replay", "trace": {"uri": "file:a.csv"}}
    again = {"name": "again", "trace": {"uri": f"file://{tmp_path}/b.csv", "timeScale": "0.5"}}
    run = _with(_run({"random": {}}, SINGLE, replay, again), validity=SMALL)
    with pytest.raises(RefusedError, match=r"Trace file not found: .*a\.csv"):
        trace_files(run, tmp_path)
    (tmp_path / "a.csv").write_text("0\n1.5\n")
    (tmp_path / "b.csv").write_text("0\n2.5\n")
    found = trace_files(run, tmp_path)
    assert found == {"replay": tmp_path / "a.csv", "again": tmp_path / "b.csv"}
    (tmp_path / "b.csv").write_text("0\nlater\n")
    with pytest.raises(RefusedError, match=r"Line 2 of the trace .* is not a number"):
        trace_files(run, tmp_path)
    assert trace_files(_run({"random": {}}, SINGLE), tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "validity", "sentence"),
    [
        ("0\n0.999\n", SMALL, r"lasts 0\.999 s after its time scale, less than .* \(1 s\)"),
        ("1\n", SMALL, r"has 1 queries, fewer than .* \(2\)"),
        (
            "0\n1\n2\n",
            {**SMALL, "maxDurationSeconds": 2},
            r"lasts 2 s after its time scale, but .*maxDurationSeconds cuts it at 2 s",
        ),
    ],
)
def test_a_trace_that_is_too_short_or_too_long_to_be_valid_is_refused(
    tmp_path: Path, text: str, validity: dict[str, Any], sentence: str
) -> None:
    """A trace has its own length, so it is known before the run whether it can be VALID."""
    replay = {"name": "replay", "trace": {"uri": "file:a.csv"}}
    run = _with(_run({"random": {}}, replay), validity=validity)
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(RefusedError, match=f"{sentence}.* could only be INVALID"):
        trace_files(run, tmp_path)
    (tmp_path / "a.csv").write_text("0\n1\n")
    assert trace_files(run, tmp_path) == {"replay": tmp_path / "a.csv"}


def test_batching_needs_an_open_batch_axis() -> None:
    """A model with a fixed batch axis is refused before its server starts."""
    batching = {"batching": {"maxBatchSize": 8}}
    run = _with(_run({"random": {}}), server=batching)
    fixed = {**ROW, "shape": [1, 4]}
    assert request_shapes(_run({"random": {}}), None, [fixed]) == {}
    assert request_shapes(run, None, [ROW]) == {"x": (1, 4)}
    for shape in ([1, 4], []):
        with pytest.raises(RefusedError, match=r"input 'x' has the shape .* first axis is not"):
            request_shapes(run, None, [{**ROW, "shape": shape}])
