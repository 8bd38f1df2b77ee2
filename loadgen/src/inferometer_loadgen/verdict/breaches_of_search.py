"""Did `findPeak` find a peak?

One function for each rule of `rules.RULES` that speaks of the search.
"""

from inferometer_api.results.search import Peak
from inferometer_loadgen.verdict.breaches import Breach, Broken, Conditions, in_ms


def bound_cannot_be_met(conditions: Conditions) -> Broken:
    """Yield where neither one query at a time nor any probe keeps the bound."""
    peak = conditions.peak
    if peak is None or peak.stop_reason != "CannotBeMet":
        return
    bound, alone = in_ms(peak.latency_bound_nanoseconds), peak.service_time_nanoseconds
    told = "" if alone is None else f", whose P{peak.percentile:g} is {in_ms(alone)}"
    if peak.probes:
        lowest = f"{min(probe.target_qps for probe in peak.probes):.5g} queries a second"
        yield Breach(
            f"No rate keeps the bound of {bound}: one query at a time may{told}, but no probe did, "
            f"down to {lowest}.",
            f"no probe down to {lowest}",
            bound,
        )
        return
    yield Breach(
        f"No rate keeps the bound of {bound}: not even one query at a time does{told}.",
        "none" if alone is None else in_ms(alone),
        bound,
    )


def peak_not_found(conditions: Conditions) -> Broken:
    """Yield where the search ended without a peak, or before its bracket was closed."""
    peak = conditions.peak
    if peak is None:
        return
    between = _between(peak)
    match peak.stop_reason:
        case "OutOfTime" if peak.confidence is None:
            seems = "is" if between == "unknown" else "seems to be"
            told = (
                f"The search came to its maximum duration before its probes told the peak, which "
                f"{seems} {between}."
            )
            yield Breach(told, between, "a bracket of 1 %")
        case "ProbesTooShort":
            closed_loop = f"{peak.closed_loop_qps or 0:.5g} queries a second"
            yield Breach(
                f"No probe broke the bound: the peak is {between}, it seems, where a closed loop "
                f"had {closed_loop}. Probes are over before the queue that grows is beyond the "
                f"bound: longer ones tell.",
                between,
                closed_loop,
            )
        case "Indistinguishable" if peak.qps is None:
            yield Breach(
                f"{len(peak.probes)} probes do not bound the peak: no rate parts lower ones that "
                f"kept the bound from higher ones that broke it. Either late queries come in so "
                f"few bursts that chance decides, which longer probes mend, or the server became "
                f"faster or slower meanwhile, which a search where nothing else runs does.",
                "no peak",
                "a peak",
            )
        case "Indistinguishable" if peak.confidence is None:
            yield Breach(
                f"{len(peak.probes)} probes do not bound the peak: too few bursts of queries were "
                f"beyond the bound to know how much probes differ by chance. Longer probes would.",
                "no bracket",
                "a bracket",
            )
        case "EndedEarly" if peak.qps is None:
            why = "The search ended early"
            if peak.closed_loop_qps == 0:
                why = "As many clients as there was room for were answered nothing"
            yield Breach(f"{why}, with the peak {between}.", between, "a peak")
        case _:  # there is a peak, or CannotBeMet, which has a rule of its own
            return


def bracket_open(conditions: Conditions) -> Broken:
    """Yield where the time ended a search whose bracket longer probing would make narrower."""
    peak = conditions.peak
    if peak is None or peak.stop_reason != "OutOfTime" or peak.confidence is None:
        return
    yield Breach(
        f"The maximum duration ended the search: that the peak is {_between(peak)} is "
        f"{peak.confidence:.0%} sure, and more probes would tell it more exactly.",
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
