"""Comparison of two measurements of one node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure

CANARY_PRIMITIVES = ("timer", "pageFault", "gemm (onnxruntime, FP32)")
"""What a canary measures: clock, kernel and CPU. Together they take 5 s."""
CANARY_CHANGE = 0.1
"""The least change that a canary reports."""


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A figure of both measurements whose intervals do not overlap."""

    before: NodeFigure
    now: NodeFigure

    @property
    def share(self) -> float:
        """The change as a share of the value before."""
        return self.now.value / self.before.value - 1


def figure_changes(
    before: NodeCharacteristics, now: NodeCharacteristics, least_change: float
) -> Iterator[FigureChange]:
    """Yield each figure of both that has changed by more than a share."""
    earlier = {_key(each): each for each in before.figures}
    for figure in now.figures:
        known = earlier.get(_key(figure))
        if known is None or not known.value or not are_apart(figure, known):
            continue
        change = FigureChange(known, figure)
        if abs(change.share) > least_change:
            yield change


def changes_since(
    history: Sequence[NodeCharacteristics], now: NodeCharacteristics, least_change: float
) -> Iterator[tuple[NodeCharacteristics, FigureChange]]:
    """Yield each figure that has changed by more than a share, after the measurement before.

    `history` has the earliest measurement first. One may have only some figures: each is compared
    with the newest that has it.
    """
    left = now.figures
    for before in reversed(history):
        rest = now.model_copy(update={"figures": left})
        yield from ((before, each) for each in figure_changes(before, rest, least_change))
        known = {_key(each) for each in before.figures}
        left = [each for each in left if _key(each) not in known]


def reservations(history: Sequence[NodeCharacteristics], now: NodeCharacteristics) -> str:
    """Return why a change may not be the node's, as a sentence; "" if nothing speaks for that.

    What else ran during a measurement changes its figures, too.
    """
    found = dict.fromkeys(
        caution for document in (now, *reversed(history)) for caution in document.cautions
    )
    if not found:
        return ""
    return f"It may not be the node that changed, for a measurement has cautions: {' '.join(found)}"


def are_apart(one: NodeFigure, other: NodeFigure) -> bool:
    """Return whether two intervals do not overlap; without both, nothing is shown."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.low > other.high or other.low > one.high


def _key(figure: NodeFigure) -> tuple[str, tuple[tuple[str, str], ...]]:
    return figure.name, tuple(sorted(figure.setting.items()))
