"""The layers of an optimised graph, each as a model of its own with a key.

Two layers have one key if operator, attributes, and types and shapes of all tensors are equal.
Weights do not count, since engines do not look at them; small whole numbers do, since they are
shapes, axes and the like.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

VIEWS = frozenset(
    {"Constant", "Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"}
)
"""Operators that move no data: they are free in every bound."""
_MOST_VALUES = 64
_FUSED = {"FusedConv": "Conv", "FusedGemm": "Gemm", "FusedMatMul": "MatMul"}
_PARAMETERS = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}
"""Attributes of an activation by the place of its parameter in a fused operator."""
_ACTIVATIONS = frozenset({"Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip"})

Type = tuple[int, tuple[int, ...]]
"""Element type and shape of a tensor."""


@dataclass(frozen=True, slots=True)
class LayerModel:
    """One layer of a model."""

    index: int
    name: str
    operator: str
    key: str
    """Empty if the layer cannot run alone."""
    predecessors: tuple[int, ...]
    macs: int
    moved_bytes: int
    is_view: bool
    model: ModelProto | None
    """None for views and for what cannot run alone."""
    why_not: str = ""
    """Why it cannot run alone, as a sentence."""


def layer_models(model: ModelProto, types: Mapping[str, Type]) -> list[LayerModel]:
    """Return the layers of a graph; `types` has those of the tensors that were seen in a run."""
    weights = {each.name: each for each in model.graph.initializer}
    known: dict[str, Type] = {
        **types,
        **{name: (each.data_type, tuple(each.dims)) for name, each in weights.items()},
    }
    makers: dict[str, int] = {}
    layers = []
    for index, node in enumerate(model.graph.node):
        before = tuple(sorted({makers[name] for name in node.input if name in makers}))
        layers.append(_layer(index, node, before, model, weights, known))
        makers.update((name, index) for name in node.output if name)
    return layers


def _layer(
    index: int,
    node: NodeProto,
    before: tuple[int, ...],
    model: ModelProto,
    weights: Mapping[str, TensorProto],
    known: Mapping[str, Type],
) -> LayerModel:
    name = node.name or f"{node.op_type}_{index}"
    why = _why_not(node, known)
    is_view = node.op_type in VIEWS
    if why or is_view:
        return LayerModel(index, name, node.op_type, "", before, 0, 0, is_view, None, why)
    alone = _alone(node, model, weights, known)
    return LayerModel(
        index=index,
        name=name,
        operator=node.op_type,
        key=_key(node, weights, known),
        predecessors=before,
        macs=macs_of(node, known),
        moved_bytes=sum(_bytes(known[each]) for each in (*node.input, *node.output) if each),
        is_view=False,
        model=alone,
    )


def _why_not(node: NodeProto, known: Mapping[str, Type]) -> str:
    if any(each.HasField("g") or each.graphs for each in node.attribute):
        return f"{node.op_type} has a graph of its own (control flow)."
    missing = [each for each in (*node.input, *node.output) if each and each not in known]
    if missing and node.op_type not in VIEWS:
        return f"The shape of its tensor '{missing[0]}' was not seen in a run."
    return ""


def _key(node: NodeProto, weights: Mapping[str, TensorProto], known: Mapping[str, Type]) -> str:
    described = {
        "operator": f"{node.domain}:{node.op_type}",
        "attributes": sorted(
            hashlib.sha256(each.SerializeToString(deterministic=True)).hexdigest()
            for each in node.attribute
        ),
        "inputs": [_described(each, weights, known) for each in node.input],
        "outputs": [known[each] for each in node.output if each],
        # The same tensor twice is read once.
        "same": [list(node.input).index(each) for each in node.input],
    }
    text = json.dumps(described, sort_keys=True)
    return f"{node.op_type}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def _described(
    name: str, weights: Mapping[str, TensorProto], known: Mapping[str, Type]
) -> list[object]:
    if not name:
        return []
    weight = weights.get(name)
    found: list[object] = [*known[name], weight is not None]
    if weight is not None and _is_setting(weight):
        found.append(numpy_helper.to_array(weight).tolist())
    return found


def _is_setting(weight: TensorProto) -> bool:
    whole = weight.data_type in {TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL}
    return whole and math.prod(weight.dims) <= _MOST_VALUES


def _alone(
    node: NodeProto,
    model: ModelProto,
    weights: Mapping[str, TensorProto],
    known: Mapping[str, Type],
) -> ModelProto:
    used = [name for name in dict.fromkeys(node.input) if name]
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info(n, *_listed(known[n])) for n in used if n not in weights],
        [helper.make_tensor_value_info(n, *_listed(known[n])) for n in node.output if n],
        [weights[n] for n in used if n in weights],
    )
    alone = helper.make_model(graph, opset_imports=model.opset_import)
    alone.ir_version = model.ir_version
    return alone


def _listed(found: Type) -> tuple[int, list[int]]:
    return found[0], list(found[1])


def standard(model: ModelProto) -> ModelProto:
    """Return a layer's model without the operators that ONNX Runtime fused.

    Raises ValueError if it has one for which there is no standard form.
    """
    (node,) = model.graph.node
    if not node.domain or node.domain == "ai.onnx":
        return model
    plain = _FUSED.get(node.op_type)
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    activation = attributes.pop("activation", b"")
    parameters = attributes.pop("activation_params", [])
    name = activation.decode() if isinstance(activation, bytes) else str(activation)
    if plain is None or (name and name not in _ACTIVATIONS):
        raise ValueError(f"{node.op_type} has no standard form")
    if node.op_type == "FusedMatMul" and any(attributes.values()):
        raise ValueError("FusedMatMul has a scale or transposes")
    found = ModelProto()
    found.CopyFrom(model)
    found.graph.ClearField("node")
    limits = list(parameters) if name == "Clip" else []
    found.graph.initializer.extend(
        helper.make_tensor(f"limit_{at}", TensorProto.FLOAT, [], [value])
        for at, value in enumerate(limits)
    )
    shape = dict(zip(_PARAMETERS.get(name, ()), parameters, strict=False))
    found.graph.node.extend(_unfused(node, plain, attributes, (name, shape, len(limits))))
    return found


def _unfused(
    node: NodeProto,
    plain: str,
    attributes: Mapping[str, object],
    activation: tuple[str, Mapping[str, Any], int],
) -> Sequence[NodeProto]:
    """Return the operators in a row; the activation has a name, attributes and limits."""
    name, settings, limits = activation
    inputs, output = list(node.input), node.output[0]
    kept = {} if plain == "MatMul" else dict(attributes)
    summand = inputs[3] if plain == "Conv" and len(inputs) > 3 else ""
    stages = [plain, *(["Add"] if summand else []), *([name] if name else [])]
    names = [f"stage_{at}" for at in range(len(stages) - 1)] + [output]
    first = inputs[: 3 if plain == "Conv" else None]
    made = [helper.make_node(plain, first, [names[0]], **kept)]  # type: ignore[arg-type]
    for at, stage in enumerate(stages[1:], 1):
        if stage == "Add":
            made.append(helper.make_node(stage, [names[at - 1], summand], [names[at]]))
            continue
        given = [names[at - 1], *(f"limit_{number}" for number in range(limits))]
        made.append(helper.make_node(stage, given, [names[at]], **dict(settings)))
    return made


def macs_of(node: NodeProto, known: Mapping[str, Type]) -> int:
    """Return the multiply-accumulates of a layer that multiplies matrices; 0 for others.

    The holes of a dilated kernel are not counted: it multiplies only its weights.
    """
    outputs = math.prod(known[node.output[0]][1])
    shapes = [known[each][1] for each in node.input if each]
    match _FUSED.get(node.op_type, node.op_type):
        case "Conv":
            return outputs * math.prod(shapes[1][1:])
        case "ConvTranspose":
            return math.prod(shapes[0]) * math.prod(shapes[1][1:])
        case "MatMul" | "Gemm":
            inner = shapes[0][-1]
            transposed = any(each.name == "transA" and each.i for each in node.attribute)
            return outputs * (shapes[0][0] if transposed else inner)
        case _:
            return 0


_ITEM_BYTES: dict[int, int] = {
    TensorProto.DOUBLE: 8,
    TensorProto.INT64: 8,
    TensorProto.FLOAT: 4,
    TensorProto.INT32: 4,
    TensorProto.FLOAT16: 2,
    TensorProto.BFLOAT16: 2,
}


def _bytes(found: Type) -> int:
    return math.prod(found[1]) * _ITEM_BYTES.get(found[0], 1)
