"""Comparison of two measurements of one node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """A figure, next to its newest earlier value."""

    before: NodeFigure
    now: NodeFigure
    day: str
    """On which the earlier value was measured."""

    @property
    def share(self) -> float:
        """The change as a share of the value before."""
        return self.now.value / self.before.value - 1

    def is_change(self, least_change: float) -> bool:
        """Return whether it has changed by more than a share, with intervals that are apart."""
        return are_apart(self.now, self.before) and abs(self.share) > least_change


def compare_since(
    history: Sequence[NodeCharacteristics], now: NodeCharacteristics
) -> Iterator[FigureComparison]:
    """Yield each figure that an earlier measurement has too, and is not zero there.

    `history` has the earliest measurement first. One may have only some figures: each is compared
    with the newest that has it.
    """
    newest = {
        _key(figure): (figure, document.started_at[:10])
        for document in history
        for figure in document.figures
    }
    for figure in now.figures:
        before, day = newest.get(_key(figure), (None, ""))
        if before is not None and before.value:
            yield FigureComparison(before, figure, day)


def reservations(history: Sequence[NodeCharacteristics], now: NodeCharacteristics) -> str:
    """Return why a change may not be the node's, as a sentence; "" if nothing speaks for that.

    What else ran during a measurement changes its figures, too.
    """
    found = cautions_of(history, now)
    if not found:
        return ""
    return f"It may not be the node that changed, for a measurement has cautions: {found}"


def cautions_of(history: Sequence[NodeCharacteristics], now: NodeCharacteristics) -> str:
    """Return the cautions of all measurements, each once, the newest first."""
    documents = (now, *reversed(history))
    return " ".join(dict.fromkeys(text for each in documents for text in each.cautions))


def are_apart(one: NodeFigure, other: NodeFigure) -> bool:
    """Return whether two intervals do not overlap; without both, nothing is shown."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.low > other.high or other.low > one.high


def _key(figure: NodeFigure) -> tuple[str, tuple[tuple[str, str], ...]]:
    return figure.name, tuple(sorted(figure.setting.items()))
