"""The execution provider of each node of a graph.

ONNX Runtime records its own assignment when the session is made. It counts nodes as they are when
providers take them: after constant folding and the fusions that every provider shares, before
those that one provider makes among its own nodes.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto

_SHAPE_OPERATORS = frozenset({"Shape", "Size"})
_OPERATORS_ADDED_TO_SHAPES = frozenset({"Gather"})
"""What ONNX Runtime adds after a Shape, under names of its own, where it moves a Transpose."""
_SIZE_INPUTS = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Resize": (1, 2, 3),
    "Tile": (1,),
    "Upsample": (1,),
}
"""Which inputs of an operator set how large its output is."""


@dataclass(frozen=True, slots=True)
class AssignedNode:
    """One node of the optimised graph and the provider that runs it."""

    name: str
    operator: str
    provider: str


@dataclass(frozen=True, slots=True)
class GraphPlacement:
    """Where the nodes of a session run."""

    nodes_by_provider: dict[str, int]
    compute_nodes_fell_back: int
    """Nodes that compute on data, and do not run on the requested provider."""


def placement(
    nodes: Iterable[AssignedNode], wanted_provider: str, model: ModelProto
) -> GraphPlacement:
    """Return where the `nodes` of a session run; those that only handle shapes do not fall back."""
    counts: Counter[str] = Counter()
    bookkeeping = bookkeeping_nodes(model)
    named = {each.name for each in model.graph.node}
    fell_back = 0
    for node in nodes:
        counts[node.provider] += 1
        is_bookkeeping = (
            node.name in bookkeeping
            or node.operator in _SHAPE_OPERATORS
            or (node.name not in named and node.operator in _OPERATORS_ADDED_TO_SHAPES)
        )
        fell_back += node.provider != wanted_provider and not is_bookkeeping
    return GraphPlacement(dict(sorted(counts.items())), fell_back)


def bookkeeping_nodes(model: ModelProto) -> frozenset[str]:
    """Return the names of nodes that handle shapes and constants only, not the inputs' data.

    ONNX Runtime keeps such nodes on the CPU on purpose, which is no loss. Nodes with subgraphs
    count as handling data.
    """
    data = _data_tensors(model.graph)
    return frozenset(
        node.name
        for node in model.graph.node
        if node.name and not any(each in data for each in node.output)
    )


def work_depends_on_values(model: ModelProto) -> bool:
    """Return whether the values of a request, and not only its shapes, can set how long it takes.

    So it is where a graph has loops or branches, or where the size of a tensor comes from data.
    """
    data = _data_tensors(model.graph)
    for node in model.graph.node:
        if _has_subgraph(node):
            return True
        sizes = (
            node.input[at] for at in _SIZE_INPUTS.get(node.op_type, ()) if at < len(node.input)
        )
        if any(each in data for each in sizes):
            return True
    return False


def _data_tensors(graph: GraphProto) -> frozenset[str]:
    """Return the tensors that depend on an input otherwise than through Shape or Size."""
    data = {each.name for each in graph.input}
    for node in graph.node:  # in topological order, as ONNX demands
        sees_data = _has_subgraph(node) or any(each in data for each in node.input)
        if sees_data and node.op_type not in _SHAPE_OPERATORS:
            data.update(each for each in node.output if each)
    return frozenset(data)


def _has_subgraph(node: NodeProto) -> bool:
    return any(each.HasField("g") or each.graphs for each in node.attribute)
