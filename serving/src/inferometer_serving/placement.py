"""On which execution provider does each node of a graph run?

ONNX Runtime records its own assignment when the session is made. It counts nodes as they are when
providers take them: after constant folding and the fusions that every provider shares, before
those that one provider makes among its own nodes.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from onnx import ModelProto

_SHAPE_OPERATORS = frozenset({"Shape", "Size"})


@dataclass(frozen=True, slots=True)
class AssignedNode:
    """One node of the optimised graph and the provider that runs it."""

    name: str
    operator: str
    provider: str


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the nodes of a session run."""

    nodes_by_provider: dict[str, int]
    compute_nodes_fell_back: int
    """Nodes that compute on data, and run elsewhere than on the provider that was asked for."""


def placement(
    nodes: Iterable[AssignedNode], wanted_provider: str, bookkeeping: frozenset[str]
) -> Placement:
    """Return where `nodes` run; those named in `bookkeeping` never count as fallen back."""
    counts: Counter[str] = Counter()
    fell_back = 0
    for node in nodes:
        counts[node.provider] += 1
        is_bookkeeping = node.name in bookkeeping or node.operator in _SHAPE_OPERATORS
        fell_back += node.provider != wanted_provider and not is_bookkeeping
    return Placement(dict(sorted(counts.items())), fell_back)


def bookkeeping_nodes(model: ModelProto) -> frozenset[str]:
    """Return the names of nodes that handle shapes and constants only, not the inputs' data.

    ONNX Runtime keeps such nodes on the CPU on purpose, which is no loss. A node handles data where
    any of its inputs depends on an input of the graph otherwise than through Shape or Size. Nodes
    with subgraphs count as handling data.
    """
    with_data = {each.name for each in model.graph.input}
    names: set[str] = set()
    for node in model.graph.node:  # in topological order, as ONNX demands
        has_subgraph = any(each.HasField("g") or each.graphs for each in node.attribute)
        sees_data = has_subgraph or any(each in with_data for each in node.input)
        if sees_data and node.op_type not in _SHAPE_OPERATORS:
            with_data.update(node.output)
        elif node.name:
            names.add(node.name)
    return frozenset(names)
