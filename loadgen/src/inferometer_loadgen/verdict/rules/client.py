"""Rules about the load generator itself and its machine: the figures are the server's."""

from collections.abc import Sequence

from inferometer_api.results.lateness import LAG_LEAST_NS, LAG_SHARE_LIMIT, Late, late_at
from inferometer_api.results.result import ClientHealth, Step, nanoseconds_at
from inferometer_api.scenarios.step_setting import Closed
from inferometer_loadgen.schedule.steps import SECOND_NS
from inferometer_loadgen.verdict.measurement import (
    DEFAULT_PERCENTILE,
    ERROR_RATE_LIMIT,
    Measurement,
    ScenarioConditions,
    Violation,
    Violations,
    format_milliseconds,
)

CPU_LIMIT = 0.9
THROTTLED_LIMIT = 0.001
STARVED_LIMIT = 0.1
STARVED_LEAST = 0.01
STEAL_LIMIT = 0.01
CLOCK_JUMP_LIMIT_NS = 5_000_000
WAKE_UP_PERIOD_NS = 5_000_000
"""Period of the timer by which a closed loop measures how late it is woken."""


def dispatch_lag(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the load generator was late against its own schedule."""
    late = late_at(measurement.step, measurement.judged.percentile)
    if late is not None:
        yield Violation(
            f"The load generator was late: {_lag_clause(late)}.",
            format_milliseconds(late.lag_ns),
            format_milliseconds(late.limit_ns),
            late.lag_ns / late.limit_ns,
        )


def lag_elsewhere(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if it was late at known percentiles other than the judged one."""
    judged = measurement.judged.percentile
    late = [each for each in late_percentiles(measurement.step) if each.percentile != judged]
    if late:
        names = [f"P{each.percentile:g}" for each in late]
        *firsts, last = names
        listed = f"{', '.join(firsts)} and {last}" if firsts else last
        yield Violation(
            f"The {listed} {'include' if firsts else 'includes'} delays of the load generator: "
            f"{_lag_clause(late[0])}.",
            format_milliseconds(late[0].lag_ns),
            format_milliseconds(late[0].limit_ns),
            late[0].lag_ns / late[0].limit_ns,
        )


def late_percentiles(step: Step) -> list[Late]:
    """Return the percentiles at which it was late, of those with bounds on both sides."""
    values = step.latency.percentiles if step.latency is not None else []
    known = [value.percentile for value in values if value.is_bounded]
    return [late for percentile in known if (late := late_at(step, percentile)) is not None]


def _lag_clause(late: Late) -> str:
    name = f"P{late.percentile:g}"
    return (
        f"the {name} of the dispatch lag is {format_milliseconds(late.lag_ns)}; with a {name} "
        f"latency of {format_milliseconds(late.latency_ns)}, the limit is "
        f"{format_milliseconds(late.limit_ns)}"
    )


def client_throttled(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if a CPU limit stopped the load generator."""
    throttled = measurement.step.client.throttled_seconds or 0.0
    share = throttled / _seconds(measurement.step)
    if share > THROTTLED_LIMIT:
        yield Violation(
            f"A CPU limit stopped the load generator for {throttled:.3g} s, {100 * share:.3g} % of "
            "the measurement; the limit is 0.1 %.",
            f"{100 * share:.3g} %",
            "0.1 %",
            share / THROTTLED_LIMIT,
        )


def client_starved(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the load generator was ready to run and waited for a CPU."""
    step = measurement.step
    share, waited = max(_cpu_wait(step, health, part) for health, part in load_processes(step))
    if share > STARVED_LIMIT:
        figure = f"{100 * share:.3g} %" if share <= 1 else "more than 100 %"
        least = "at least " if _is_lower_bound(step) else ""
        yield Violation(
            f"The load generator waited {waited:.3g} s for a CPU, {least}{figure} of the time in "
            "which queries were under way; the limit is 10 %.",
            figure,
            "10 %",
            share / STARVED_LIMIT,
        )
    if isinstance(measurement.plan.loop, Closed):
        waiting = [health for health, _ in load_processes(step) if _explains_lag(step, health)]
        yield from _late_wake_ups(measurement, waiting, "The load generator got its CPU")


def load_processes(step: Step) -> list[tuple[ClientHealth, float]]:
    """Return the health of each process that drove the load, and its share of the queries.

    Figures that are judged together must belong to one process: `step.client` holds the worst of a
    fleet for each figure.
    """
    workers = [(each.client, each.queries) for each in step.workers if each.client is not None]
    queries = sum(number for _, number in workers) or 1
    return [(health, number / queries) for health, number in workers] or [(step.client, 1.0)]


def _cpu_wait(step: Step, health: ClientHealth, part: float) -> tuple[float, float]:
    """Return its waiting as a share of the time with queries under way, and in seconds.

    Both are 0 if the waiting is too short to matter. The time of failed queries is not recorded: if
    more failed than `error_rate` allows, they may have been under way all the time, and the share
    is a lower bound.
    """
    if step.latency is None or not part:
        return 0.0, 0.0
    waited, failed = health.runnable_wait_seconds or 0.0, step.counts.failed
    count = part * (step.latency.count + failed)
    under_way = part * step.latency.count * step.latency.mean_nanoseconds / SECOND_NS
    # At low rates that time is short, and most waiting belongs to wake-ups without a query.
    least = min(STARVED_LEAST * _seconds(step), count * LAG_LEAST_NS / SECOND_NS)
    if waited <= least:
        return 0.0, 0.0
    longest = _seconds(step)
    known = max(min(under_way, longest), 1e-9)
    return waited / (longest if _is_lower_bound(step) else known), waited


def _is_lower_bound(step: Step) -> bool:
    """Return whether so many queries failed that their time may matter."""
    return step.counts.failed > ERROR_RATE_LIMIT * step.counts.queries


def _late_wake_ups(
    measurement: Measurement, processes: Sequence[ClientHealth], who: str
) -> Violations:
    """Yield a violation if processes are woken late compared with the latency.

    It is to a closed loop what the dispatch lag is to an open one.
    """
    late = max((each.wake_up_lag_nanoseconds or 0 for each in processes), default=0)
    latency = nanoseconds_at(measurement.step.latency, DEFAULT_PERCENTILE)
    if latency is None:
        return
    limit = max(LAG_LEAST_NS, LAG_SHARE_LIMIT * latency)
    if late > limit:
        yield Violation(
            f"{who} late: the P99 of its timer's lag is {format_milliseconds(late)}; with a P99 "
            f"latency of {format_milliseconds(latency)}, the limit is "
            f"{format_milliseconds(limit)}.",
            format_milliseconds(late),
            format_milliseconds(limit),
            late / limit,
        )


def _explains_lag(step: Step, health: ClientHealth) -> bool:
    """Return whether a process waited long enough for a CPU to explain its timer's lag.

    That is the lag of one wake-up in a hundred: beyond one period, the next wake-ups are late by
    the same wait.
    """
    waited, late = health.runnable_wait_seconds, health.wake_up_lag_nanoseconds or 0
    wake_ups = _seconds(step) * SECOND_NS / WAKE_UP_PERIOD_NS
    least_ns = (1 - DEFAULT_PERCENTILE / 100) * wake_ups * min(late, WAKE_UP_PERIOD_NS)
    return waited is None or waited * SECOND_NS >= least_ns


def client_cpu(measurement: Measurement, conditions: ScenarioConditions) -> Violations:
    """Yield a violation if the load generator nearly fills the one core that it can use.

    In a closed loop also if its own work, or a stop, made its wake-ups late.
    """
    step = measurement.step
    if isinstance(measurement.plan.loop, Closed):
        busy = [health for health, _ in load_processes(step) if not _explains_lag(step, health)]
        yield from _late_wake_ups(
            measurement,
            busy,
            "The load generator, busy with its own work or stopped from outside, was",
        )
    if conditions.spins:
        return
    busiest = max([each.client_cpu_seconds for each in step.workers] or [step.client_cpu_seconds])
    cores = busiest / _seconds(step)
    if cores > CPU_LIMIT:
        who = "A worker of the fleet" if step.workers else "The load generator"
        yield Violation(
            f"{who} used {cores:.2f} of the one CPU core that it can use; the limit is "
            f"{CPU_LIMIT:g}.",
            f"{cores:.2f} cores",
            f"{CPU_LIMIT:g} cores",
            cores / CPU_LIMIT,
        )


def client_steal(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the hypervisor gave the load generator's CPUs to other guests."""
    client = measurement.step.client
    stolen = (client.steal_seconds or 0.0) / max(1, client.cpu_count or 0)
    share = stolen / _seconds(measurement.step)
    if share > STEAL_LIMIT:
        yield Violation(
            f"The hypervisor gave {100 * share:.3g} % of the CPU time of the load generator's "
            "machine to other guests; the limit is 1 %.",
            f"{100 * share:.3g} %",
            "1 %",
            share / STEAL_LIMIT,
        )


def clock_jump(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the wall clock of the load generator's machine was set."""
    jump_ns = measurement.step.client.clock_jump_nanoseconds
    if abs(jump_ns) > CLOCK_JUMP_LIMIT_NS:
        way = "forwards" if jump_ns > 0 else "backwards"
        yield Violation(
            f"The wall clock of the load generator's machine jumped {way} by "
            f"{format_milliseconds(abs(jump_ns))}; the limit is "
            f"{format_milliseconds(CLOCK_JUMP_LIMIT_NS)}.",
            format_milliseconds(abs(jump_ns)),
            format_milliseconds(CLOCK_JUMP_LIMIT_NS),
            abs(jump_ns) / CLOCK_JUMP_LIMIT_NS,
        )


def _seconds(step: Step) -> float:
    """Return how long window and drain took."""
    return max(1, step.duration_nanoseconds + step.drain_nanoseconds) / SECOND_NS
