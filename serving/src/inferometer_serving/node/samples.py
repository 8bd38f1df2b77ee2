"""What a primitive is, and how long calls take."""

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
    """One primitive: measures one figure or several."""

    name: str
    measure: Callable[[], Sequence[NodeFigure]]
    """Raises NotMeasurableError."""
    figures: tuple[str, ...] = ()
    """Names of its figures, unless they equal the begin of its own."""

    def has(self, begin: str) -> bool:
        """Return whether its name, or that of one of its figures, begins so."""
        return any(each.startswith(begin) for each in (self.name, *self.figures))


@dataclass(slots=True)
class Findings:
    """What was found so far."""

    figures: list[NodeFigure] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)

    def add(self, probe: NodeProbe) -> None:
        """Measure, and note why not if that cannot be."""
        try:
            self.figures += probe.measure()
        except (NotMeasurableError, OSError, MemoryError) as error:
            self.unavailable[probe.name] = str(error).rstrip(".") or type(error).__name__


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long a call takes, at least a nanosecond."""
    began = time.perf_counter_ns()
    work()
    return max(1, time.perf_counter_ns() - began) / 1e9


def seconds_per_call(work: Callable[[], object]) -> float:
    """Return how long a call takes on average, over as many calls as take 20 ms.

    A call before them is not counted.
    """
    work()
    times = max(1, round(_LEAST_SECONDS / seconds_of(work)))
    return seconds_of(lambda: [work() for _ in range(times)]) / times


def seconds_per_repeat(work: Callable[[int], object]) -> float:
    """Return how long one of many repeats takes, where one call does as many as it is given.

    The number is doubled until a call takes 20 ms; the calls before that one are not counted.
    """
    times = 1
    while (seconds := seconds_of(partial(work, times))) < _LEAST_SECONDS:
        times *= 2
    return seconds / times
