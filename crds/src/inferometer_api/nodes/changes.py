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
class MeasuredFigure:
    """A figure with the measurement that has it."""

    figure: NodeFigure
    document: NodeCharacteristics


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """A figure, next to its earlier values."""

    earlier: tuple[NodeFigure, ...]
    """The newest last, at least one: those of measurements without cautions, if there are any."""
    now: NodeFigure
    day: str
    """On which the newest of them was measured."""

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
        return abs(self.share) > least_change and is_beyond(self.now, self.earlier)


def compare_since(
    history: Sequence[NodeCharacteristics], now: NodeCharacteristics
) -> Iterator[FigureComparison]:
    """Yield each figure that an earlier measurement has too, and is not zero there.

    `history` has the earliest measurement first. One may have only some figures: each is compared
    with those that have it.
    """
    known: dict[_Key, list[MeasuredFigure]] = {}
    for document in history:
        for figure in document.figures:
            known.setdefault(_key(figure), []).append(MeasuredFigure(figure, document))
    for figure in now.figures:
        found = undisturbed(known.get(_key(figure), ()))
        if found and found[-1].figure.value:
            earlier = tuple(each.figure for each in found)
            yield FigureComparison(earlier, figure, found[-1].document.started_at[:10])


def undisturbed(found: Sequence[MeasuredFigure]) -> Sequence[MeasuredFigure]:
    """Return the figures of measurements without cautions; if all have some, the last one."""
    return [each for each in found if not each.document.cautions] or found[-1:]


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


def is_beyond(figure: NodeFigure, earlier: Sequence[NodeFigure]) -> bool:
    """Return whether an interval is outside the range of all earlier ones.

    If one of them is not known, nothing is shown.
    """
    lows = [each.low for each in earlier if each.low is not None]
    highs = [each.high for each in earlier if each.high is not None]
    if figure.low is None or figure.high is None or min(len(lows), len(highs)) < len(earlier):
        return False
    return figure.low > max(highs) or figure.high < min(lows)


def _key(figure: NodeFigure) -> _Key:
    return figure.name, tuple(sorted(figure.setting.items()))
