"""Is the latency within its bound, is it known well enough, and was it the same all the time?

One function for each rule of `rules.RULES` that speaks of the latency.
"""

from inferometer_api.results.result import Step, nanoseconds_at, whole_windows
from inferometer_api.spec.mlperf import mlperf_minimums
from inferometer_api.spec.scenario import READ_FOR_THROUGHPUT
from inferometer_loadgen.record.order_statistics import least_count
from inferometer_loadgen.schedule.steps import Bursts, Closed, Open, Recorded, StepPlan
from inferometer_loadgen.verdict.breaches import (
    Breach,
    Broken,
    Conditions,
    Measurement,
    in_ms,
    seconds,
)
from inferometer_loadgen.verdict.trend import PARTS, trend

STEADY_LIMIT = 0.1
LEAST_WINDOWS = 2 * PARTS
LEAST_ANSWERS = 10
"""Of each part: the median of fewer is chance."""


def latency_bound(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the asked percentile of the latency is beyond its bound.

    A probe of a search may well be: those beside its peak are as near to the bound as can be.
    """
    if measurement.plan.is_probe:
        return
    percentile, bound = measurement.judged.percentile, measurement.judged.bound_ns
    found = nanoseconds_at(measurement.step.latency, percentile)
    if bound is not None and found is not None and found > bound:
        yield Breach(
            f"The P{percentile:g} of the latency is {in_ms(found)}, the bound is {in_ms(bound)}.",
            in_ms(found),
            in_ms(bound),
        )


def early_stopping(measurement: Measurement, conditions: Conditions) -> Broken:
    """Yield where the queries are too few to know that the percentile keeps its bound.

    Where it does not keep it, more queries are no remedy, and it has a rule.
    """
    if measurement.plan.is_probe:  # what a search knows of its peak, its bracket says
        return
    found, needed = measurement.step.early_stopping, _needed(measurement)
    if found is None or needed is None or any(latency_bound(measurement, conditions)):
        return
    name = f"P{found.percentile:g}"
    if found.latency_bound_nanoseconds is not None:
        yield Breach(
            f"{found.overshoots} of {found.queries} queries were beyond the bound of "
            f"{in_ms(found.latency_bound_nanoseconds)}: to know with 99 % confidence that the "
            f"{name} keeps it, it takes {needed} queries with so many beyond it.",
            f"{found.queries} queries",
            f"{needed} queries",
        )
    elif _is_of_mlperf(conditions):
        yield Breach(
            f"{found.queries} queries are too few for an estimate of the {name} with 99 % "
            f"confidence: it takes {needed}.",
            f"{found.queries} queries",
            f"{needed} queries",
        )


def _needed(measurement: Measurement) -> int | None:
    """Return how many queries early stopping takes, None where there are enough."""
    found = measurement.step.early_stopping
    needed = None if found is None else found.required_queries
    return None if found is None or needed is None or found.queries >= needed else needed


def _is_of_mlperf(conditions: Conditions) -> bool:
    return conditions.rules == "MLPerf" and mlperf_minimums(conditions.kind) is not None


def small_sample(measurement: Measurement, conditions: Conditions) -> Broken:
    """Yield where the percentile has no confidence bound on one side, or no estimate."""
    latency = measurement.step.latency
    if conditions.kind in READ_FOR_THROUGHPUT or measurement.plan.is_probe or latency is None:
        return
    needed = _needed(measurement) or 0
    if measurement.judged.bound_ns is not None or _is_of_mlperf(conditions):
        needed = 0  # a bound has a rule, and with MLPerf's rules so has an estimate
    for value in latency.percentiles:
        is_judged = value.percentile == measurement.judged.percentile
        if is_judged and (needed or not value.is_bounded):
            least = max(least_count(value.percentile), needed)
            yield Breach(
                f"{latency.count} answers are too few to bound the P{value.percentile:g} with "
                f"confidence: it takes {least}.",
                f"{latency.count} answers",
                f"{least} answers",
            )


def unsteady(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the figures rise or fall over the window by more than 10 %, and not by chance."""
    plan, step = measurement.plan, measurement.step
    if not measurement.warmed_up:
        yield Breach(
            f"After a warm-up of {seconds(step.warm_up_nanoseconds)} the last three seconds still "
            f"differed by more than 10 %.",
            "not steady",
            "10 %",
        )
    parts = _parts(plan, step)
    found = None if parts is None else trend(parts)
    if found is None or abs(found.change) <= STEADY_LIMIT:
        return
    way = "rose" if found.change > 0 else "fell"
    what = "rate of answers" if isinstance(plan.loop, Closed) else "median latency"
    yield Breach(
        f"The {what} {way} steadily, by {100 * abs(found.change):.3g} % from the first tenth of "
        f"the window to the last; up to 10 % is taken for steady.",
        f"{100 * abs(found.change):.3g} %",
        "10 %",
    )


def _parts(plan: StepPlan, step: Step) -> list[float] | None:
    """Return a figure of each tenth of the window: answers a second, in open loops the median.

    None where it is too short to tell, or where the load is meant to change.
    """
    if plan.is_probe or (isinstance(plan.loop, Open) and _changes(plan.loop)):
        return None
    windows = whole_windows(step)
    if len(windows) < LEAST_WINDOWS:
        return None
    parts = []
    for index in range(PARTS):
        part = windows[index * len(windows) // PARTS : (index + 1) * len(windows) // PARTS]
        answered = sum(each.succeeded for each in part)
        if answered < LEAST_ANSWERS:
            return None
        if isinstance(plan.loop, Closed):
            parts.append(1000 * answered / sum(each.duration_milliseconds for each in part))
        else:
            medians = sorted(each.p50_nanoseconds or 0 for each in part if each.succeeded)
            parts.append(float(medians[len(medians) // 2]))
    return parts


def _changes(loop: Open) -> bool:
    return isinstance(loop.arrivals, Bursts | Recorded)
