"""The standard form of layers that ONNX Runtime fused: operators that any engine knows."""

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto, helper

_FUSED = {"FusedConv": "Conv", "FusedGemm": "Gemm", "FusedMatMul": "MatMul"}
_PARAMETERS = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}
"""Attributes of an activation by the place of its parameter in a fused operator."""
_ACTIVATIONS = frozenset({"Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip"})
_OPSET = 17


def standard(model: ModelProto) -> ModelProto:
    """Return a layer's model without the operators that ONNX Runtime fused.

    Raises ValueError if it has one for which there is no standard form.
    """
    node, *others = model.graph.node
    if others or not node.domain or node.domain == "ai.onnx":
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
    found.ClearField("opset_import")
    found.opset_import.append(helper.make_opsetid("", _OPSET))
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
