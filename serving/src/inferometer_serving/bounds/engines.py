"""Timings of single layers by each engine's own profiler, which leaves out its framework.

ONNX Runtime's reorders and OpenVINO's are left out too: within a model neighbours share a layout.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
import orjson
from onnx import ModelProto, TensorProto, helper

from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.onnx_runtime import session_options
from inferometer_serving.model.session import EngineSettings
from inferometer_serving.options import Precision
from inferometer_serving.profile.onnx_events import profile_of

REORDERS = frozenset({"ReorderInput", "ReorderOutput", "Reorder"})
_SEED = 42


def inputs_of(model: ModelProto) -> dict[str, Array]:
    """Return random floats, and zeros of other types, for the inputs of a layer."""
    random = np.random.default_rng(_SEED)
    found: dict[str, Array] = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = tuple(int(axis.dim_value) for axis in tensor.shape.dim)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        is_float = tensor.elem_type in {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16}
        found[value.name] = (
            random.standard_normal(shape).astype(dtype) if is_float else np.zeros(shape, dtype)
        )
    return found


class OnnxLayer:
    """A layer in a profiled session, with inputs and outputs bound in place."""

    engine = "onnxruntime"
    precision = "FP32"

    def __init__(self, model: ModelProto, settings: EngineSettings) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="inferometer-layer-")
        options = session_options(settings)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(self._folder.name) / "profile")
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._values = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
            if array.ndim
            else onnxruntime.OrtValue.ortvalue_from_numpy(array)
            for name, array in inputs_of(model).items()
        }
        self._binding = self._session.io_binding()
        for name, value in self._values.items():
            self._binding.bind_ortvalue_input(name, value)
        for name, value in self._outputs(model).items():
            self._binding.bind_ortvalue_output(name, value)
        self._runs = 0

    def _outputs(self, model: ModelProto) -> dict[str, Any]:
        """Return the memory of the outputs, which every run writes into."""
        return {
            each.name: onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                [int(axis.dim_value) for axis in each.type.tensor_type.shape.dim],
                helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type),
            )
            for each in model.graph.output
        }

    def run(self) -> None:
        """Compute the layer once."""
        self._session.run_with_iobinding(self._binding)
        self._runs += 1

    def kernel_ns(self, runs: int) -> list[float]:
        """Return the time of the layer's own kernels in each of the last `runs` runs."""
        with self._folder:
            file = Path(self._session.end_profiling())
            found = profile_of(orjson.loads(file.read_bytes()), runs)
        kept = [each for each in found.layers if each.operator not in REORDERS]
        return [float(sum(each.durations_ns[run] for each in kept)) for run in range(runs)]


class OpenVinoLayer:
    """A layer as a compiled model with counters.

    The counters are means over all runs, in whole microseconds: the last runs' mean is the
    difference of two sums.
    """

    engine = "openvino"

    def __init__(self, model: ModelProto, settings: EngineSettings) -> None:
        import openvino  # noqa: PLC0415 - it may be missing

        from inferometer_serving.model.open_vino import (  # noqa: PLC0415 - the same
            executed_layers,
            layer_precisions,
            properties_of,
        )

        core = openvino.Core()
        read = core.read_model(model.SerializeToString())
        compiled = core.compile_model(read, "CPU", properties_of(settings, is_profiled=True))
        layers = executed_layers(compiled)
        self.precision = layer_precisions(layers).effective or (
            "FP32" if settings.precision is Precision.FP32 else ""
        )
        self.kernels = [each.kernel for each in layers]
        self._request = compiled.create_infer_request()
        self._inputs: Mapping[str, Any] = inputs_of(model)
        self._sums: list[int] = [0]

    def run(self) -> None:
        """Compute the layer once."""
        self._request.infer(self._inputs, share_inputs=True, share_outputs=True)
        count = len(self._sums)
        means = sum(
            info.real_time.total_seconds()
            for info in self._request.profiling_info
            if info.node_type not in REORDERS
        )
        self._sums.append(round(means * 1e9) * count)

    def kernel_ns(self, runs: int) -> list[float]:
        """Return the mean time of the layer's own kernels over the last `runs` runs."""
        return [max(0.0, (self._sums[-1] - self._sums[-1 - runs]) / runs)]
