"""Inferences that ONNX Runtime launches on a GPU as one CUDA graph each.

A graph is recorded once, and reads and writes the addresses that it was recorded with. So each
shape of the inputs has a graph with memory of its own on the GPU.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types

from inferometer_serving.infer.tensors import Array

_MOST_GRAPHS = 64
"""Shapes beyond so many are inferred without a graph."""
_GRAPH_ID = "gpu_graph_id"
_NO_GRAPH = "-1"
_MEMORY = ("cuda", 0)

_Key = tuple[tuple[str, ...], tuple[tuple[str, tuple[int, ...]], ...]]


@dataclass(frozen=True, slots=True)
class _Graph:
    binding: Any
    inputs: dict[str, Any]
    outputs: list[Any]
    options: Any


class CudaGraphRunner:
    """Runs a session with CUDA graphs: the first inference of a shape records its graph."""

    def __init__(
        self,
        session: Any,
        new_run_options: Callable[[], Any],
        memory: tuple[str, int] = _MEMORY,
    ) -> None:
        self._session = session
        self._new_run_options = new_run_options
        self._memory = memory
        self._without_graph = self._options(_NO_GRAPH)
        self._graphs: dict[_Key, _Graph] = {}

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> list[Array]:
        """Return the outputs in the order of their names."""
        key = (tuple(output_names), tuple((name, each.shape) for name, each in inputs.items()))
        graph = self._graphs.get(key)
        if graph is not None:
            for name, array in inputs.items():
                graph.inputs[name].update_inplace(np.ascontiguousarray(array))
            self._session.run_with_iobinding(graph.binding, graph.options)
            return [each.numpy() for each in graph.outputs]
        results: list[Array] = self._session.run(output_names, inputs, self._without_graph)
        if len(self._graphs) < _MOST_GRAPHS:
            self._graphs[key] = self._record(output_names, inputs, results)
        return results

    def _record(
        self, output_names: list[str], inputs: dict[str, Array], results: list[Array]
    ) -> _Graph:
        """Return a graph for the shapes of `inputs`, whose outputs have those of `results`."""
        values = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(
                np.ascontiguousarray(array), *self._memory
            )
            for name, array in inputs.items()
        }
        outputs = [
            onnxruntime.OrtValue.ortvalue_from_shape_and_type(each.shape, each.dtype, *self._memory)
            for each in results
        ]
        binding = self._session.io_binding()
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in zip(output_names, outputs, strict=True):
            binding.bind_ortvalue_output(name, value)
        options = self._options(str(len(self._graphs) + 1))
        self._session.run_with_iobinding(binding, options)
        return _Graph(binding, values, outputs, options)

    def _options(self, graph_id: str) -> Any:
        options = self._new_run_options()
        options.add_run_config_entry(_GRAPH_ID, graph_id)
        return options
