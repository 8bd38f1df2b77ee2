"""Profiled sessions of OpenVINO."""

from typing import Any

import openvino

from inferometer_models.graph_file import GraphFile
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.open_vino import PROVIDER, compile_graph, executed_layers
from inferometer_serving.model.session import EngineSettings
from inferometer_serving.profile.layer_times import EngineProfile, LayerTimes

_NOTES = (
    "OpenVINO reports the mean duration of a layer over all runs, in whole microseconds.",
    "OpenVINO reports no start of a layer: layers are laid one after another.",
)
_ITEM_BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "bf16": 2, "f16": 2, "i8": 1, "u8": 1}


class OpenVinoProfiledSession:
    """A compiled model with counters, which are read after each run."""

    def __init__(self, graph: GraphFile, settings: EngineSettings) -> None:
        self._compiled = compile_graph(graph, settings, is_profiled=True)
        self._request = self._compiled.create_infer_request()
        self._runs: list[list[Any]] = []

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> None:  # noqa: ARG002 - a request computes all outputs
        """Infer once."""
        self._request.infer(inputs, share_inputs=True, share_outputs=True)
        self._runs.append(self._request.profiling_info)

    def finish(self, runs: int) -> EngineProfile:
        """Return the layers of the last `runs` runs, one after another in the order of execution.

        The counters are means over all runs so far: that of the last ones follows from two sums.
        """
        count, infos = len(self._runs), self._runs[-1]
        before = {info.node_name: info for info in self._runs[-1 - runs]} if count > runs else {}
        nodes = {node.name: node for node in executed_layers(self._compiled)}
        layers: list[LayerTimes] = []
        start_ns = 0
        for info in infos:
            if info.status != openvino.ProfilingInfo.Status.EXECUTED:
                continue
            earlier = before.get(info.node_name)
            sum_ns = count * _nanoseconds(info)
            if earlier is not None:
                sum_ns -= (count - runs) * _nanoseconds(earlier)
            mean_ns = max(0, round(sum_ns / runs))
            node = nodes.get(info.node_name)
            shape = () if node is None else node.shape
            precision = "" if node is None else node.precision
            layers.append(
                LayerTimes(
                    index=len(layers),
                    name=str(info.node_name),
                    operator=str(info.node_type),
                    shape=shape,
                    datatype=precision,
                    provider=PROVIDER,
                    kernel=str(info.exec_type),
                    output_bytes=_output_bytes(shape, precision),
                    start_ns=start_ns,
                    durations_ns=(mean_ns,),
                )
            )
            start_ns += mean_ns
        return EngineProfile(tuple(layers), _NOTES)

    def close(self) -> None:
        """Hold nothing."""


def _nanoseconds(info: Any) -> int:
    real = info.real_time
    microseconds = (real.days * 86_400 + real.seconds) * 1_000_000 + real.microseconds
    return int(microseconds) * 1000


def _output_bytes(shape: tuple[int, ...], precision: str) -> int | None:
    item = _ITEM_BYTES.get(precision.lower())
    if item is None or not shape:
        return None
    elements = 1
    for axis in shape:
        elements *= axis
    return elements * item
