"""Benchmark cases as data: the sides to measure, their turns, and the rows of the table.

Cases are data: a new one is a `Case` in `cases.py` and nothing else. Each repeat starts fresh
processes, and then its sides take turns, so that what disturbs the machine disturbs all alike.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Goal

Figures = Mapping[str, float]
"""What one turn of one side measured: by the figure's name, in the figure's unit."""

Turn = Callable[[], Figures]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a case is measured."""

    server_core: int | None
    """The core of whatever serves or computes; None if cores cannot be chosen."""
    client_core: int | None
    folder: Path
    """Empty, and gone afterwards."""
    turn_seconds: float
    """How long a turn that is measured by time lasts."""


class PeerMissingError(RuntimeError):
    """A side cannot be run on this machine; the message says what is missing and how to get it."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of those who are measured side by side."""

    name: str
    require: Callable[[], None] = lambda: None
    """Raises PeerMissingError if this side cannot be run here."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a row's figure comes from."""

    side: str
    figure: str


@dataclass(frozen=True, slots=True)
class Unit:
    """How a figure is written."""

    suffix: str
    digits: int
    """Decimals."""
    scale: float = 1.0
    """What a figure is multiplied by before it is written."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a case's table."""

    what: str
    ours: Source
    unit: Unit
    peer: Source | None = None
    goal: Goal = ()


@dataclass(frozen=True, slots=True)
class Case:
    """Something measured next to its peers in one run."""

    name: str
    title: str
    text: str
    """What is measured, how, and why that is fair: one paragraph."""
    commands: tuple[str, ...]
    """What can be typed to see the same by hand."""
    sides: tuple[Side, ...]
    stage: Callable[[Place, frozenset[str]], AbstractContextManager[Mapping[str, Turn]]]
    """Starts fresh processes for the sides named, and gives each one's turn."""
    rows: tuple[Row, ...]
    minutes: float
    """About how long it takes on two cores, by its own repeats and seconds."""
    repeats: int = 5
    """Default number of repeats; less than 5 if more repeats add no information."""
    seconds: float = 3.0
    """Default length of a turn that is measured by time."""
    rounds: int = 1
    """How many turns each side has within a repeat; its figure there is the median of them."""
    is_pinned: bool = True
    """Whether the sides have a core each; else all run wherever the kernel lets them."""


Taken = Mapping[Source, tuple[float, ...]]
"""The figures of a case: one for each repeat."""
