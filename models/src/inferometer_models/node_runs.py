"""Runs a graph node by node on ONNX Runtime, with weights as inputs of the node."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships neither types nor stubs
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from inferometer_models.errors import UnfitModelError

Array = NDArray[np.generic]


class NodeRun:
    """One node, opened alone, which can be run again with other inputs."""

    def __init__(self, model: ModelProto, node: NodeProto, inputs: Mapping[str, Array]) -> None:
        self._inputs = {name: inputs[name] for name in node.input if name}
        self._outputs = [name for name in node.output if name]
        graph = helper.make_graph(
            [node],
            "node",
            [_declared(name, array) for name, array in self._inputs.items()],
            [ValueInfoProto(name=name) for name in self._outputs],
        )
        alone = helper.make_model(
            graph, ir_version=model.ir_version, opset_imports=model.opset_import
        )
        self._node = node
        with self._explain_errors():
            self._session = onnxruntime.InferenceSession(
                alone.SerializeToString(), _options(), providers=["CPUExecutionProvider"]
            )

    def run(self, **others: Array) -> dict[str, Array]:
        """Return the outputs by name; `others` replaces inputs. Raises UnfitModelError."""
        with self._explain_errors():
            arrays = self._session.run(self._outputs, {**self._inputs, **others})
        return dict(zip(self._outputs, arrays, strict=True))

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # ONNX Runtime's errors share no nearer class
            raise UnfitModelError(
                f"ONNX Runtime {onnxruntime.__version__} cannot run the node "
                f"{self._node.op_type} of {', '.join(self._outputs)} ({error}). Export the graph "
                "for a version that this one knows."
            ) from error


def last_uses(nodes: Sequence[NodeProto]) -> list[list[str]]:
    """Return for each node the tensors that no later node takes."""
    last = {name: position for position, node in enumerate(nodes) for name in node.input if name}
    found: list[list[str]] = [[] for _ in nodes]
    for name, position in last.items():
        found[position].append(name)
    return found


def multiplications(node: NodeProto, inputs: Mapping[str, Array], output: Array) -> int:
    """Return the multiply-accumulate operations of a convolution or matrix product, else 0."""
    if node.op_type not in {"Conv", "ConvTranspose", "Gemm", "MatMul"}:
        return 0
    shapes: list[tuple[int, ...]] = [inputs[name].shape for name in node.input[:2]]
    first, second = shapes
    match node.op_type:
        case "Conv":
            return prod(output.shape) * prod(second[1:])
        case "ConvTranspose":
            return prod(first) * prod(second[1:])
        case "MatMul":
            return prod(output.shape) * first[-1]
        case _:
            transposed = any(each.name == "transA" and each.i for each in node.attribute)
            return prod(output.shape) * first[0 if transposed else 1]


def constants(model: ModelProto) -> dict[str, TensorProto]:
    """Return the stored initializers by name, without the external ones."""
    return {
        tensor.name: tensor
        for tensor in model.graph.initializer
        if tensor.data_location != TensorProto.EXTERNAL
    }


def _declared(name: str, array: Array) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), None)


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return options
