"""Nodes whose figures stand apart from those of the other nodes.

The rule is the modified z-score (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993): a
node is an outlier if its median lies more than 3.5 scaled median absolute deviations from the
median over all nodes, and by more than 3 %. Logarithms are used because figures are compared by
their ratios. With fewer than 4 nodes none is judged. Nodes with other conditions than most are
shown with them, and neither judged nor part of the median; only the class of a node may differ.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from inferometer_results.store.comparability import differing

FEWEST_NODES = 4
MOST_DEVIATIONS = 3.5
LEAST_CHANGE = 0.03
_MAY_DIFFER = frozenset({"node class"})
_SCALE = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""


@dataclass(frozen=True, slots=True)
class NodeMedian:
    """The median of a figure on one node, and how it compares with the other nodes."""

    node: str
    median: float
    count: int
    ratio: float
    """To the median over all nodes."""
    deviations: float | None
    """The modified z-score; None if it is not judged. Infinite if all others agree exactly."""
    differing: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The conditions in which it differs from most nodes: theirs, and its own."""

    @property
    def is_outlier(self) -> bool:
        """Whether it stands apart."""
        if self.deviations is None:
            return False
        is_far = abs(math.log(self.ratio)) > math.log1p(LEAST_CHANGE)
        return is_far and abs(self.deviations) > MOST_DEVIATIONS


@dataclass(frozen=True, slots=True)
class ComparedNodes:
    """The measurements of each node that are compared, and the conditions that differ."""

    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    differing: Mapping[str, Mapping[str, tuple[str, str]]]
    """By node, as `NodeMedian` has them."""

    @property
    def apart(self) -> frozenset[str]:
        """Return the nodes that are not judged with the others."""
        return frozenset(node for node, found in self.differing.items() if set(found) - _MAY_DIFFER)


def compared_nodes(
    rows: Sequence[Mapping[str, Any]], conditions: Mapping[str, Mapping[str, str]]
) -> ComparedNodes:
    """Return the measurements of each node under the conditions of most nodes.

    `rows` come newest first, `conditions` are those of their keys. Of a node without a measurement
    under these conditions, those under the conditions of its newest one are taken.
    """
    shared = {
        key: frozenset((name, text) for name, text in found.items() if name not in _MAY_DIFFER)
        for key, found in conditions.items()
    }
    by_node: dict[str, dict[frozenset[tuple[str, str]], list[Mapping[str, Any]]]] = {}
    for row in rows:
        group = shared.get(row["key"], frozenset({("key", row["key"])}))
        by_node.setdefault(row["node"], {}).setdefault(group, []).append(row)
    usual = Counter(group for groups in by_node.values() for group in groups).most_common(1)
    chosen = {
        node: groups[usual[0][0]] if usual[0][0] in groups else next(iter(groups.values()))
        for node, groups in by_node.items()
    }
    of_most = Counter(
        found[0]["key"] for node, found in chosen.items() if usual[0][0] in by_node[node]
    ).most_common(1)
    return ComparedNodes(
        chosen,
        {
            node: differing(conditions.get(of_most[0][0], {}), conditions.get(found[0]["key"], {}))
            for node, found in chosen.items()
        },
    )


def node_figures(
    values: Mapping[str, Sequence[float]], apart: Collection[str] = ()
) -> list[NodeMedian]:
    """Return each node that has positive values, in the order of their medians.

    Those apart are neither judged nor part of the median over all nodes, unless all are.
    """
    positive = {node: [value for value in found if value > 0] for node, found in values.items()}
    logs = {node: math.log(median(found)) for node, found in positive.items() if found}
    if not logs:
        return []
    judged = [value for node, value in logs.items() if node not in apart]
    middle = median(judged or logs.values())
    spread = _SCALE * median(abs(value - middle) for value in judged or logs.values())
    is_judged = len(judged) >= FEWEST_NODES
    return [
        NodeMedian(
            node,
            math.exp(value),
            len(positive[node]),
            math.exp(value - middle),
            _deviations(value - middle, spread) if is_judged and node not in apart else None,
        )
        for node, value in sorted(logs.items(), key=lambda each: (each[1], each[0]))
    ]


def _deviations(change: float, spread: float) -> float:
    if spread:
        return change / spread
    return math.copysign(math.inf, change) if change else 0.0
