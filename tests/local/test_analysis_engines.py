"""The server's two engines predict alike, and report what they compute in."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from inferometer_fetch.built_in import write_model
from inferometer_models import zoo
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile, read_graph
from inferometer_serving.model.engines import open_session
from inferometer_serving.model.session import EngineSettings, Interrupt, Session
from inferometer_serving.options import Device, EngineName, Precision
from support import onnx_models
from support.requirements import cannot_run

ONNX_RUNTIME, OPENVINO = EngineName.ONNX_RUNTIME, EngineName.OPENVINO


@pytest.fixture(autouse=True)
def _openvino() -> None:
    """Skip where OpenVINO is not installed."""
    if find_spec("openvino") is None:
        cannot_run("OpenVINO, of the extra `openvino`, is not installed.")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> GraphFile:
    """Return a small built-in model with an open batch."""
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    return read_graph(write_model(zoo.entry("squeezenet1_1"), path), max_bytes=1 << 30)


def _session(engine: EngineName, graph: GraphFile, precision: Precision) -> Session:
    return open_session(engine, graph, EngineSettings(precision=precision), Interrupt())


def _predict(session: Session, batch: int) -> NDArray[np.float32]:
    sample = np.random.default_rng(7).random((batch, 3, 224, 224), dtype=np.float32)
    (found,) = session.runner.run(["output"], {"input": sample})
    return found.astype(np.float32)


def test_both_engines_predict_alike_at_fp32(graph: GraphFile) -> None:
    """Signature and outputs at FP32 are the same, for batches of any size."""
    first = _session(ONNX_RUNTIME, graph, Precision.FP32)
    second = _session(OPENVINO, graph, Precision.FP32)
    assert first.signature == second.signature
    for batch in (1, 3):
        expected = _predict(first, batch)
        assert np.abs(_predict(second, batch) - expected).max() <= 1e-3 * expected.std()
    assert first.precisions.effective == second.precisions.effective == "FP32"
    assert sum(second.precisions.layers.values()) == 26


def test_the_effective_precision_shows_in_the_outputs(graph: GraphFile) -> None:
    """BF16 is reported if and only if the outputs lie as far from FP32 as BF16 puts them."""
    exact = _predict(_session(ONNX_RUNTIME, graph, Precision.DEFAULT), 1)
    for precision in (Precision.DEFAULT, Precision.FP32, Precision.BF16):
        session = _session(OPENVINO, graph, precision)
        away = float(np.abs(_predict(session, 1) - exact).max() / exact.std())
        assert (session.precisions.effective == "BF16") == (away > 1e-3), (precision, away)


def test_outputs_outlive_the_next_prediction(graph: GraphFile) -> None:
    """Outputs are the caller's: the next prediction does not change them."""
    session = _session(OPENVINO, graph, Precision.FP32)
    first = _predict(session, 1)
    kept = first.copy()
    session.runner.run(["output"], {"input": np.zeros((1, 3, 224, 224), np.float32)})
    assert np.array_equal(first, kept)


def test_what_openvino_cannot_do_is_refused(tmp_path: Path) -> None:
    """A GPU, an unknown operator and a tensor of strings are refused with the cause."""
    settings = EngineSettings(device=Device.GPU)
    plain = read_graph(onnx_models.save(onnx_models.add(), tmp_path / "a.onnx"), max_bytes=1 << 20)
    with pytest.raises(ModelRefusedError, match="OpenVINO computes on CPUs"):
        open_session(OPENVINO, plain, settings, Interrupt())
    for model, words in (
        (onnx_models.unsupported_operator(), "Frobnicate"),
        (onnx_models.identity("BYTES"), "set the runtime to OnnxRuntime"),
    ):
        path = onnx_models.save(model, tmp_path / "m.onnx")
        with pytest.raises(ModelRefusedError, match=words):
            open_session(
                OPENVINO, read_graph(path, max_bytes=1 << 20), EngineSettings(), Interrupt()
            )


def test_unloading_forgets_the_interrupt(graph: GraphFile) -> None:
    """A session that is unloaded leaves nothing in the interrupt that outlives it."""
    for engine in EngineName:
        interrupt = Interrupt()
        session = open_session(engine, graph, EngineSettings(), interrupt)
        assert interrupt._callbacks
        session.unload()
        assert not interrupt._callbacks
