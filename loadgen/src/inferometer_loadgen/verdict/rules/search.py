"""Rules about a search: `findPeak` found a peak, and bracketed it."""

from inferometer_api.results.peak_words import known_range, limits_hit, rate_text
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
    """Yield a violation if the search ended without a bracket of the peak.

    It names what is known, and each limit that the search hit.
    """
    peak = conditions.peak
    if peak is None or peak.confidence is not None or peak.stop_reason == "CannotBeMet":
        return
    known = known_range(peak)
    why, remedy = _without_bracket(peak, known)
    sentences = [why, *(f"{one}." for one in limits_hit(peak))]
    text = " ".join(each[0].upper() + each[1:] for each in sentences)
    if not peak.probes:
        known = "no probe"
    yield Violation(
        text, known, "a bracket of 1 %, or as narrow as such probes make it", remedy=remedy
    )


def _without_bracket(peak: Peak, known: str) -> tuple[str, str]:
    """Return why there is no bracket, with what is known, and what to do."""
    remedy = "Raise validity.maxDurationSeconds."
    match peak.stop_reason:
        case "ProbesCutOff" if not peak.probes:
            why = "The search ended before its first probe."
            remedy = "Raise probe.maxSeconds, or lower probe.minQueries."
        case "ProbesCutOff":
            why = (
                "The search ended because probe.maxSeconds is too short for a probe at a lower "
                f"rate: {known}."
            )
            remedy = "Raise probe.maxSeconds, or lower probe.minQueries."
        case "ProbesTooShort":
            highest = max((probe.target_qps for probe in peak.probes), default=0.0)
            why = (
                f"No probe exceeded the bound, up to {rate_text(highest)} queries a second, while "
                f"a closed loop reached {rate_text(peak.closed_loop_qps or 0)}. The probes ended "
                "before the growing queue exceeded the bound."
            )
            remedy = "Raise probe.minQueries."
        case "Indistinguishable" if peak.qps is None:
            why = (
                f"{len(peak.probes)} probes do not bracket the peak: {known}. The probes "
                "contradict one another: late queries come in so few bursts that chance decides, "
                "or other work on the machine, or a change of the server's speed, spoiled some."
            )
            remedy = "Search on an idle machine, and raise probe.minQueries."
        case "Indistinguishable":
            why = (
                f"{len(peak.probes)} probes do not bracket the peak: {known}. They saw too few "
                "bursts of late queries to know how much probes differ by chance."
            )
            remedy = "Raise probe.minQueries, or search for a lower percentile."
        case "EndedEarly" if peak.closed_loop_qps == 0:
            why = "The closed loop, with all connections busy, got no answer."
            remedy = "Look at the server's log."
        case "EndedEarly":
            why = f"The search ended early, before it confirmed a peak: {known}."
            remedy = "Run it again to its end."
        case _:
            why = f"The search has not confirmed a peak: {known}."
    return why, remedy


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
    return (
        f"between {rate_text(peak.low_qps or 0)} and {rate_text(peak.high_qps or 0)} queries a "
        "second"
    )
