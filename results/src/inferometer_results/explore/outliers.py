"""Nodes whose figures stand apart from those of the other nodes.

The rule is the modified z-score (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993): a
node is an outlier if its median lies more than 3.5 scaled median absolute deviations from the
median over all nodes, and by more than 3 %. Logarithms are used because figures are compared by
their ratios. With fewer than 4 nodes none is judged.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

FEWEST_NODES = 4
MOST_DEVIATIONS = 3.5
LEAST_CHANGE = 0.03
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

    @property
    def is_outlier(self) -> bool:
        """Whether it stands apart."""
        if self.deviations is None:
            return False
        is_far = abs(math.log(self.ratio)) > math.log1p(LEAST_CHANGE)
        return is_far and abs(self.deviations) > MOST_DEVIATIONS


def node_figures(values: Mapping[str, Sequence[float]]) -> list[NodeMedian]:
    """Return each node that has positive values, in the order of their medians."""
    positive = {node: [value for value in found if value > 0] for node, found in values.items()}
    logs = {node: math.log(median(found)) for node, found in positive.items() if found}
    if not logs:
        return []
    middle = median(logs.values())
    spread = _SCALE * median(abs(value - middle) for value in logs.values())
    is_judged = len(logs) >= FEWEST_NODES
    return [
        NodeMedian(
            node,
            math.exp(value),
            len(positive[node]),
            math.exp(value - middle),
            _deviations(value - middle, spread) if is_judged else None,
        )
        for node, value in sorted(logs.items(), key=lambda each: (each[1], each[0]))
    ]


def _deviations(change: float, spread: float) -> float:
    if spread:
        return change / spread
    return math.copysign(math.inf, change) if change else 0.0
