"""Rules about times without any answer in a closed loop, and which side stood still.

A closed loop sends nothing during such a time, so the affected queries are in no percentile
(coordinated omission).
"""

import math
from typing import NamedTuple

from inferometer_api.results.result import nanoseconds_at
from inferometer_api.scenarios.step_setting import Closed
from inferometer_loadgen.schedule.steps import SECOND_NS
from inferometer_loadgen.verdict.measurement import (
    DEFAULT_PERCENTILE,
    Measurement,
    ScenarioConditions,
    Violation,
    Violations,
    format_milliseconds,
    format_seconds,
)
from inferometer_loadgen.verdict.rules.client import load_processes

STALL_NS = SECOND_NS
STALL_BY_CHANCE = 0.001
"""Probability of calling a server with exponential latencies stalled."""


class _LongSilence(NamedTuple):
    """A time without an answer that is too long, and how much of it the client stood still."""

    length_ns: int
    limit_ns: int
    p99_ns: int
    """P99 latency."""
    client_ns: int

    @property
    def is_the_clients(self) -> bool:
        """Whether the load generator itself stood still for most of it."""
        return 2 * self.client_ns >= self.length_ns


def server_stall(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if a closed loop waited for a server that stood still."""
    step = measurement.step
    timeouts = step.counts.errors.get("timeout", 0)
    silence = _long_silence(measurement)
    if silence is not None and silence.is_the_clients:
        return
    if timeouts and isinstance(measurement.plan.loop, Closed):
        queries = "query" if timeouts == 1 else "queries"
        yield Violation(
            f"{timeouts} {queries} had no answer within load.requestTimeoutMilliseconds; none may "
            "time out in a closed loop.",
            f"{timeouts} timed out",
            "0 timed out",
        )
    elif silence is not None:
        # A refusal at once is silent as well, and the failed queries are not known by time.
        answered = "answered successfully" if step.counts.failed else "answered"
        yield Violation(
            f"No query was {answered} for {format_seconds(silence.length_ns)}, with a P99 latency "
            f"of {format_milliseconds(silence.p99_ns)}; the limit is "
            f"{format_seconds(silence.limit_ns)}.",
            format_seconds(silence.length_ns),
            format_seconds(silence.limit_ns),
            silence.length_ns / silence.limit_ns,
        )


def client_stall(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the load generator of a closed loop stood still."""
    silence = _long_silence(measurement)
    if silence is not None and silence.is_the_clients:
        yield Violation(
            f"The load generator itself stood still for {format_seconds(silence.client_ns)}: it "
            f"read no answer for {format_seconds(silence.length_ns)}, with a P99 latency of "
            f"{format_milliseconds(silence.p99_ns)}; the limit is "
            f"{format_seconds(silence.limit_ns)}.",
            format_seconds(silence.length_ns),
            format_seconds(silence.limit_ns),
            silence.length_ns / silence.limit_ns,
        )


def _long_silence(measurement: Measurement) -> _LongSilence | None:
    """Return the longest silence of a closed loop; None if it is within the limit."""
    step = measurement.step
    p99 = nanoseconds_at(step.latency, DEFAULT_PERCENTILE)
    if not isinstance(measurement.plan.loop, Closed) or step.latency is None or p99 is None:
        return None
    length = step.longest_silence_nanoseconds or 0
    limit = _longest_by_chance(p99, step.latency.count)
    if length < limit:
        return None
    # A fleet is silent only if all its workers are, so each must have stood still to be the cause.
    clients = [health for health, share in load_processes(step) if share]
    client = min((health.wake_up_lag_max_nanoseconds or 0 for health in clients), default=0)
    return _LongSilence(length, limit, p99, client)


def _longest_by_chance(p99: int, count: int) -> int:
    """Return the limit of the longest of `count` latencies, in nanoseconds.

    With exponential latencies of mean m, the P99 is m ln 100, and one of n exceeds m ln(n / p) with
    probability p at most.
    """
    chance = math.log(count / STALL_BY_CHANCE) / math.log(100 / (100 - DEFAULT_PERCENTILE))
    return max(p99 + STALL_NS, round(chance * p99))
