"""The part of ONNX Runtime's profiler that lies within the duration of each layer."""

import tempfile
from functools import cache
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
import orjson
from onnx import TensorProto, helper

from inferometer_serving.profile.onnx_events import profile_of

_LAYERS = 128
_RUNS = 30
_WARM_RUNS = 5


@cache
def event_cost_ns() -> float:
    """Return how many ns longer a layer takes by its event than without a profiler.

    Measured once in each process, with a chain of layers that compute next to nothing: what their
    events show beyond the time that they take without a profiler is the profiler's own.
    """
    with tempfile.TemporaryDirectory(prefix="inferometer-events-") as folder:
        plain, profiled = _chain(""), _chain(str(Path(folder) / "profile"))
        feeds = {"t0": np.ones(1, np.float32)}
        times = []
        for _ in range(_WARM_RUNS + _RUNS):
            began = perf_counter_ns()
            plain.run(None, feeds)
            times.append(perf_counter_ns() - began)
            profiled.run(None, feeds)
        events = orjson.loads(Path(profiled.end_profiling()).read_bytes())
    layers = profile_of(events, _RUNS).layers
    shown = median(sum(each.durations_ns[run] for each in layers) for run in range(_RUNS))
    return max(0.0, (shown - median(times[_WARM_RUNS:])) / _LAYERS)


def _chain(profile: str) -> Any:
    names = [f"t{at}" for at in range(_LAYERS + 1)]
    nodes = [helper.make_node("Neg", [names[at]], [names[at + 1]]) for at in range(_LAYERS)]
    ends = [
        helper.make_tensor_value_info(each, TensorProto.FLOAT, [1])
        for each in (names[0], names[-1])
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "chain", ends[:1], ends[1:]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
