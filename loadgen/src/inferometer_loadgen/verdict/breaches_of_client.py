"""Was it the load generator itself, or its machine, that was measured?

One function for each rule of `rules.RULES` that speaks of the client.
"""

from collections.abc import Sequence

from inferometer_api.results.lateness import LAG_LEAST_NS, LAG_SHARE_LIMIT, Late, late_at
from inferometer_api.results.result import ClientHealth, Step, nanoseconds_at
from inferometer_loadgen.schedule.steps import SECOND_NS, Closed
from inferometer_loadgen.verdict.breaches import (
    ERROR_RATE_LIMIT,
    USUAL_PERCENTILE,
    Breach,
    Broken,
    Conditions,
    Measurement,
    in_ms,
)

CPU_LIMIT = 0.9
THROTTLED_LIMIT = 0.001
STARVED_LIMIT = 0.1
STARVED_LEAST = 0.01
STEAL_LIMIT = 0.01
CLOCK_JUMP_LIMIT_NS = 5_000_000
WAKE_UP_PERIOD_NS = 5_000_000
"""How often the timer of a closed loop asks for its CPU."""


def dispatch_lag(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the load generator was late at its own schedule."""
    late = late_at(measurement.step, measurement.judged.percentile)
    if late is not None:
        yield Breach(
            f"The load generator itself was late: {_told(late)}.",
            in_ms(late.lag_ns),
            in_ms(late.limit_ns),
        )


def lag_elsewhere(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where it was late at known percentiles other than the one that is judged."""
    asked = measurement.judged.percentile
    late = [each for each in late_percentiles(measurement.step) if each.percentile != asked]
    if late:
        names = [f"P{each.percentile:g}" for each in late]
        *firsts, last = names
        listed = f"{', '.join(firsts)} and {last}" if firsts else last
        yield Breach(
            f"The {listed} {'are' if firsts else 'is'} not the server's alone: {_told(late[0])}.",
            in_ms(late[0].lag_ns),
            in_ms(late[0].limit_ns),
        )


def late_percentiles(step: Step) -> list[Late]:
    """Return the percentiles at which it was late, of those with bounds on both sides."""
    values = step.latency.percentiles if step.latency is not None else []
    known = [value.percentile for value in values if value.is_bounded]
    return [late for percentile in known if (late := late_at(step, percentile)) is not None]


def _told(late: Late) -> str:
    name = f"P{late.percentile:g}"
    return (
        f"the {name} of the dispatch lag is {in_ms(late.lag_ns)}, at most {in_ms(late.limit_ns)} "
        f"is allowed beside a {name} latency of {in_ms(late.latency_ns)}"
    )


def client_throttled(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where a CPU limit let the load generator stand still."""
    throttled = measurement.step.client.throttled_seconds or 0.0
    share = throttled / _seconds(measurement.step)
    if share > THROTTLED_LIMIT:
        yield Breach(
            f"A CPU limit let the load generator stand still for {throttled:.3g} s, "
            f"{100 * share:.3g} % of the measurement; at most 0.1 % is allowed.",
            f"{100 * share:.3g} %",
            "0.1 %",
        )


def client_starved(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the load generator was ready and waited for a CPU that others had."""
    step = measurement.step
    share, waited = max(_wait(step, facts, part) for facts, part in processes(step))
    if share > STARVED_LIMIT:
        told = f"{100 * share:.3g} %" if share <= 1 else "more than 100 %"
        least = "at least " if _is_least(step) else ""
        yield Breach(
            f"The load generator was ready to run and waited {waited:.3g} s for a CPU, "
            f"{least}{told} of the time in which queries were under way; at most 10 % is allowed.",
            told,
            "10 %",
        )
    if isinstance(measurement.plan.loop, Closed):
        kept_waiting = [facts for facts, _ in processes(step) if _waited_for_it(step, facts)]
        yield from _woken_late(measurement, kept_waiting, "The load generator got its CPU")


def processes(step: Step) -> list[tuple[ClientHealth, float]]:
    """Return what became of each process that drove the load, and its part of the queries.

    What is judged together must be of one process: of a fleet `step.client` has the worst of each.
    """
    told = [(each.client, each.queries) for each in step.workers if each.client is not None]
    queries = sum(number for _, number in told) or 1
    return [(facts, number / queries) for facts, number in told] or [(step.client, 1.0)]


def _wait(step: Step, facts: ClientHealth, part: float) -> tuple[float, float]:
    """Return its waiting as a share of the time in which its queries were under way, and in s.

    0 where that is too little to matter. How long queries that failed were under way nobody knows:
    where more failed than may, perhaps all the time, and so the share is what it is at least.
    """
    if step.latency is None or not part:
        return 0.0, 0.0
    waited, failed = facts.runnable_wait_seconds or 0.0, step.counts.failed
    count = part * (step.latency.count + failed)
    under_way = part * step.latency.count * step.latency.mean_nanoseconds / SECOND_NS
    # At low rates that time is short, and the waiting is of all wake-ups, with or without a query.
    least = min(STARVED_LEAST * _seconds(step), count * LAG_LEAST_NS / SECOND_NS)
    if waited <= least:
        return 0.0, 0.0
    longest = _seconds(step)
    known = max(min(under_way, longest), 1e-9)
    return waited / (longest if _is_least(step) else known), waited


def _is_least(step: Step) -> bool:
    """Whether so many queries failed that their time may matter."""
    return step.counts.failed > ERROR_RATE_LIMIT * step.counts.queries


def _woken_late(measurement: Measurement, whose: Sequence[ClientHealth], who: str) -> Broken:
    """Compare how late they are woken with the latency, as the dispatch lag in an open loop."""
    late = max((each.wake_up_lag_nanoseconds or 0 for each in whose), default=0)
    latency = nanoseconds_at(measurement.step.latency, USUAL_PERCENTILE)
    if latency is None:
        return
    limit = max(LAG_LEAST_NS, LAG_SHARE_LIMIT * latency)
    if late > limit:
        yield Breach(
            f"{who} late: the P99 of its timer's lag is {in_ms(late)}, at most {in_ms(limit)} is "
            f"allowed beside a P99 latency of {in_ms(latency)}.",
            in_ms(late),
            in_ms(limit),
        )


def _waited_for_it(step: Step, facts: ClientHealth) -> bool:
    """Tell whether a process' waiting for a CPU suffices to have made its timer as late as it was.

    Of one wake-up in a hundred, that is: beyond a period the next ones are late by the same wait.
    """
    waited, late = facts.runnable_wait_seconds, facts.wake_up_lag_nanoseconds or 0
    wake_ups = _seconds(step) * SECOND_NS / WAKE_UP_PERIOD_NS
    least_ns = (1 - USUAL_PERCENTILE / 100) * wake_ups * min(late, WAKE_UP_PERIOD_NS)
    return waited is None or waited * SECOND_NS >= least_ns


def client_cpu(measurement: Measurement, conditions: Conditions) -> Broken:
    """Yield where the load generator comes near the one core that it, or a worker, can use.

    In a closed loop also where it was busy with its own work when it should have been woken.
    """
    step = measurement.step
    if isinstance(measurement.plan.loop, Closed):
        busy = [facts for facts, _ in processes(step) if not _waited_for_it(step, facts)]
        yield from _woken_late(
            measurement, busy, "By its own work, or stopped from outside, the load generator was"
        )
    if conditions.spins:
        return
    busiest = max([each.client_cpu_seconds for each in step.workers] or [step.client_cpu_seconds])
    cores = busiest / _seconds(step)
    if cores > CPU_LIMIT:
        who = "A worker of the fleet" if step.workers else "The load generator"
        yield Breach(
            f"{who} used {cores:.2f} of the one core that it can use.",
            f"{cores:.2f} cores",
            f"{CPU_LIMIT:g} cores",
        )


def client_steal(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the hypervisor gave the CPUs of the load generator's machine to others."""
    client = measurement.step.client
    stolen = (client.steal_seconds or 0.0) / max(1, client.cpu_count or 0)
    share = stolen / _seconds(measurement.step)
    if share > STEAL_LIMIT:
        yield Breach(
            f"The hypervisor gave {100 * share:.3g} % of the CPU time of the load generator's "
            f"machine to others.",
            f"{100 * share:.3g} %",
            "1 %",
        )


def clock_jump(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the wall clock of the load generator's machine was set."""
    jump_ns = measurement.step.client.clock_jump_nanoseconds
    if abs(jump_ns) > CLOCK_JUMP_LIMIT_NS:
        way = "forwards" if jump_ns > 0 else "backwards"
        yield Breach(
            f"The wall clock of the load generator's machine jumped {way} by "
            f"{in_ms(abs(jump_ns))}.",
            in_ms(abs(jump_ns)),
            in_ms(CLOCK_JUMP_LIMIT_NS),
        )


def _seconds(step: Step) -> float:
    """Return how long window and drain took."""
    return max(1, step.duration_nanoseconds + step.drain_nanoseconds) / SECOND_NS
