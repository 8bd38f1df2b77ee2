"""The precision that the layers of a model compute in, as an engine reports it."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, shape_inference

MIXED = "Mixed"
"""The precision of a model whose layers compute in several."""

_FLOATS: dict[int, str] = {
    TensorProto.DOUBLE: "FP64",
    TensorProto.FLOAT: "FP32",
    TensorProto.FLOAT16: "FP16",
    TensorProto.BFLOAT16: "BF16",
}
_MATRIX_OPERATORS = frozenset(
    {"Attention", "Conv", "ConvTranspose", "Einsum", "FusedConv", "FusedGemm", "FusedMatMul"}
    | {"GRU", "Gemm", "LSTM", "MatMul", "MultiHeadAttention", "RNN"}
)
"""The operators of ONNX that multiply matrices, in which most of the time goes."""
_INTEGER_OPERATORS = frozenset(
    {"ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat"}
    | {"QGemm", "QLinearConv", "QLinearMatMul"}
)


@dataclass(frozen=True, slots=True)
class LayerPrecisions:
    """How many layers that multiply matrices compute in which precision."""

    layers: dict[str, int]

    @property
    def effective(self) -> str:
        """The precision of all of them, Mixed if they differ, empty if there are none."""
        return next(iter(self.layers)) if len(self.layers) == 1 else MIXED if self.layers else ""

    def to_json(self) -> str:
        """Return the counts as JSON."""
        return json.dumps(self.layers)


NO_LAYERS = LayerPrecisions({})


def counted(precisions: Iterable[str]) -> LayerPrecisions:
    """Return how many layers have which precision, the most frequent one first."""
    return LayerPrecisions(dict(Counter(precisions).most_common()))


def precisions_of(model: ModelProto) -> LayerPrecisions:
    """Return the precisions of an engine that computes each node in the types of its tensors.

    A node between dequantised inputs counts as INT8: the engine joins them into an integer node.
    """
    types = _element_types(model)
    makers = {name: node.op_type for node in model.graph.node for name in node.output}
    return counted(
        precision
        for node in model.graph.node
        if (precision := _precision(node, types, makers)) is not None
    )


def _precision(node: NodeProto, types: dict[str, int], makers: dict[str, str]) -> str | None:
    if node.op_type in _INTEGER_OPERATORS:
        return "INT8"
    if node.op_type not in _MATRIX_OPERATORS:
        return None
    data = [each for each in node.input if each][:2]
    if data and all(makers.get(each) == "DequantizeLinear" for each in data):
        return "INT8"
    return next((_FLOATS[types[each]] for each in data if types.get(each) in _FLOATS), None)


def _element_types(model: ModelProto) -> dict[str, int]:
    """Return the element type of each tensor, as far as it follows from the operators."""
    graph = model.graph
    light = GraphProto(name=graph.name, node=graph.node, input=graph.input, output=graph.output)
    named = {each.name for each in graph.input}
    # Only types are wanted: the weights would be copied for nothing.
    light.input.extend(
        helper.make_tensor_value_info(each.name, each.data_type, list(each.dims))
        for each in graph.initializer
        if each.name not in named
    )
    bare = ModelProto(
        ir_version=model.ir_version,
        opset_import=model.opset_import,
        functions=model.functions,
        graph=light,
    )
    try:
        found = shape_inference.infer_shapes(bare).graph
    except (RuntimeError, ValueError):  # the engine loaded it: only this description is poorer
        found = light
    values = (*found.input, *found.value_info, *found.output)
    return {each.name: each.type.tensor_type.elem_type for each in values}
