"""Inferences as CUDA graphs, as far as they need no GPU: bindings, shapes, options."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
import pytest

from inferometer_serving.infer.tensors import Array
from inferometer_serving.model import cuda_graph
from inferometer_serving.model.cuda_graph import CudaGraphRunner
from support.onnx_models import open_axes, save


class _RecordedSession:
    """A session on the CPU that keeps which graph each call has."""

    def __init__(self, file: Path) -> None:
        self._session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        self.graphs: list[str] = []
        self.inputs = [each.name for each in self._session.get_inputs()]
        self.outputs = [each.name for each in self._session.get_outputs()]

    def io_binding(self) -> Any:
        return self._session.io_binding()

    def run(self, names: list[str], inputs: dict[str, Array], options: Any) -> Any:
        self.graphs.append(options.get_run_config_entry("gpu_graph_id"))
        return self._session.run(names, inputs)

    def run_with_iobinding(self, binding: Any, options: Any) -> None:
        self.graphs.append(options.get_run_config_entry("gpu_graph_id"))
        self._session.run_with_iobinding(binding)


def _runner(tmp_path: Path) -> tuple[CudaGraphRunner, _RecordedSession]:
    session = _RecordedSession(save(open_axes(), tmp_path / "model.onnx"))
    return CudaGraphRunner(session, onnxruntime.RunOptions, ("cpu", 0)), session


def _inputs(session: _RecordedSession, batch: int, value: float) -> dict[str, Array]:
    return {name: np.full((batch, 3, 4, 4), value, np.float32) for name in session.inputs}


def test_each_shape_has_a_graph_that_computes_with_the_inputs_of_the_call(tmp_path: Path) -> None:
    """The first inference of a shape has no graph, and then records it."""
    runner, session = _runner(tmp_path)
    for batch, value in ((1, 1.0), (1, 2.0), (4, 3.0), (4, 4.0), (1, 5.0)):
        inputs = _inputs(session, batch, value)
        found = runner.run(session.outputs, inputs)
        expected = session._session.run(session.outputs, inputs)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert session.graphs == ["-1", "1", "1", "-1", "2", "2", "1"]


def test_shapes_beyond_the_bound_have_no_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each graph keeps memory of the GPU."""
    monkeypatch.setattr(cuda_graph, "_MOST_GRAPHS", 1)
    runner, session = _runner(tmp_path)
    for batch in (1, 2, 2):
        runner.run(session.outputs, _inputs(session, batch, 1.0))
    assert session.graphs == ["-1", "1", "-1", "-1"]
