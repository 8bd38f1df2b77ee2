"""Was there a time in which nothing was answered, and who stood still in it?

In a closed loop nothing is sent meanwhile: whoever would have come is in no percentile (coordinated
omission). One function for each rule of `rules.RULES` that speaks of it.
"""

import math
from typing import NamedTuple

from inferometer_api.results.result import Step, nanoseconds_at
from inferometer_loadgen.schedule.steps import SECOND_NS, Closed
from inferometer_loadgen.verdict.breaches import (
    USUAL_PERCENTILE,
    Breach,
    Broken,
    Conditions,
    Measurement,
    in_ms,
    seconds,
)
from inferometer_loadgen.verdict.breaches_of_client import processes

STALL_NS = SECOND_NS
STALL_BY_CHANCE = 0.001
"""How often a server with exponential latencies may be said to have stood still."""


class _Silence(NamedTuple):
    """The longest time without an answer, where it is too long; and how much was the client's."""

    length_ns: int
    limit_ns: int
    usual_ns: int
    """The P99 of the latency."""
    client_ns: int

    @property
    def is_the_clients(self) -> bool:
        """Whether the load generator itself stood still for most of it."""
        return 2 * self.client_ns >= self.length_ns


def server_stall(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where a closed loop waited for a server that stood still, and so sent nothing."""
    step = measurement.step
    timeouts = step.counts.errors.get("timeout", 0)
    silence = _silence(measurement)
    if silence is not None and silence.is_the_clients:
        return
    if timeouts and isinstance(measurement.plan.loop, Closed):
        queries = "query" if timeouts == 1 else "queries"
        yield Breach(
            f"{timeouts} {queries} had no answer within load.requestTimeoutMilliseconds, and while "
            f"the server was waited for, the clients concerned sent no others.",
            f"{timeouts} timed out",
            "0 timed out",
        )
    elif silence is not None:
        who, meanwhile = _silent(step)
        yield Breach(
            f"{who} for {seconds(silence.length_ns)} beside a P99 of {in_ms(silence.usual_ns)}, "
            f"and what {meanwhile} and is in no percentile.",
            seconds(silence.length_ns),
            seconds(silence.limit_ns),
        )


def client_stall(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where in a closed loop the load generator stood still, and took up no answer."""
    silence = _silence(measurement)
    if silence is not None and silence.is_the_clients:
        yield Breach(
            f"The load generator itself stood still for {seconds(silence.client_ns)}: it took up "
            f"no answer for {seconds(silence.length_ns)} beside a P99 of "
            f"{in_ms(silence.usual_ns)}, and what would have come meanwhile was never sent and is "
            f"in no percentile.",
            seconds(silence.length_ns),
            seconds(silence.limit_ns),
        )


def _silence(measurement: Measurement) -> _Silence | None:
    """Return the longest silence of a closed loop, None where it may be as long."""
    step = measurement.step
    usual = nanoseconds_at(step.latency, USUAL_PERCENTILE)
    if not isinstance(measurement.plan.loop, Closed) or step.latency is None or usual is None:
        return None
    length = step.longest_silence_nanoseconds or 0
    limit = _longest_by_chance(usual, step.latency.count)
    if length < limit:
        return None
    # A silence of a fleet is one of all its workers: it is theirs only where each stood still.
    drove = [facts for facts, part in processes(step) if part]
    client = min((facts.wake_up_lag_max_nanoseconds or 0 for facts in drove), default=0)
    return _Silence(length, limit, usual, client)


def _silent(step: Step) -> tuple[str, str]:
    """Return what was not, and what became of the queries of that time.

    Where some failed nobody knows which: a server that refuses at once is as silent.
    """
    if step.counts.failed:
        return "No query was answered well", "came meanwhile failed, or was never sent,"
    return "No query was answered", "would have come meanwhile was never sent"


def _longest_by_chance(usual: int, count: int) -> int:
    """Return what the greatest of so many latencies is to exceed, beside their P99.

    With exponential latencies of mean m the P99 is m ln 100, and one of n exceeds m ln(n / p) with
    probability p at most.
    """
    chance = math.log(count / STALL_BY_CHANCE) / math.log(100 / (100 - USUAL_PERCENTILE))
    return max(usual + STALL_NS, round(chance * usual))
