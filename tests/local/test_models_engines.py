"""Every built-in model computes sane values, and two engines agree on them."""

import importlib
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]  # ships neither types nor stubs
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto

from inferometer_fetch.built_in import write_model
from inferometer_models import zoo
from inferometer_models.zoo import ZooEntry
from support.requirements import cannot_run

Array = NDArray[Any]

INPUTS = 16
"""As many as a run sends in turn by default."""
COMPARED = 4
"""So many of them are given to both engines."""
TOLERANCE = 1e-3
"""How far one value may lie from the other engine's, as a share of the output's deviation."""
LEAST_DIFFERENCE = 1e-3
"""How far outputs of two inputs lie apart at some place, as a share of the output's deviation."""
SEED = 7


@pytest.fixture(scope="session")
def openvino() -> ModuleType:
    """Return OpenVINO, the second engine."""
    try:
        return importlib.import_module("openvino")
    except ImportError as error:
        cannot_run(f"OpenVINO, of the extra `openvino`, cannot be imported: {error}")


@pytest.fixture(params=zoo.names())
def entry(request: pytest.FixtureRequest) -> ZooEntry:
    """Return each built-in model."""
    return zoo.entry(request.param)


@pytest.fixture
def path(entry: ZooEntry, tmp_path: Path) -> Iterator[Path]:
    """Return the ONNX file of a model, and remove it with its weights after the test."""
    written = write_model(entry, tmp_path / f"{entry.bare_name}.onnx")
    yield written
    for file in tmp_path.iterdir():
        file.unlink()


def test_outputs_are_sane_and_engines_agree(
    entry: ZooEntry, path: Path, openvino: ModuleType
) -> None:
    """Outputs are finite, spread by 0.01 to 100, differ from input to input, and are the same."""
    samples = _samples(entry)
    session = _session(path)
    outputs = [session.run(["output"], {"input": sample})[0] for sample in samples]
    deviation = _deviation(outputs)
    for output in outputs:
        assert output.shape == (1, *entry.output_shape[1:])
        assert 0.01 <= _deviation([output]) <= 100
    for first, second in combinations(outputs, 2):
        assert np.abs(first - second).max() > LEAST_DIFFERENCE * deviation
    request = openvino.compile_model(
        path, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 2}
    ).create_infer_request()
    for sample, output in zip(samples[:COMPARED], outputs, strict=False):
        other = request.infer({"input": sample})[0]
        assert np.isfinite(other).all()
        assert np.abs(other - output).max() <= TOLERANCE * deviation


def test_every_layer_is_sane(entry: ZooEntry, path: Path) -> None:
    """Every float tensor that depends on the input is finite and spread by 0.01 to 100."""
    model = onnx.load_model(path, load_external_data=False)
    inner = _varying_tensors(model)
    model.graph.ClearField("output")
    model.graph.output.extend(ValueInfoProto(name=name) for name in inner)
    path.write_bytes(model.SerializeToString())
    sample = _samples(entry)[0]
    outputs = _session(path, is_optimized=False).run(inner, {"input": sample})
    odd = {
        name: _deviation([array])
        for name, array in zip(inner, outputs, strict=True)
        if array.dtype == np.float32 and array.size > 1
        if not 0.01 <= _deviation([array]) <= 100
    }
    assert odd == {}


def _varying_tensors(model: ModelProto) -> list[str]:
    """Return the tensors that depend on the values of the input, not on its shape alone."""
    varying = {"input"}
    for node in model.graph.node:
        if node.op_type != "Shape" and not varying.isdisjoint(node.input):
            varying.update(name for name in node.output if name)
    return sorted(varying - {"input"})


def _samples(entry: ZooEntry) -> list[Array]:
    """Return inputs as the load generator draws them, other than those of the calibration."""
    random = np.random.default_rng(SEED)
    shape = (1, *(int(axis) for axis in entry.input_shape[1:]))
    if entry.input_datatype == "INT64":
        return [random.integers(0, 30_000, shape) for _ in range(INPUTS)]
    return [random.random(shape, dtype=np.float32) for _ in range(INPUTS)]


def _session(path: Path, *, is_optimized: bool = True) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    if not is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _deviation(arrays: Sequence[Array]) -> float:
    """Return the standard deviation; NaN if not all is finite."""
    stacked = np.stack(arrays)
    return float(stacked.std(dtype=np.float64)) if np.isfinite(stacked).all() else float("nan")
