"""The primitives of the node benchmark, and the durations of calls."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from inferometer_api.nodes.characteristics import NodeFigure

_LEAST_SECONDS = 0.02


class NotMeasurableError(RuntimeError):
    """A figure cannot be measured here; the message is a clause that says why."""


@dataclass(frozen=True, slots=True)
class NodeProbe:
    """A primitive of the node benchmark, which measures one or more figures."""

    name: str
    measure: Callable[[], Sequence[NodeFigure]]
    """Raises NotMeasurableError."""
    figures: tuple[str, ...] = ()
    """Names of its figures; empty if the probe's name starts with that of its only figure."""

    def has(self, begin: str) -> bool:
        """Return whether its name or one of `figures` starts with `begin`."""
        return any(each.startswith(begin) for each in (self.name, *self.figures))


@dataclass(slots=True)
class Findings:
    """The figures measured so far, and why others are missing."""

    figures: list[NodeFigure] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    """Why a probe could not measure, by its name; a clause without a full stop."""

    def add(self, probe: NodeProbe) -> None:
        """Run a probe and add its figures, or the reason why it cannot measure."""
        try:
            self.figures += probe.measure()
        except (NotMeasurableError, OSError, MemoryError) as error:
            self.unavailable[probe.name] = str(error).rstrip(".") or type(error).__name__


def seconds_of(work: Callable[[], object]) -> float:
    """Return the duration of one call in seconds, at least 1 ns."""
    began = time.perf_counter_ns()
    work()
    return max(1, time.perf_counter_ns() - began) / 1e9


def seconds_per_call(work: Callable[[], object]) -> float:
    """Return the mean duration of a call in seconds, over as many calls as take about 20 ms.

    Two calls before them are not counted: one warms up, and one determines their number.
    """
    work()
    times = max(1, round(_LEAST_SECONDS / seconds_of(work)))
    return seconds_of(lambda: [work() for _ in range(times)]) / times


def seconds_per_repeat(work: Callable[[int], object]) -> float:
    """Return the duration of one repeat in seconds; `work(n)` makes n repeats in one call.

    n is doubled from 1 until a call takes at least 20 ms, and only that call counts.
    """
    times = 1
    while (seconds := seconds_of(partial(work, times))) < _LEAST_SECONDS:
        times *= 2
    return seconds / times
