"""The time of the profiler of ONNX Runtime: within the duration of each layer, and after it."""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
import orjson
from onnx import TensorProto, helper

from inferometer_serving.profile.onnx_events import EventCost, events_by_run, profile_of

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
    with tempfile.TemporaryDirectory(prefix="inferometer-events-") as folder:
        pairs = [_Pair(*each, Path(folder)) for each in ((1, 1), (1, _AXES), (_INPUTS, 1))]
        for _ in range(_WARM_RUNS + _RUNS):
            for pair in pairs:
                pair.run()
        costs = [each.cost_ns() for each in pairs]
    within = divided(*(within_ns for within_ns, _ in costs))
    return replace(within, between_ns=min(between_ns for _, between_ns in costs))


def divided(few_ns: float, wide_ns: float, many_ns: float) -> EventCost:
    """Return the cost of an event, of a tensor and of an axis, of which none is negative.

    `few_ns` is that of a layer with one input and one output of one axis each, of which the parts
    are never more; `wide_ns` that of the same with `_AXES` axes, `many_ns` that with `_INPUTS`
    inputs.
    """
    axis_ns = min(max(0.0, (wide_ns - few_ns) / (2 * (_AXES - 1))), few_ns / 2)
    tensor_ns = (many_ns - few_ns) / (_INPUTS - 1) - axis_ns
    tensor_ns = min(max(0.0, tensor_ns), few_ns / 2 - axis_ns)
    event_ns = max(0.0, few_ns - 2 * tensor_ns - 2 * axis_ns)
    return EventCost(event_ns, tensor_ns, axis_ns)


class _Pair:
    """A chain of layers with so many inputs and axes, with a profiler and without, in turns."""

    def __init__(self, inputs: int, axes: int, folder: Path) -> None:
        self._feeds = {"t0": np.ones((1,) * axes, np.float32)}
        self._plain = _chain(inputs, axes, "")
        self._profiled = _chain(inputs, axes, str(folder / f"{inputs}-{axes}"))
        self._plain_ns: list[int] = []

    def run(self) -> None:
        began_ns = perf_counter_ns()
        self._plain.run(None, self._feeds)
        self._plain_ns.append(perf_counter_ns() - began_ns)
        self._profiled.run(None, self._feeds)

    def cost_ns(self) -> tuple[float, float]:
        """Return the profiler's time within one event, and from one to the next.

        They are of the runs that were disturbed least.
        """
        events = orjson.loads(Path(self._profiled.end_profiling()).read_bytes())
        layers = profile_of(events, _RUNS).layers
        shown_ns = [sum(each.durations_ns[run] for each in layers) for run in range(_RUNS)]
        whole_ns = [1000 * (each.end_us - each.start_us) for each in events_by_run(events, _RUNS)]
        within_ns = (min(shown_ns) - min(self._plain_ns[_WARM_RUNS:])) / _LAYERS
        between_ns = min(w - s for w, s in zip(whole_ns, shown_ns, strict=True)) / _LAYERS
        return max(0.0, within_ns), max(0.0, between_ns)


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
