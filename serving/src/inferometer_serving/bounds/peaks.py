"""The peaks of the machine: the rate of a matrix product, and that of copied bytes."""

from time import perf_counter_ns

import numpy as np
from onnx import TensorProto, helper

from inferometer_serving.bounds.engines import OnnxLayer, OpenVinoLayer
from inferometer_serving.model.session import EngineSettings

_PROBE_WIDTH = 512
_PROBE_BYTES = tuple(1 << power for power in range(16, 27, 2))


def measured_peaks(settings: EngineSettings) -> dict[str, float]:
    """Return the highest arithmetic rate of a matrix product, and of bytes moved by a copy.

    Sizes from 64 KiB to 64 MiB are copied: a bound must allow for tensors that stay in a cache.
    """
    width = _PROBE_WIDTH
    shape = [width, width]
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xwy"]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "probe", tensors[:2], tensors[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rates = [0.0]
    for kind in (OnnxLayer, OpenVinoLayer):
        try:
            layer: OnnxLayer | OpenVinoLayer = kind(model, settings)
        except ImportError:
            continue
        times: list[int] = []
        for _ in range(20):
            started_ns = perf_counter_ns()
            layer.run()
            times.append(perf_counter_ns() - started_ns)
        rates.append(2 * width**3 * 1e9 / min(times))
    return {"flopsPerSecond": max(rates), "bytesPerSecond": settings.threads * _copy_rate()}


def _copy_rate() -> float:
    best = 0.0
    for size in _PROBE_BYTES:
        source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)
        for _ in range(20):
            started_ns = perf_counter_ns()
            np.copyto(target, source)
            best = max(best, 2e9 * size / max(1, perf_counter_ns() - started_ns))
    return best
