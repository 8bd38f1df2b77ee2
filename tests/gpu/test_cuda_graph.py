"""The server's engine with CUDA graphs, channels last and without TF32, on a real GPU."""

from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from numpy.typing import NDArray

from inferometer_fetch.built_in import cached_model, zoo_cache
from inferometer_models import zoo
from inferometer_models.graph_file import read_graph
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.onnx_runtime import load
from inferometer_serving.model.session import EngineSettings, Interrupt, Session
from inferometer_serving.options import Device, OnnxRuntimeChoices

_MODEL = "classification/resnet50"
_DEFAULT = OnnxRuntimeChoices()

pytestmark = pytest.mark.usefixtures("cuda_provider")


def _file() -> Path:
    return cached_model(zoo.entry(_MODEL), zoo_cache())


def _session(choices: OnnxRuntimeChoices, device: Device = Device.GPU) -> Session:
    graph = read_graph(_file(), max_bytes=1 << 30)
    return load(graph, EngineSettings(device=device, onnx_runtime=choices), Interrupt())


def _images(session: Session, batch: int, seed: int) -> dict[str, Array]:
    (given,) = session.signature.inputs
    shape = (batch, *given.shape[1:])
    return {given.name: np.random.default_rng(seed).random(shape, np.float32)}


def _outputs(session: Session, inputs: dict[str, Array]) -> NDArray[np.float64]:
    (found,) = session.runner.run([each.name for each in session.signature.outputs], inputs)
    return found.astype(np.float64)


def test_a_graph_of_each_batch_size_computes_what_kernels_one_by_one_do() -> None:
    """Of fresh inputs, after another batch size too; the choice is read back."""
    single, graph = _session(_DEFAULT), _session(replace(_DEFAULT, cuda_graph=True))
    assert (single.facts["cuda_graph"], graph.facts["cuda_graph"]) == ("off", "on")
    for seed, batch in enumerate((1, 1, 4, 1, 4, 4)):
        inputs = _images(single, batch, seed)
        expected = _outputs(single, inputs)
        np.testing.assert_allclose(_outputs(graph, inputs), expected, rtol=2e-2, atol=2e-2)


def test_a_graph_launches_an_inference_faster() -> None:
    """The gaps between the kernels of ResNet-50 are longer than what copies take."""
    times = []
    for choices in (_DEFAULT, replace(_DEFAULT, cuda_graph=True)):
        session = _session(choices)
        inputs = _images(session, 1, 0)
        for _ in range(20):
            _outputs(session, inputs)
        times.append(min(_seconds(session, inputs) for _ in range(100)))
    assert times[1] < times[0]


def _seconds(session: Session, inputs: dict[str, Array]) -> float:
    began = perf_counter()
    _outputs(session, inputs)
    return perf_counter() - began


@pytest.mark.parametrize(
    ("name", "choices", "largest_error"),
    [
        ("channels_last", replace(_DEFAULT, channels_last=True), 5e-3),
        ("tf32", replace(_DEFAULT, tf32=False), 1e-4),
    ],
)
def test_the_other_choices_reach_the_provider(
    name: str, choices: OnnxRuntimeChoices, largest_error: float
) -> None:
    """Read back from the session; outputs stay those of the CPU, to within TF32."""
    session = _session(choices)
    assert session.facts[name] != _session(_DEFAULT).facts[name]
    inputs = _images(session, 2, 0)
    expected = _outputs(_session(_DEFAULT, Device.CPU), inputs)
    error = np.abs(_outputs(session, inputs) - expected).max()
    assert error < largest_error * np.abs(expected).max()
