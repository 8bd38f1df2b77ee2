"""Spans of several profilers on one timeline, and their parents."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum


class Level(IntEnum):
    """The depth of a span in the stack."""

    MODEL = 0
    LAYER = 1
    KERNEL = 2


@dataclass(frozen=True, slots=True)
class Span:
    """An interval in which something ran; times are in ns of one clock."""

    id: int
    name: str
    level: Level
    start_ns: int
    end_ns: int
    parent: int | None = None
    correlation: int | None = None
    """What the launch and the execution of an asynchronous call have in common."""
    is_launch: bool = False
    """Whether it is the launch of an asynchronous call, which its execution outlives."""


@dataclass(frozen=True, slots=True)
class Parents:
    """Spans with their parents, and those whose parent is not known."""

    spans: tuple[Span, ...]
    ambiguous: tuple[int, ...]
    """IDs of spans within several of the level above: a serial run would show which."""
    orphans: tuple[int, ...]
    """IDs of spans below the model that lie in none of the level above."""


def with_parents(spans: Iterable[Span]) -> Parents:
    """Return spans with their parents: those of the level above whose interval contains theirs.

    The execution of an asynchronous call has the parent of its launch (XSP, section III-A).
    """
    ordered = sorted(spans, key=lambda span: (span.start_ns, -span.end_ns, span.level))
    active: dict[Level, list[Span]] = {level: [] for level in Level}
    found: dict[int, list[int]] = {}
    for span in ordered:
        if span.level > Level.MODEL:
            above = Level(span.level - 1)
            active[above] = [each for each in active[above] if each.end_ns > span.start_ns]
            found[span.id] = [each.id for each in active[above] if each.end_ns >= span.end_ns]
        active[span.level].append(span)
    launches = {span.correlation: span.id for span in ordered if span.is_launch}
    for span in ordered:
        launch = launches.get(span.correlation) if span.correlation is not None else None
        if launch is not None and not span.is_launch:
            found[span.id] = found[launch]
    return Parents(
        spans=tuple(_with_parent(span, found.get(span.id, [])) for span in ordered),
        ambiguous=tuple(key for key, parents in found.items() if len(parents) > 1),
        orphans=tuple(key for key, parents in found.items() if not parents),
    )


def _with_parent(span: Span, parents: Sequence[int]) -> Span:
    return replace(span, parent=parents[0]) if len(parents) == 1 else span
