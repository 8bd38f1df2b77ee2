"""The standard form of layers that ONNX Runtime fused: operators that any engine knows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto, helper

_PARAMETERS = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}
"""Attributes of an activation by the place of its parameter in a fused operator."""
_ACTIVATIONS = frozenset({"Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip"})
_OPSET = 20
_SUM_OUTPUT = 3
"""Of SkipLayerNormalization."""


@dataclass(frozen=True, slots=True)
class _Fused:
    """A fused operator, and what its standard form needs to know of it."""

    node: NodeProto
    attributes: dict[str, Any]
    ranks: Mapping[str, int]
    initializers: list[TensorProto]
    """The form adds its constants."""

    def constant(self, name: str, value: float) -> str:
        """Add a scalar, and return its name."""
        self.initializers.append(helper.make_tensor(name, TensorProto.FLOAT, [], [value]))
        return name


def standard(model: ModelProto) -> ModelProto:
    """Return a layer's model without the operators that ONNX Runtime fused.

    Raises ValueError if it has one for which there is no standard form.
    """
    node, *others = model.graph.node
    if others or not node.domain or node.domain == "ai.onnx":
        return model
    make_form = _FORMS.get(node.op_type)
    if make_form is None:
        raise ValueError(f"{node.op_type} has no standard form")
    found = ModelProto()
    found.CopyFrom(model)
    found.graph.ClearField("node")
    ranks = {each.name: len(each.dims) for each in model.graph.initializer} | {
        each.name: len(each.type.tensor_type.shape.dim) for each in model.graph.input
    }
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    constants: list[TensorProto] = []
    found.graph.node.extend(make_form(_Fused(node, attributes, ranks, constants)))
    found.graph.initializer.extend(constants)
    found.ClearField("opset_import")
    found.opset_import.append(helper.make_opsetid("", _OPSET))
    return found


def _with_activation(fused: _Fused, plain: str) -> list[NodeProto]:
    """Return a convolution or a product, the summand of a convolution, and the activation."""
    activation = fused.attributes.pop("activation", b"")
    parameters = fused.attributes.pop("activation_params", [])
    name = activation.decode() if isinstance(activation, bytes) else str(activation)
    if name and name not in _ACTIVATIONS:
        raise ValueError(f"{fused.node.op_type} has no standard form with {name}")
    inputs, output = list(fused.node.input), fused.node.output[0]
    summand = inputs[3] if plain == "Conv" and len(inputs) > 3 else ""
    stages = [plain, *(["Add"] if summand else []), *([name] if name else [])]
    names = [f"stage_{at}" for at in range(len(stages) - 1)] + [output]
    first = inputs[: 3 if plain == "Conv" else None]
    made = [helper.make_node(plain, first, [names[0]], **fused.attributes)]
    for at, stage in enumerate(stages[1:], 1):
        if stage == "Add":
            made.append(helper.make_node(stage, [names[at - 1], summand], [names[at]]))
            continue
        limits = list(parameters) if stage == "Clip" else []
        given = [fused.constant(f"limit_{number}", each) for number, each in enumerate(limits)]
        shape = dict(zip(_PARAMETERS.get(stage, ()), parameters, strict=False))
        made.append(helper.make_node(stage, [names[at - 1], *given], [names[at]], **shape))
    return made


def _convolution(fused: _Fused) -> list[NodeProto]:
    return _with_activation(fused, "Conv")


def _gemm(fused: _Fused) -> list[NodeProto]:
    return _with_activation(fused, "Gemm")


def _product(fused: _Fused) -> list[NodeProto]:
    """Return a product of matrices, with the transposes and the factor that it has."""
    if fused.attributes.get("transBatchA") or fused.attributes.get("transBatchB"):
        raise ValueError("FusedMatMul has no standard form with transposed batches")
    made = []
    operands = list(fused.node.input)
    for at, side in enumerate("AB"):
        rank = fused.ranks[operands[at]]
        if fused.attributes.get(f"trans{side}") and rank > 1:
            order = [*range(rank - 2), rank - 1, rank - 2]
            made.append(
                helper.make_node("Transpose", [operands[at]], [f"transposed_{side}"], perm=order)
            )
            operands[at] = f"transposed_{side}"
    alpha = float(fused.attributes.get("alpha", 1.0))
    output = fused.node.output[0]
    if alpha == 1.0:
        return [*made, helper.make_node("MatMul", operands, [output])]
    made.append(helper.make_node("MatMul", operands, ["product"]))
    factor = fused.constant("alpha", alpha)
    return [*made, helper.make_node("Mul", ["product", factor], [output])]


def _gelu(fused: _Fused) -> list[NodeProto]:
    """Return Gelu, exact or by tanh, after the sum with a bias."""
    approximate = "tanh" if fused.node.op_type == "FastGelu" else "none"
    operands, output = [each for each in fused.node.input if each], fused.node.output[0]
    if len(operands) == 1:
        return [helper.make_node("Gelu", operands, [output], approximate=approximate)]
    return [
        helper.make_node("Add", operands, ["sum"]),
        helper.make_node("Gelu", ["sum"], [output], approximate=approximate),
    ]


def _quick_gelu(fused: _Fused) -> list[NodeProto]:
    (operand,), output = fused.node.input, fused.node.output[0]
    factor = fused.constant("alpha", float(fused.attributes.get("alpha", 1.702)))
    return [
        helper.make_node("Mul", [operand, factor], ["scaled"]),
        helper.make_node("Sigmoid", ["scaled"], ["gate"]),
        helper.make_node("Mul", [operand, "gate"], [output]),
    ]


def _skip_layer_normalization(fused: _Fused) -> list[NodeProto]:
    operand, skip, gamma, *others = fused.node.input
    beta, bias = [*others, "", ""][:2]
    output, *extra = fused.node.output
    if any(extra[: _SUM_OUTPUT - 1]):
        raise ValueError(f"{fused.node.op_type} has no standard form with a mean as output")
    total = extra[_SUM_OUTPUT - 1] if len(extra) == _SUM_OUTPUT else ""
    total = total or "sum"
    skipped = "skipped" if bias else total
    return [
        helper.make_node("Add", [operand, skip], [skipped]),
        *([helper.make_node("Add", [skipped, bias], [total])] if bias else []),
        helper.make_node(
            "LayerNormalization",
            [total, gamma, *([beta] if beta else [])],
            [output],
            axis=-1,
            epsilon=float(fused.attributes.get("epsilon", 1e-12)),
        ),
    ]


_FORMS: Mapping[str, Callable[[_Fused], Sequence[NodeProto]]] = {
    "BiasGelu": _gelu,
    "FastGelu": _gelu,
    "FusedConv": _convolution,
    "FusedGemm": _gemm,
    "FusedMatMul": _product,
    "Gelu": _gelu,
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _skip_layer_normalization,
}
