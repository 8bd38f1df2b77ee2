"""Rules about a search: `findPeak` found a peak, and bracketed it."""

from inferometer_api.results.search import Peak
from inferometer_loadgen.verdict.measurement import (
    ScenarioConditions,
    Violation,
    Violations,
    format_milliseconds,
)


def bound_cannot_be_met(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if neither one query at a time nor any probe meets the bound."""
    peak = conditions.peak
    if peak is None or peak.stop_reason != "CannotBeMet":
        return
    bound, alone = (
        format_milliseconds(peak.latency_bound_nanoseconds),
        peak.service_time_nanoseconds,
    )
    found = "" if alone is None else f" (P{peak.percentile:g}: {format_milliseconds(alone)})"
    if peak.probes:
        lowest = f"{min(probe.target_qps for probe in peak.probes):.5g} queries a second"
        yield Violation(
            f"No rate meets the bound of {bound}: one query at a time may meet it{found}, but no "
            f"probe did, down to {lowest}.",
            f"no probe down to {lowest}",
            bound,
        )
        return
    yield Violation(
        f"No rate meets the bound of {bound}: not even one query at a time does{found}.",
        "none" if alone is None else format_milliseconds(alone),
        bound,
    )


def peak_not_found(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if the search ended without a bracket of the peak."""
    peak = conditions.peak
    if peak is None:
        return
    between = _between(peak)
    match peak.stop_reason:
        case "OutOfTime" if peak.confidence is None:
            seems = "is" if between == "unknown" else "seems to be"
            yield Violation(
                "The search reached its maximum duration before it bracketed the peak, which "
                f"{seems} {between}.",
                between,
                "a bracket of 1 %",
            )
        case "ProbesTooShort":
            closed_loop = f"{peak.closed_loop_qps or 0:.5g} queries a second"
            yield Violation(
                f"No probe exceeded the bound: the peak seems to be {between}, while a closed loop "
                f"reached {closed_loop}. The probes ended before the growing queue exceeded the "
                "bound.",
                between,
                closed_loop,
            )
        case "Indistinguishable" if peak.qps is None:
            yield Violation(
                f"{len(peak.probes)} probes do not bracket the peak: no rate separates lower ones "
                "that met the bound from higher ones that exceeded it. Either late queries come in "
                "so few bursts that chance decides, or the server's speed changed meanwhile.",
                "no peak",
                "a peak",
            )
        case "Indistinguishable" if peak.confidence is None:
            yield Violation(
                f"{len(peak.probes)} probes do not bracket the peak: they saw too few bursts of "
                "late queries to know how much probes differ by chance.",
                "no bracket",
                "a bracket",
            )
        case "EndedEarly" if peak.qps is None:
            why = "The search ended early"
            if peak.closed_loop_qps == 0:
                why = "The closed loop, with all connections busy, got no answer"
            yield Violation(f"{why}, with the peak {between}.", between, "a peak")
        case _:  # there is a peak, or CannotBeMet, which has its own rule
            return


def bracket_open(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if time ended a search that could have narrowed its bracket."""
    peak = conditions.peak
    if peak is None or peak.stop_reason != "OutOfTime" or peak.confidence is None:
        return
    yield Violation(
        f"The maximum duration ended the search: the peak is {_between(peak)} with "
        f"{peak.confidence:.0%} confidence, and more probes would narrow this bracket.",
        _between(peak),
        "a bracket of 1 %, or as narrow as such probes make it",
    )


def _between(peak: Peak) -> str:
    low = None if peak.low_qps is None else f"{peak.low_qps:.5g}"
    high = None if peak.high_qps is None else f"{peak.high_qps:.5g}"
    if low is not None and high is not None:
        return f"between {low} and {high} queries a second"
    if low is not None:
        return f"above {low} queries a second"
    if high is not None:
        return f"below {high} queries a second"
    return "unknown" if peak.qps is None else f"near {float(f'{peak.qps:.2g}'):g} queries a second"
