"""What does a search for the peak ask of a probe, and when is a probe decided?"""

import math
from dataclasses import dataclass
from typing import Literal

from inferometer_api.spec.mlperf import CONFIDENCE
from inferometer_loadgen.verdict.early_stopping import max_overshoots, required_queries

Decision = Literal["Overshoots", "EnoughQueries", "Unfinished", "Errors"]


@dataclass(frozen=True, slots=True)
class Goal:
    """A percentile in percent, the latency that it must keep, and what a probe may take."""

    percentile: float
    bound_ns: int
    query_limit: int
    """The most queries of a probe: enough that early stopping can pass."""
    max_seconds: float
    """Of a probe."""

    @property
    def share(self) -> float:
        """How many of all queries may be beyond the bound."""
        return 1 - self.percentile / 100

    @property
    def single_queries(self) -> int:
        """How many queries, one at a time, tell the service time."""
        return min(self.query_limit, 2 * required_queries(0, self.percentile))


def make_goal(percentile: float, bound_ns: int, min_queries: int, max_seconds: float) -> Goal:
    """Return the goal; the limit is extended to the least number of queries that can pass."""
    limit = max(min_queries, required_queries(0, percentile))
    return Goal(percentile, bound_ns, limit, max_seconds)


@dataclass(frozen=True, slots=True)
class ObservedCounts:
    """What was counted of a probe until now; failed queries are beyond the bound, too."""

    queries: int
    overshoots: int
    failed: int = 0
    timed_out: int = 0
    """Of those that failed."""

    @property
    def share(self) -> float:
        """Which part was beyond the bound: 0 of no queries."""
        return self.overshoots / max(1, self.queries)

    @property
    def timed(self) -> "ObservedCounts":
        """What was counted of those answered, well or too late: they tell of the server's speed."""
        untimed = self.failed - self.timed_out
        return ObservedCounts(self.queries - untimed, self.overshoots - untimed)


@dataclass(frozen=True, slots=True)
class StepObservation:
    """What is known of a step that is over."""

    seen: ObservedCounts
    decided_by: Decision | None = None
    """How a probe was decided while it went on; None where it was not."""


def decide(percentile: float, query_limit: int, seen: ObservedCounts) -> Decision | None:
    """Tell how a probe is decided; None: not yet.

    More overshoots than early stopping allows of the whole query limit decide that it does not
    keep the bound; so many queries that early stopping passes now, that it does.
    """
    most = max_overshoots(query_limit, percentile)
    if most is None or seen.overshoots > most:
        return "Errors" if seen.failed > seen.overshoots - seen.failed else "Overshoots"
    if seen.queries >= required_queries(seen.overshoots, percentile):
        return "EnoughQueries"
    return None


def exceeds_share(seen: ObservedCounts, share: float) -> bool:
    """Whether so many overshoots show, with 99 % confidence, that more than `share` are."""
    if seen.overshoots <= share * seen.queries:
        return False
    at_most_fewer = sum(
        math.exp(
            math.lgamma(seen.queries + 1)
            - math.lgamma(count + 1)
            - math.lgamma(seen.queries - count + 1)
            + count * math.log(share)
            + (seen.queries - count) * math.log1p(-share)
        )
        for count in range(seen.overshoots)
    )
    return at_most_fewer >= CONFIDENCE
