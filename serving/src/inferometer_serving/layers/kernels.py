"""Timings of single layers by each engine's own profiler, which leaves out the engine's call.

ONNX Runtime's reorders and OpenVINO's are left out too: within a model neighbours share a layout.
"""

import contextlib
import shutil
import tempfile
import weakref
from pathlib import Path
from statistics import median
from typing import Any

import onnxruntime  # type: ignore[import-untyped]  # ships no types
import orjson
from onnx import ModelProto

from inferometer_serving.layers.brick_model import BrickModel, Runnable, bind
from inferometer_serving.layers.optimised_graph import session_options
from inferometer_serving.layers.standard_form import standard
from inferometer_serving.model.engines import silence_openvino
from inferometer_serving.model.session import EngineSettings
from inferometer_serving.options import EngineName, Precision
from inferometer_serving.profile.event_cost import event_cost
from inferometer_serving.profile.onnx_events import profile_of
from inferometer_serving.temporary_disk import disk_advice

REORDERS = frozenset({"ReorderInput", "ReorderOutput", "Reorder"})
LEAST_SPREAD_NS = 500.0
"""Both engines count whole microseconds: the quartiles of the rounding are half of one apart."""
_TAKEN_APART = frozenset({"BiasGelu", "SkipLayerNormalization"})
"""Fused operators whose parts can be faster: both are timed."""
_BASIC = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
_ALL = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL


class OnnxKernels:
    """A layer in a profiled session of ONNX Runtime, with inputs and outputs bound in place.

    A layer that ONNX Runtime may also run as several operators has a second session of these.
    """

    engine = EngineName.ONNX_RUNTIME
    precision = "FP32"

    def __init__(self, made: BrickModel, settings: EngineSettings) -> None:
        self.folder = tempfile.mkdtemp(prefix="inferometer-layer-")
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        model = made.whole()
        ways = [self._open(model, made, session_options(settings.threads, _ALL), "whole")]
        if model.graph.node[0].op_type in _TAKEN_APART:
            with contextlib.suppress(ValueError):  # it has no standard form
                # At this level ONNX Runtime does not fuse them again.
                basic = session_options(settings.threads, _BASIC)
                ways.append(self._open(standard(model), made, basic, "parts"))
        self.own_ns: list[float] = []
        """The layer's own kernels in each of the last runs, once `kernel_ns` was called."""
        self._ways = tuple(ways)
        self.inputs = ways[0].inputs

    def _open(self, model: ModelProto, made: BrickModel, options: Any, name: str) -> Runnable:
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(self.folder) / name)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return bind(session, made.inputs, made.outputs)

    def run(self) -> None:
        """Compute the layer once in each way."""
        for each in self._ways:
            each.run()

    def kernel_ns(self, runs: int) -> float:
        """Return the median time of the layer's own kernels in the last `runs` runs.

        Of several ways to compute the layer, the fastest counts. Raises ValueError if the profile
        was cut off, OSError if it cannot be read.
        """
        ways = [_own_ns(each.session, runs) for each in self._ways]
        self.own_ns = min(ways, key=median)
        return median(self.own_ns)


def _own_ns(session: Any, runs: int) -> list[float]:
    file = Path(session.end_profiling())
    try:
        found = profile_of(orjson.loads(file.read_bytes()), runs, event_cost())
    except ValueError as error:
        raise ValueError(f"its profile is cut off: {error}. {disk_advice()}") from error
    kept = [each for each in found.layers if each.operator not in REORDERS]
    return [float(sum(each.durations_ns[run] for each in kept)) for run in range(runs)]


class OpenVinoKernels:
    """A layer as a compiled model of OpenVINO with counters.

    The counters are means over all runs, in whole microseconds: the last runs' mean is the
    difference of two sums.
    """

    engine = EngineName.OPENVINO
    own_ns: tuple[float, ...] = ()
    """Of no run: their means are too coarse."""

    def __init__(self, made: BrickModel, settings: EngineSettings) -> None:
        silence_openvino()
        import openvino  # noqa: PLC0415 - it may be missing

        from inferometer_serving.model.open_vino import (  # noqa: PLC0415 - the same
            executed_layers,
            layer_precisions,
            properties_of,
        )

        core = openvino.Core()
        read = core.read_model(standard(made.whole()).SerializeToString())
        compiled = core.compile_model(read, "CPU", properties_of(settings, is_profiled=True))
        layers = executed_layers(compiled)
        self.precision = layer_precisions(layers).effective or (
            "FP32" if settings.precision is Precision.FP32 else ""
        )
        self.names = [each.kernel for each in layers]
        self._request: Any = compiled.create_infer_request()
        # OpenVINO writes to scalars, and random arrays share memory that nothing may write to.
        self._feeds = {
            name: each if each.ndim else each.copy() for name, each in made.inputs.items()
        }
        self.inputs = tuple(made.inputs.values())
        self._sums: list[int] = [0]

    def run(self) -> None:
        """Compute the layer once."""
        self._request.infer(self._feeds, share_inputs=True, share_outputs=True)
        means = sum(
            info.real_time.total_seconds()
            for info in self._request.profiling_info
            if info.node_type not in REORDERS
        )
        self._sums.append(round(means * 1e9) * len(self._sums))

    def kernel_ns(self, runs: int) -> float:
        """Return the mean time of the layer's own kernels over the last `runs` runs."""
        return max(0.0, (self._sums[-1] - self._sums[-1 - runs]) / runs)


Kernels = OnnxKernels | OpenVinoKernels
KERNELS: dict[EngineName, type[Kernels]] = {
    EngineName.ONNX_RUNTIME: OnnxKernels,
    EngineName.OPENVINO: OpenVinoKernels,
}
