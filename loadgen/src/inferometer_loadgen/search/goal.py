"""Goal of a search for the peak, and the decision of its probes."""

import math
from dataclasses import dataclass
from typing import Literal

from inferometer_api.spec.mlperf import CONFIDENCE
from inferometer_loadgen.verdict.early_stopping import max_overshoots, required_queries

Decision = Literal["Overshoots", "EnoughQueries", "Unfinished", "Errors"]


@dataclass(frozen=True, slots=True)
class Goal:
    """A percentile in percent, its latency bound, and the limits of a probe."""

    percentile: float
    bound_ns: int
    query_limit: int
    """Maximum number of queries of a probe; enough for early stopping to pass."""
    max_seconds: float
    """Maximum duration of a probe."""

    @property
    def share(self) -> float:
        """Share of all queries that may exceed the bound."""
        return 1 - self.percentile / 100

    @property
    def single_queries(self) -> int:
        """Number of queries, one at a time, that determine the service time."""
        return min(self.query_limit, 2 * required_queries(0, self.percentile))


def make_goal(percentile: float, bound_ns: int, min_queries: int, max_seconds: float) -> Goal:
    """Return the goal; its query limit is at least the number of queries that can pass."""
    limit = max(min_queries, required_queries(0, percentile))
    return Goal(percentile, bound_ns, limit, max_seconds)


@dataclass(frozen=True, slots=True)
class ObservedCounts:
    """Counts of a probe until now; failed queries exceed the bound as well."""

    queries: int
    overshoots: int
    failed: int = 0
    timed_out: int = 0
    """Number of the failed queries that timed out."""

    @property
    def share(self) -> float:
        """Share beyond the bound; 0 without queries."""
        return self.overshoots / max(1, self.queries)

    @property
    def timed(self) -> "ObservedCounts":
        """Counts of the answered and timed-out queries, which reflect the server's speed."""
        untimed = self.failed - self.timed_out
        return ObservedCounts(self.queries - untimed, self.overshoots - untimed)


@dataclass(frozen=True, slots=True)
class StepObservation:
    """Observation of a step that is over."""

    counts: ObservedCounts
    decided_by: Decision | None = None
    """How a probe was decided while it ran; None if it was not."""


def decide(percentile: float, query_limit: int, counts: ObservedCounts) -> Decision | None:
    """Return how a probe is decided; None: not yet.

    More overshoots than early stopping allows for the whole query limit decide that it does not
    meet the bound. Enough queries for early stopping to pass now decide that it does.
    """
    most = max_overshoots(query_limit, percentile)
    if most is None or counts.overshoots > most:
        return "Errors" if counts.failed > counts.overshoots - counts.failed else "Overshoots"
    if counts.queries >= required_queries(counts.overshoots, percentile):
        return "EnoughQueries"
    return None


def decide_at_end(percentile: float, query_limit: int, counts: ObservedCounts) -> Decision:
    """Return how a probe is decided that is over; Unfinished if it was cut off too soon to say.

    More overshoots than chance explains decide it even if they are few.
    """
    decided = decide(percentile, query_limit, counts)
    if decided is None and exceeds_share(counts, 1 - percentile / 100):
        return "Errors" if counts.failed > counts.overshoots - counts.failed else "Overshoots"
    return decided or "Unfinished"


def exceeds_share(counts: ObservedCounts, share: float) -> bool:
    """Return whether more than `share` of all queries overshoot, with 99 % confidence."""
    if counts.overshoots <= share * counts.queries:
        return False
    at_most_fewer = sum(
        math.exp(
            math.lgamma(counts.queries + 1)
            - math.lgamma(count + 1)
            - math.lgamma(counts.queries - count + 1)
            + count * math.log(share)
            + (counts.queries - count) * math.log1p(-share)
        )
        for count in range(counts.overshoots)
    )
    return at_most_fewer >= CONFIDENCE
