"""The canary before a suite: a few figures of a node, measured again, and what they show."""

from collections.abc import Sequence
from itertools import groupby

from inferometer_api.nodes.changes import (
    FigureComparison,
    cautions_of,
    compare_since,
    reservations,
)
from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.wording import as_sentence

CANARY_PRIMITIVES = ("timer", "pageFault", "gemm (onnxruntime, FP32)")
"""What a canary measures: clock, kernel and CPU. Together they take 5 s."""
CANARY_CHANGE = 0.1
"""The least change that a canary reports."""
_SHOWN_CHANGES = 5


def canary_changes(
    history: Sequence[NodeCharacteristics], now: NodeCharacteristics
) -> list[FigureComparison]:
    """Return the figures that have changed, those with the newest earlier value first."""
    found = [each for each in compare_since(history, now) if each.is_change(CANARY_CHANGE)]
    return sorted(found, key=lambda each: each.day, reverse=True)


def canary_sentences(
    node: str, history: Sequence[NodeCharacteristics], now: NodeCharacteristics
) -> str:
    """Return what a canary shows of a node: its changes, none, or that nothing can be compared."""
    changes = canary_changes(history, now)
    if not changes:
        return unchanged_sentences(node, history, now)
    by_day = groupby(changes[:_SHOWN_CHANGES], key=lambda each: each.day)
    words = "; ".join(f"since {day}: {', '.join(map(_worded, of_day))}" for day, of_day in by_day)
    more = ", ..." if len(changes) > _SHOWN_CHANGES else ""
    sentence = f"Before the suite {node} had changed {words}{more}."
    return f"{sentence} {reservations(changes, history, now)}".rstrip()


def unchanged_sentences(
    node: str, history: Sequence[NodeCharacteristics], now: NodeCharacteristics
) -> str:
    """Return what a canary shows of a node none of whose figures has changed."""
    compared = list(compare_since(history, now))
    if not compared:
        why = "none of the canary's figures was measured both now and before"
        return unknown_sentence(node, why)
    days = " and ".join(sorted({each.day for each in compared}))
    cautions = cautions_of(history, now)
    doubt = f" A measurement has cautions: {cautions}" if cautions else ""
    return (
        f"Before the suite {node} had not changed since {days} (compared figures: {len(compared)}; "
        f"a change is above {100 * CANARY_CHANGE:.0f} %, and beyond all earlier intervals).{doubt}"
    )


def unknown_sentence(node: str, why: str) -> str:
    """Return that a canary shows nothing of a node, with the reason."""
    return f"Whether {node} has changed is not known: {as_sentence(why)}"


def _worded(change: FigureComparison) -> str:
    name = " ".join((change.now.name, *change.now.setting.values()))
    return f"{name} {100 * change.share:+.1f} %"
