"""Rules about the rate of open loops: whether the server and its connections keep up."""

import math
from dataclasses import dataclass

from typing_extensions import override

from inferometer_loadgen.record.backlog import Unanswered
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.verdict.measurement import (
    Measurement,
    ScenarioConditions,
    Violation,
    Violations,
)

ACHIEVED_LIMIT = 0.99
BACKLOG_SPAN = 0.75
"""Share of the window from the middle of its first quarter to the middle of its last."""
_CERTAIN_DEVIATIONS = 3.0
"""Standard deviations by which two numbers of unanswered queries may differ by chance."""
_POSSIBLE_DEVIATIONS = 1.5
"""Deviations that chance exceeds once in fifteen times; more than that is worth a caution."""
CONNECTION_WAIT_LIMIT = 0.01
_CUT_OFF = frozenset({End.INTERRUPTED, End.SERVER_LOST, End.WORKER_LOST, End.DECIDED})
"""Ends at which outstanding queries are dropped."""


def achieved_rate(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the server does not keep up with the schedule.

    If it does not, the number of unanswered queries grows by the deficit, and answering them takes
    as much longer. Failed queries count as answered here; `error_rate` judges them.
    """
    growth = _backlog_growth(measurement)
    if growth is not None and growth.exceeds(_CERTAIN_DEVIATIONS):
        scheduled = measurement.step.scheduled_qps or 0.0
        yield Violation(
            f"The server completed {scheduled * growth.achieved:.5g} of {scheduled:.5g} scheduled "
            f"queries a second in this window ({growth.share}); at least 99 % is required. "
            f"{growth}.",
            growth.share,
            "99 %",
        )


def growing_backlog(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the server may not keep up, but too few queries show it."""
    growth = _backlog_growth(measurement)
    if (
        growth is not None
        and growth.exceeds(_POSSIBLE_DEVIATIONS)
        and not growth.exceeds(_CERTAIN_DEVIATIONS)
    ):
        yield Violation(
            f"The server may not keep up with the schedule: it seems to complete {growth.share} of "
            f"it; at least 99 % is required. {growth}. With so few queries, this may be chance.",
            growth.share,
            "99 %",
        )


@dataclass(frozen=True, slots=True)
class _BacklogGrowth:
    """Change of the number of unanswered queries over a window."""

    unanswered: Unanswered
    meanwhile: float
    """Number of queries scheduled between the two observations."""

    @property
    def achieved(self) -> float:
        """Share of the schedule that was completed meanwhile; 0 if the backlog grew by more."""
        growth = self.unanswered.late - self.unanswered.early
        return max(0.0, 1 - growth / self.meanwhile)

    @property
    def share(self) -> str:
        """The same, in percent."""
        return f"{100 * self.achieved:.1f} %"

    def exceeds(self, deviations: float) -> bool:
        """Return whether it is more than 1 % of the schedule, and more than chance explains.

        If the server keeps up, the number of unanswered queries is Poisson, however long its
        answers take.
        """
        early, late = self.unanswered.early, self.unanswered.late
        least = max((1 - ACHIEVED_LIMIT) * self.meanwhile, deviations * math.sqrt(early + late))
        return late - early > least

    @override
    def __str__(self) -> str:
        return (
            f"A median of {self.unanswered.early} queries were unanswered in the first quarter of "
            f"the window, {self.unanswered.late} in the last"
        )


def _backlog_growth(measurement: Measurement) -> _BacklogGrowth | None:
    step = measurement.step
    meanwhile = BACKLOG_SPAN * (step.counts.scheduled or 0)
    is_left_over = step.drain_nanoseconds > (1 - ACHIEVED_LIMIT) * step.duration_nanoseconds
    if not step.scheduled_qps or not meanwhile or measurement.end in _CUT_OFF or not is_left_over:
        return None
    return _BacklogGrowth(measurement.unanswered, meanwhile)


def connection_wait(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if many queries waited for a free connection."""
    counts = measurement.step.counts
    due = counts.scheduled or 0
    if counts.waited_for_connection > CONNECTION_WAIT_LIMIT * due:
        share = f"{100 * counts.waited_for_connection / due:.3g} %"
        yield Violation(
            f"{counts.waited_for_connection} of {due} queries ({share}) were due while no "
            "connection was free; the limit is 1 %.",
            share,
            "1 %",
            counts.waited_for_connection / due / CONNECTION_WAIT_LIMIT,
        )
