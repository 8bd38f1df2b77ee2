"""ONNX Runtime computes on weights in shared memory, without a copy of its own."""

import ctypes
import gc
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]  # ships no types
import pytest
from onnx import helper, numpy_helper

from inferometer_models.graph_file import GraphFile, read_graph
from inferometer_serving.gpu.broker.client import WeightsNotSharedError, open_weights
from inferometer_serving.gpu.broker.layout import Extent
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model import onnx_runtime, shared_weights
from inferometer_serving.model.onnx_runtime import session_options
from inferometer_serving.model.session import EngineSettings, Interrupt
from inferometer_serving.model.shared_weights import (
    CPU_DEVICE,
    add_initializers,
    external_tensors,
)
from inferometer_serving.options import OnnxRuntimeChoices
from support.host_weights import HostMemory, serving_broker
from support.waiting import wait_until

_UNPACKED = EngineSettings(onnx_runtime=OnnxRuntimeChoices(prepacking=False))
"""Prepacking would be a copy."""


def _write(folder: Path, dtype: np.dtype[np.generic], *, is_external: bool = True) -> GraphFile:
    """Write a product of 64 x 64 weights, which are odd in the file's order of bytes."""
    weights = np.random.default_rng(1).normal(size=(64, 64)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [helper.make_tensor_value_info(name, kind, [1, 64]) for name in ("x", "y")]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Add", ["product", "bias"], ["y"]),
        ],
        "g",
        ends[:1],
        ends[1:],
        [
            numpy_helper.from_array(weights[0], "bias"),
            numpy_helper.from_array(weights, "w"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "model.onnx"
    onnx.save_model(
        model,
        path,
        save_as_external_data=is_external,
        location="weights",
        size_threshold=0,
    )
    return read_graph(path, max_bytes=1 << 20)


def _extents(graph: GraphFile) -> list[Extent]:
    _, tensors = external_tensors(graph)
    entries = [{item.key: item.value for item in each.external_data} for each in tensors]
    return [Extent(int(each["offset"]), int(each["length"])) for each in entries]


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32)])
def test_a_session_computes_on_the_shared_copy(tmp_path: Path, dtype: np.dtype[np.generic]) -> None:
    """Outputs are those of the model's own weights, and follow what is written to the memory."""
    graph = _write(tmp_path, dtype)
    file, tensors = external_tensors(graph)
    plain = onnxruntime.InferenceSession(str(graph.path), session_options(_UNPACKED))
    memory = HostMemory()
    sample = {"x": np.random.default_rng(2).normal(size=(1, 64)).astype(dtype)}
    with serving_broker(tmp_path, memory) as (path, _):
        weights = open_weights(path, file, _extents(graph), memory)
        options = session_options(_UNPACKED)
        values = add_initializers(options, tensors, weights.addresses, CPU_DEVICE)
        session = onnxruntime.InferenceSession(str(graph.path), options)
        np.testing.assert_array_equal(session.run(None, sample)[0], plain.run(None, sample)[0])
        for address, extent in zip(weights.addresses, _extents(graph), strict=True):
            ctypes.memset(address, 0, extent.length)
        assert not session.run(None, sample)[0].any()
        assert len(values) == 2
        del session, values
        weights.close()


def test_weights_inside_the_model_are_not_shared(tmp_path: Path) -> None:
    """The sentence says what would help."""
    graph = _write(tmp_path, np.dtype(np.float32), is_external=False)
    with pytest.raises(WeightsNotSharedError, match="external data in one file"):
        external_tensors(graph)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> HostMemory:
    """Make the engine take the host, with this memory, for its GPU."""
    memory = HostMemory()

    @contextmanager
    def open_host(index: int = 0) -> Iterator[tuple[str, HostMemory]]:
        assert index == 0
        yield "gpu", memory

    monkeypatch.setattr(shared_weights, "open_gpu_memory", open_host)
    monkeypatch.setattr(shared_weights, "CUDA_DEVICE", CPU_DEVICE)
    monkeypatch.setattr(onnx_runtime, "_CUDA", "CPUExecutionProvider")
    return memory


def test_a_server_shares_weights_until_its_session_goes(tmp_path: Path, memory: HostMemory) -> None:
    """The engine takes them from the broker of its device, here the host, and says so."""
    graph = _write(tmp_path, np.dtype(np.float32))
    settings = replace(_UNPACKED, weight_broker=tmp_path)
    sample: dict[str, Array] = {"x": np.ones((1, 64), np.float32)}
    expected = onnx_runtime.load(graph, _UNPACKED, Interrupt()).runner.run(["y"], sample)
    with serving_broker(tmp_path, memory) as (_, broker):
        sessions = [onnx_runtime.load(graph, settings, Interrupt()) for _ in range(2)]
        assert [each.facts["weights"].partition(",")[2] for each in sessions] == [
            " loaded by the broker",
            " in GPU memory already",
        ]
        np.testing.assert_array_equal(sessions[1].runner.run(["y"], sample), expected)
        assert broker.status()["references"] == 2
        sessions[0].unload()
        del sessions[0]
        gc.collect()
        wait_until(lambda: broker.status()["references"] == 1, "the end of a reference")
        np.testing.assert_array_equal(sessions[0].runner.run(["y"], sample), expected)
        del sessions[0]
        gc.collect()


def test_weights_that_onnx_runtime_does_not_take_are_not_shared(
    tmp_path: Path, memory: HostMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server loads all of its own, also those that ONNX Runtime had taken before."""
    graph = _write(tmp_path, np.dtype(np.float32))
    sample: dict[str, Array] = {"x": np.ones((1, 64), np.float32)}
    expected = onnx_runtime.load(graph, _UNPACKED, Interrupt()).runner.run(["y"], sample)
    zeros = ctypes.create_string_buffer(64 * 4)
    values = []

    def take_one(
        options: Any, tensors: Sequence[onnx.TensorProto], _: Sequence[int], device: int
    ) -> tuple[Any, ...]:
        values.append(add_initializers(options, tensors[:1], [ctypes.addressof(zeros)], device))
        raise RuntimeError("the second one has no type")

    monkeypatch.setattr(shared_weights, "add_initializers", take_one)
    settings = replace(_UNPACKED, weight_broker=tmp_path)
    with serving_broker(tmp_path, memory) as (_, broker):
        session = onnx_runtime.load(graph, settings, Interrupt())
        reason = "ONNX Runtime does not take them: the second one has no type"
        assert session.facts["weights"] == f"own: {reason}"
        np.testing.assert_array_equal(session.runner.run(["y"], sample), expected)
        wait_until(lambda: broker.status()["references"] == 0, "the end of the reference")
    assert values


def test_a_server_without_cuda_loads_its_own_weights_and_says_why(tmp_path: Path) -> None:
    """Sharing is an option, not a condition."""
    graph = _write(tmp_path, np.dtype(np.float32))
    session = onnx_runtime.load(graph, EngineSettings(weight_broker=tmp_path), Interrupt())
    assert session.facts["weights"] == "own: The provider is CPU, not CUDA."
    assert "weights" not in onnx_runtime.load(graph, EngineSettings(), Interrupt()).facts


def test_an_engine_without_a_broker_needs_no_part_of_sharing() -> None:
    """Servers on CPUs do not depend on private names of ONNX Runtime."""
    code = (
        "import sys, inferometer_serving.model.onnx_runtime\n"
        "print(*[each for each in sys.modules if '.gpu.' in each or 'shared_weights' in each])"
    )
    words = [sys.executable, "-c", code]
    assert not subprocess.run(words, check=True, capture_output=True).stdout.strip()
