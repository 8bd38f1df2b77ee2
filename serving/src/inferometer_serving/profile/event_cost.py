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

from inferometer_serving.profile.onnx_events import EventCost, profile_of

_LAYERS = 128
_INPUTS, _AXES = 4, 4
_RUNS = 30
_WARM_RUNS = 5


@cache
def event_cost() -> EventCost:
    """Return how much longer a layer takes by its event than without a profiler.

    Measured once in each process, with chains of layers that compute next to nothing and differ in
    their inputs and in the axes of these: what their events show beyond the time that they take
    without a profiler is the profiler's own.
    """
    few = _cost_ns(inputs=1, axes=1)  # of two tensors with one axis each
    wide = _cost_ns(inputs=1, axes=_AXES)
    many = _cost_ns(inputs=_INPUTS, axes=1)
    axis_ns = max(0.0, (wide - few) / (2 * (_AXES - 1)))
    tensor_ns = max(0.0, (many - few) / (_INPUTS - 1) - axis_ns)
    return EventCost(max(0.0, few - 2 * tensor_ns - 2 * axis_ns), tensor_ns, axis_ns)


def _cost_ns(inputs: int, axes: int) -> float:
    """Return the profiler's time within the event of a layer with so many inputs and axes."""
    feeds = {"t0": np.ones((1,) * axes, np.float32)}
    with tempfile.TemporaryDirectory(prefix="inferometer-events-") as folder:
        plain, profiled = (
            _chain(inputs, axes, each) for each in ("", str(Path(folder) / "profile"))
        )
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


def _chain(inputs: int, axes: int, profile: str) -> Any:
    names = [f"t{at}" for at in range(_LAYERS + 1)]
    nodes = [
        helper.make_node("Max", [names[at], *["t0"] * (inputs - 1)], [names[at + 1]])
        for at in range(_LAYERS)
    ]
    ends = [
        helper.make_tensor_value_info(each, TensorProto.FLOAT, [1] * axes)
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
