"""Words for the peak that a search found, which verdict and reports share."""

import math
from collections.abc import Iterator

from inferometer_api.results.search import Peak
from inferometer_api.spec.mlperf import fewest_queries

_FIRST_SHARE = 0.5
_MARGIN = 1.25
"""How much slower the next closed loop may be, for limits that would suffice."""
_WHOLE = 1000.0
_FEWEST_PROBE_QUERIES = 10
"""The least that a spec may ask for."""


def rate_text(qps: float) -> str:
    """Return a rate with four digits, and no exponent: 83.21, 5,120."""
    return f"{qps:,.0f}" if qps >= _WHOLE else f"{qps:.4g}"


def known_range(peak: Peak) -> str:
    """Return what is known without a bracket: "at least 83/s; not confirmed above 101/s"."""
    low = None if peak.low_qps is None else rate_text(peak.low_qps)
    high = None if peak.high_qps is None else rate_text(peak.high_qps)
    if low is not None and high is not None:
        return f"at least {low}/s; not confirmed above {high}/s"
    if low is not None:
        return f"at least {low}/s; no probe missed the bound at a higher rate"
    if high is not None:
        return f"no probe kept the bound; the lowest rate that missed it is {high}/s"
    return "no probe decided whether the bound is kept"


def limits_hit(peak: Peak) -> Iterator[str]:
    """Yield which of its limits kept a search from a peak, a sentence each without a period."""
    if peak.stop_reason == "ProbesCutOff" and not peak.probes:
        yield _first_cut_off(peak)
        return
    if peak.stop_reason == "OutOfTime":
        seconds = _seconds(peak.max_duration_seconds)
        yield f"the limit validity.maxDurationSeconds{seconds} ended the search"
    cut_off = [probe for probe in peak.probes if probe.decided_by == "Unfinished"]
    if not cut_off:
        return
    counts = sorted(probe.queries for probe in cut_off)
    seen = f"{counts[0]:,}" if counts[0] == counts[-1] else f"{counts[0]:,} to {counts[-1]:,}"
    of = "" if peak.probe_queries is None else f" of {peak.probe_queries:,}"
    are = "is" if len(cut_off) == 1 else "are"
    yield (
        f"{len(cut_off)} of {len(peak.probes)} probes {are} undecided: probe.maxSeconds"
        f"{_seconds(peak.probe_max_seconds)} was over after {seen}{of} queries"
        f"{_enough_seconds(peak, min(probe.target_qps for probe in cut_off))}"
    )


def _first_cut_off(peak: Peak) -> str:
    qps = (peak.closed_loop_qps or 0) * _FIRST_SHARE
    queries, seconds = peak.probe_queries or 0, peak.probe_max_seconds or 0
    taken = queries / qps if qps else math.inf
    return (
        f"at the first rate, {rate_text(qps)}/s (half of what the closed loop reached), a probe of "
        f"{queries:,} queries takes {taken:,.0f} s, and probe.maxSeconds cuts it off after "
        f"{seconds:,} s{_enough_seconds(peak, qps)}"
    )


def _enough_seconds(peak: Peak, qps: float) -> str:
    """Return the settings with which probes at a rate would finish; empty if they are unknown."""
    if peak.probe_queries is None or peak.probe_max_seconds is None or qps <= 0:
        return ""
    seconds = math.ceil(_MARGIN * peak.probe_queries / qps)
    text = f"; set probe.maxSeconds to at least {seconds:,}"
    queries = math.floor(peak.probe_max_seconds * qps / _MARGIN)
    is_enough = queries >= max(_FEWEST_PROBE_QUERIES, fewest_queries(peak.percentile))
    return f"{text}, or probe.minQueries to at most {queries:,}" if is_enough else text


def _seconds(seconds: int | None) -> str:
    return "" if seconds is None else f" ({seconds:,} s)"
