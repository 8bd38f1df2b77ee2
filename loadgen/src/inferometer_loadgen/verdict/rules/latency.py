"""Rules about the latency: within its bound, known well enough, and steady."""

from inferometer_api.results.result import Step, nanoseconds_at, whole_windows
from inferometer_api.scenarios.step_setting import Bursts, Closed, Open, TraceArrivals
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_loadgen.record.order_statistics import min_count
from inferometer_loadgen.schedule.steps import StepPlan
from inferometer_loadgen.verdict.measurement import (
    Measurement,
    ScenarioConditions,
    Violation,
    Violations,
    format_milliseconds,
    format_seconds,
)
from inferometer_loadgen.verdict.trend import PARTS, trend

STEADY_LIMIT = 0.1
MIN_WINDOWS = 2 * PARTS
MIN_ANSWERS = 10
"""Fewest answers in a part: the median of fewer is chance."""


def latency_bound(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the judged percentile of the latency exceeds its bound.

    A probe of a search may exceed it: those next to the peak are as near to the bound as can be.
    """
    if measurement.plan.is_probe:
        return
    percentile, bound = measurement.judged.percentile, measurement.judged.bound_ns
    found = nanoseconds_at(measurement.step.latency, percentile)
    if bound is not None and found is not None and found > bound:
        yield Violation(
            f"The P{percentile:g} latency is {format_milliseconds(found)}; the bound is "
            f"{format_milliseconds(bound)}.",
            format_milliseconds(found),
            format_milliseconds(bound),
            found / bound,
        )


def early_stopping(measurement: Measurement, conditions: ScenarioConditions) -> Violations:
    """Yield a violation if there are too few queries to know that the percentile is in bound.

    If it exceeds the bound, more queries do not help, and `latency_bound` reports it. The peak of a
    search is known by its bracket.
    """
    if measurement.plan.is_probe:
        return
    found, needed = measurement.step.early_stopping, _needed_queries(measurement)
    if found is None or needed is None or any(latency_bound(measurement, conditions)):
        return
    name = f"P{found.percentile:g}"
    if found.latency_bound_nanoseconds is not None:
        yield Violation(
            f"{found.overshoots} of {found.queries} queries were beyond the bound of "
            f"{format_milliseconds(found.latency_bound_nanoseconds)}; with so many beyond it, "
            f"{needed} queries are required to know with 99 % confidence that the {name} meets it.",
            f"{found.queries} queries",
            f"{needed} queries",
        )
    elif _has_mlperf_minimums(conditions):
        yield Violation(
            f"{found.queries} queries are too few to estimate the {name} with 99 % confidence; "
            f"{needed} are required.",
            f"{found.queries} queries",
            f"{needed} queries",
        )


def _needed_queries(measurement: Measurement) -> int | None:
    """Return how many queries early stopping requires; None if there are enough."""
    found = measurement.step.early_stopping
    needed = None if found is None else found.required_queries
    return None if found is None or needed is None or found.queries >= needed else needed


def _has_mlperf_minimums(conditions: ScenarioConditions) -> bool:
    return conditions.rules == "MLPerf" and SCENARIOS[conditions.kind].mlperf is not None


def small_sample(measurement: Measurement, conditions: ScenarioConditions) -> Violations:
    """Yield a violation if the percentile lacks a confidence bound, or an estimate."""
    latency = measurement.step.latency
    if (
        not SCENARIOS[conditions.kind].needs_percentiles
        or measurement.plan.is_probe
        or latency is None
    ):
        return
    needed = _needed_queries(measurement) or 0
    if measurement.judged.bound_ns is not None or _has_mlperf_minimums(conditions):
        needed = 0  # `early_stopping` reports these
    for value in latency.percentiles:
        is_judged = value.percentile == measurement.judged.percentile
        if is_judged and (needed or not value.is_bounded):
            least = max(min_count(value.percentile), needed)
            yield Violation(
                f"{latency.count} answers are too few for confidence bounds of the "
                f"P{value.percentile:g}; {least} are required.",
                f"{latency.count} answers",
                f"{least} answers",
                least / max(1, latency.count),
            )


def unsteady(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if the figures rise or fall by more than 10 %, and not by chance."""
    plan, step = measurement.plan, measurement.step
    if not measurement.warmed_up:
        yield Violation(
            f"After a warm-up of {format_seconds(step.warm_up_nanoseconds)} the last three seconds "
            "still differed by more than 10 %.",
            "not steady",
            "10 %",
        )
    parts = _parts(plan, step)
    found = None if parts is None else trend(parts)
    if found is None or abs(found.change) <= STEADY_LIMIT:
        return
    way = "rose" if found.change > 0 else "fell"
    what = "rate of answers" if isinstance(plan.loop, Closed) else "median latency"
    yield Violation(
        f"The {what} {way} steadily, by {100 * abs(found.change):.3g} % from the first tenth of "
        "the window to the last; the limit is 10 %.",
        f"{100 * abs(found.change):.3g} %",
        "10 %",
        abs(found.change) / STEADY_LIMIT,
    )


def _parts(plan: StepPlan, step: Step) -> list[float] | None:
    """Return one figure for each tenth of the window.

    In closed loops it is the rate of answers per second, in open loops the median latency in
    nanoseconds. Returns None if the window is too short to judge, or the load is meant to change.
    """
    if plan.is_probe or (isinstance(plan.loop, Open) and _is_varying(plan.loop)):
        return None
    windows = whole_windows(step)
    if len(windows) < MIN_WINDOWS:
        return None
    parts = []
    for index in range(PARTS):
        part = windows[index * len(windows) // PARTS : (index + 1) * len(windows) // PARTS]
        answered = sum(each.succeeded for each in part)
        if answered < MIN_ANSWERS:
            return None
        if isinstance(plan.loop, Closed):
            parts.append(1000 * answered / sum(each.duration_milliseconds for each in part))
        else:
            medians = sorted(each.p50_nanoseconds or 0 for each in part if each.succeeded)
            parts.append(float(medians[len(medians) // 2]))
    return parts


def _is_varying(loop: Open) -> bool:
    return isinstance(loop.arrivals, Bursts | TraceArrivals)
