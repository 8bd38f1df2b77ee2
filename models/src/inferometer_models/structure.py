"""Compares the work of a full graph with that of its light one."""

from collections import Counter
from collections.abc import Iterable, Mapping

from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
)

DATA_OPERATORS = frozenset({"Constant", "ConstantOfShape"})
"""Operators that only hold data: they run once, while the graph is loaded."""
MOST_REPORTED = 5
"""So many differences of one kind are named, the others counted."""


def operator_counts(model: ModelProto) -> Counter[str]:
    """Count the operators of all graphs of `model` without those that only hold data.

    Constant and ConstantOfShape are left out: they run once, while the graph is loaded.
    """
    nodes = (node for graph in _graphs(model.graph) for node in graph.node)
    return Counter(node.op_type for node in nodes if node.op_type not in DATA_OPERATORS)


def differences(full: ModelProto, light: ModelProto) -> tuple[str, ...]:
    """Return a sentence for each way in which `light` would not run as `full` does.

    Compared are operators and how often each occurs, the order and wiring of the nodes, the names,
    datatypes and shapes of weights, inputs and outputs. None: the structure is the same.
    """
    return (
        *_unequal("operator", _written(operator_counts(full)), _written(operator_counts(light))),
        *_unequal("weight", _weights(full), _weights(light)),
        *_unequal("input", _interface(full.graph.input), _interface(light.graph.input)),
        *_unequal("output", _interface(full.graph.output), _interface(light.graph.output)),
        *_first_rewired(_wiring(full), _wiring(light)),
    )


def _written(counts: Counter[str]) -> dict[str, str]:
    return {operator: str(count) for operator, count in counts.items()}


def _graphs(graph: GraphProto) -> list[GraphProto]:
    """Return `graph` and all graphs inside its nodes (the branches of If, the body of Loop)."""
    found = [graph]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                found += _graphs(attribute.g)
            elif attribute.type == AttributeProto.GRAPHS:
                for inner in attribute.graphs:
                    found += _graphs(inner)
    return found


def _weights(model: ModelProto) -> dict[str, str]:
    """Give each weight, stored or external, its datatype and shape in words."""
    return {
        tensor.name: _tensor(tensor.data_type, tensor.dims)
        for graph in _graphs(model.graph)
        for tensor in graph.initializer
    }


def _interface(values: Iterable[ValueInfoProto]) -> dict[str, str]:
    """Give each input or output its datatype and shape in words."""
    return {
        value.name: _tensor(
            value.type.tensor_type.elem_type,
            [
                dim.dim_param or (dim.dim_value if dim.HasField("dim_value") else "?")
                for dim in value.type.tensor_type.shape.dim
            ],
        )
        for value in values
    }


def _tensor(data_type: int, dims: Iterable[int | str]) -> str:
    return f"{TensorProto.DataType.Name(data_type)} {'x'.join(map(str, dims)) or 'scalar'}"


def _wiring(model: ModelProto) -> list[str]:
    """Write each node of all graphs as one line."""
    return [_node(node) for graph in _graphs(model.graph) for node in graph.node]


def _node(node: NodeProto) -> str:
    return f"{node.op_type}({', '.join(node.input)}) -> {', '.join(node.output)}"


def _unequal(kind: str, full: Mapping[str, str], light: Mapping[str, str]) -> list[str]:
    """Name what only one side has or both have otherwise; "absent" stands for nothing."""
    names = [
        name for name in sorted(full.keys() | light.keys()) if full.get(name) != light.get(name)
    ]
    sentences = [
        f"{kind} {name}: {full.get(name, 'absent')} in the full graph, "
        f"{light.get(name, 'absent')} in the light one."
        for name in names[:MOST_REPORTED]
    ]
    more = len(names) - len(sentences)
    return [*sentences, f"{kind}: {more} more differences."] if more else sentences


def _first_rewired(full: list[str], light: list[str]) -> list[str]:
    """Name the first node that stands elsewhere or is wired otherwise."""
    for position, (one, other) in enumerate(zip(full, light, strict=False)):
        if one != other:
            return [f"node {position}: {one} in the full graph, {other} in the light one."]
    return []
