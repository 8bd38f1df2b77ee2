"""Comparison of a measurement of a node with earlier ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure

_Key = tuple[str, tuple[tuple[str, str], ...]]
_MEASURED_ONCE = (
    "A figure was measured once before: how far it differs between measurements of an unchanged "
    "node is not known."
)


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """A figure, next to its earlier values."""

    earlier: tuple[NodeFigure, ...]
    """The newest last, at least one. Those before it are of measurements without cautions."""
    now: NodeFigure
    day: str
    """On which the newest earlier value was measured."""

    @property
    def before(self) -> NodeFigure:
        """The newest earlier value."""
        return self.earlier[-1]

    @property
    def share(self) -> float:
        """The change as a share of the value before."""
        return self.now.value / self.before.value - 1

    def is_change(self, least_change: float) -> bool:
        """Return whether it has changed by more than a share, beyond all earlier intervals.

        An interval covers what differs within a measurement. What differs between measurements of
        an unchanged node is seen only in several of them.
        """
        return abs(self.share) > least_change and are_apart(self.now, _range_of(self.earlier))


def compare_since(
    history: Sequence[NodeCharacteristics], now: NodeCharacteristics
) -> Iterator[FigureComparison]:
    """Yield each figure that an earlier measurement has too, and is not zero there.

    `history` has the earliest measurement first. One may have only some figures: each is compared
    with those that have it.
    """
    known: dict[_Key, list[tuple[NodeFigure, NodeCharacteristics]]] = {}
    for document in history:
        for figure in document.figures:
            known.setdefault(_key(figure), []).append((figure, document))
    for figure in now.figures:
        found = known.get(_key(figure))
        if found and found[-1][0].value:
            *others, (newest, document) = found
            undisturbed = (each for each, measured in others if not measured.cautions)
            yield FigureComparison((*undisturbed, newest), figure, document.started_at[:10])


def reservations(
    changes: Sequence[FigureComparison],
    history: Sequence[NodeCharacteristics],
    now: NodeCharacteristics,
) -> str:
    """Return why changes may not be the node's, as sentences; "" if nothing speaks for that.

    What else ran during a measurement changes its figures, too.
    """
    reasons = []
    if any(len(each.earlier) == 1 for each in changes):
        reasons.append(_MEASURED_ONCE)
    found = cautions_of(history, now)
    if found:
        reasons.append(
            f"It may not be the node that changed, for a measurement has cautions: {found}"
        )
    return " ".join(reasons)


def cautions_of(history: Sequence[NodeCharacteristics], now: NodeCharacteristics) -> str:
    """Return the cautions of all measurements, each once, the newest first."""
    documents = (now, *reversed(history))
    return " ".join(dict.fromkeys(text for each in documents for text in each.cautions))


def are_apart(one: NodeFigure, other: NodeFigure) -> bool:
    """Return whether two intervals do not overlap; without both, nothing is shown."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.low > other.high or other.low > one.high


def _range_of(figures: Sequence[NodeFigure]) -> NodeFigure:
    """Return the newest figure with an interval that covers those of all, none if one has none."""
    intervals = [(each.low, each.high) for each in figures]
    lows, highs = zip(*intervals, strict=True)
    is_known = None not in {*lows, *highs}
    covered = {"low": min(lows), "high": max(highs)} if is_known else {"low": None, "high": None}
    return figures[-1].model_copy(update=covered)


def _key(figure: NodeFigure) -> _Key:
    return figure.name, tuple(sorted(figure.setting.items()))
