"""Warnings about valid settings of single kinds of scenarios.

Each sentence continues the path of the scenario's member.
"""

from collections.abc import Iterator

from inferometer_api.document import milli
from inferometer_api.spec import mlperf
from inferometer_api.spec.scenario import (
    Burst,
    FindPeak,
    ServerLoad,
    Trace,
    Validity,
    percentile_value,
)


def rate(load: ServerLoad) -> float:
    """Return the target rate in queries per second."""
    return milli(load.target_qps) / 1000


def probe_warnings(search: FindPeak, validity: Validity) -> Iterator[str]:
    """Yield a warning if one probe may take longer than the whole search."""
    longest, most = search.probe.max_seconds, validity.max_duration_seconds
    if longest > most:
        yield (
            f".probe.maxSeconds ({longest}) is more than spec.validity.maxDurationSeconds "
            f"({most}), which ends the whole search: one slow probe can take all its time."
        )


def query_count_warnings(load: ServerLoad, validity: Validity) -> Iterator[str]:
    """Yield a warning if the rate makes too few queries for a VALID verdict."""
    bounded = load.latency_bound_microseconds is not None
    to_know = mlperf.fewest_queries(percentile_value(load.percentile)) if bounded else 0
    needed = max(to_know, validity.min_queries)
    rule = "MinQueries" if needed == validity.min_queries else "EarlyStopping"
    longest = validity.max_duration_seconds
    most = rate(load) * longest
    will_be = max(validity.min_queries, rate(load) * validity.min_duration_seconds)
    if most < needed:
        yield (
            f".targetQps ({load.target_qps}) makes about {most:,.0f} queries within "
            f"spec.validity.maxDurationSeconds ({longest}), and {needed:,} are needed: the verdict "
            f"will be INVALID ({rule})."
        )
    elif will_be < to_know:
        yield (
            f" will have about {will_be:,.0f} queries, and it takes {to_know:,} to know that the "
            f"{load.percentile} keeps its bound: the verdict will be INVALID (EarlyStopping); "
            "raise spec.validity.minQueries."
        )


def burst_warnings(burst: Burst, validity: Validity) -> Iterator[str]:
    """Yield a warning if the window may hold no whole period, or bursts are the quieter part."""
    period, least = burst.period_seconds, validity.min_duration_seconds
    if period > least:
        yield (
            f".periodSeconds ({period}) is more than spec.validity.minDurationSeconds ({least}): "
            "the window may end before its first period, so that bursts weigh more than their "
            "share; take whole periods."
        )
    if milli(burst.base_qps) > milli(burst.burst_qps):
        yield (
            f".baseQps ({burst.base_qps}) is more than burstQps ({burst.burst_qps}), so the bursts "
            "are quieter than the rest."
        )
    yield from steadiness_warnings(burst, validity)


def steadiness_warnings(_: Burst | Trace, validity: Validity) -> Iterator[str]:
    """Yield a warning if the warm-up waits for a steadiness that the load does not have."""
    if validity.warm_up == "UntilSteady":
        yield (
            " changes its load on purpose, and is seldom steady: with warmUp UntilSteady the "
            "warm-up may last for maxDurationSeconds, and the verdict be INVALID (Unsteady); take "
            "warmUp Fixed."
        )
