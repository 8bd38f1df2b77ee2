"""The work of a layer: what it multiplies and moves, and whether it is any.

The formulas of multiply-accumulates are Benanza's, except for dilated kernels: their holes are not
counted, because a convolution multiplies only its weights.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from inferometer_api.layers.graph import Layer, LayerGraph, LayerTensor

VIEWS = frozenset(
    {"Constant", "Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"}
)
"""Operators that only look at their input in another shape. In a model they move no data; alone,
they copy it, so that their own time says nothing."""
_FUSED = {"FusedConv": "Conv", "FusedGemm": "Gemm", "FusedMatMul": "MatMul"}
_MAY_MULTIPLY = re.compile(
    r"Attention|MatMul|Gemm|Conv|LSTM|GRU|RNN|Einsum|MoE|DFT|STFT|Loop|Scan|If|Decoder|BeamSearch"
)
"""Operators whose multiply-accumulates are not those of one product of their inputs."""
_BITS = {
    "BFLOAT16": 16,
    "BOOL": 8,
    "DOUBLE": 64,
    "FLOAT": 32,
    "FLOAT16": 16,
    "INT16": 16,
    "INT32": 32,
    "INT4": 4,
    "INT64": 64,
    "INT8": 8,
    "UINT16": 16,
    "UINT32": 32,
    "UINT4": 4,
    "UINT64": 64,
    "UINT8": 8,
}


@dataclass(frozen=True, slots=True)
class GraphLayer:
    """One layer at its place in a graph; predecessors are indices, all lower than its own."""

    index: int
    name: str
    operator: str
    key: str
    predecessors: tuple[int, ...] = ()
    macs: int = 0
    moved_bytes: int = 0
    is_view: bool = False
    """Views move no data, and are free."""
    why_not: str = ""
    """Why it cannot be benchmarked alone."""


def graph_layers(graph: LayerGraph) -> list[GraphLayer]:
    """Return the layers of a graph in the order in which they run."""
    makers: dict[int, int] = {}
    found = []
    for index, use in enumerate(graph.uses):
        layer = graph.layers[use.layer]
        found.append(
            GraphLayer(
                index=index,
                name=use.name or f"{layer.operator}_{index}",
                operator=layer.operator,
                key=use.layer,
                predecessors=tuple(sorted({makers[each] for each in use.inputs if each in makers})),
                macs=macs_of(layer),
                moved_bytes=moved_bytes(layer),
                is_view=is_view(layer),
                why_not=why_not_alone(layer),
            )
        )
        makers.update(dict.fromkeys(use.outputs, index))
    return found


def is_view(layer: Layer) -> bool:
    """Return whether a layer only looks at its input in another shape."""
    return layer.operator in VIEWS and layer.domain in ("", "ai.onnx")


def why_not_alone(layer: Layer) -> str:
    """Return why a layer cannot be benchmarked alone, as a sentence; empty if it can."""
    if any("g" in each or "graphs" in each for each in layer.attributes):
        return f"{layer.operator} has a graph of its own (control flow)."
    for tensor in (*layer.inputs, *layer.outputs):
        if tensor.kind != "Absent" and tensor.datatype not in _BITS:
            return f"One of its tensors is of type {tensor.datatype or 'unknown'}."
    return ""


def macs_of(layer: Layer) -> int:
    """Return the multiply-accumulates of a layer that multiplies matrices; 0 for others."""
    shapes = [each.shape for each in layer.inputs]
    outputs = prod(layer.outputs[0].shape) if layer.outputs else 0
    match _FUSED.get(layer.operator, layer.operator):
        case "Conv" | "ConvInteger":
            return outputs * prod(shapes[1][1:])
        case "QLinearConv":
            return outputs * prod(shapes[3][1:])
        case "ConvTranspose":
            return prod(shapes[0]) * prod(shapes[1][1:])
        case "MatMul" | "MatMulInteger" | "QLinearMatMul":
            return outputs * _last(shapes[0])
        case "Gemm":
            return outputs * (shapes[0][0] if _is_set(layer, "transA") else _last(shapes[0]))
        case _:
            return 0


def flops_of(operator: str, inputs: Sequence[Sequence[int]], output: Sequence[int]) -> int | None:
    """Return the flops of a layer that ran, from the shapes of its inputs and its first output.

    Only multiply-accumulates count, as two. None if the operator may multiply in a way that the
    shapes do not show, such as attention, or if shapes are missing.
    """
    name = _FUSED.get(operator, operator)
    try:
        match name:
            case "Conv" | "ConvInteger":
                return 2 * prod(output) * prod(inputs[1][1:])
            case "QLinearConv":
                return 2 * prod(output) * prod(inputs[3][1:])
            case "ConvTranspose":
                return 2 * prod(inputs[0]) * prod(inputs[1][1:])
            case "MatMul" | "MatMulInteger" | "QLinearMatMul" | "Gemm":
                # Transposed or not, the first matrix has the rows of the output.
                left = inputs[0] if len(inputs[0]) > 1 else [1, *inputs[0]]
                rows = output[-2] if len(output) > 1 else 1
                return 2 * prod(output) * (left[-2] * left[-1] // rows if rows else 0)
            case _:
                return None if _MAY_MULTIPLY.search(name) else 0
    except IndexError:
        return None


def element_bytes(datatype: str, shape: Sequence[int]) -> int | None:
    """Return the bytes of a tensor of a type as ONNX or ONNX Runtime names it; None: unknown."""
    bits = _BITS.get(datatype.removeprefix("tensor(").removesuffix(")").upper())
    return None if bits is None else prod(shape) * bits // 8


def _last(shape: Sequence[int]) -> int:
    return shape[-1] if shape else 1


def _is_set(layer: Layer, name: str) -> bool:
    return any(each.get("name") == name and int(each.get("i", 0)) for each in layer.attributes)


def moved_bytes(layer: Layer) -> int:
    """Return the bytes of all inputs and outputs; a tensor that is read twice counts once."""
    inputs = (each for each in layer.inputs if each.same_as is None)
    return sum(map(tensor_bytes, (*inputs, *layer.outputs)))


def weight_bytes(layer: Layer) -> int:
    """Return the bytes of the weights of a layer."""
    return sum(tensor_bytes(each) for each in layer.inputs if each.kind == "Weight")


def tensor_bytes(tensor: LayerTensor) -> int:
    """Return the bytes of a tensor; 0 if it holds no numbers."""
    return prod(tensor.shape) * _BITS.get(tensor.datatype, 0) // 8
