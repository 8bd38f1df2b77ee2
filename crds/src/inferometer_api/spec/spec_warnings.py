"""What of a valid run can be tried, and yet does not come out as somebody may expect?

Whatever is told here is measured all the same, and noted in the result's environment.
"""

from collections.abc import Iterator

from inferometer_api.document import milli
from inferometer_api.spec import mlperf
from inferometer_api.spec.run import RunSpec
from inferometer_api.spec.scenario import (
    Burst,
    FindPeak,
    Scenario,
    ServerLoad,
    Validity,
    percentile_value,
)


def doubts(spec: RunSpec) -> tuple[str, ...]:
    """Return a sentence for each such thing; every sentence begins with the path."""
    of_scenarios = (
        f"spec.scenarios[{index}].{scenario.kind}{sentence}"
        for index, scenario in enumerate(spec.scenarios)
        for sentence in _of(scenario, spec)
    )
    return (*_few_connections(spec), *of_scenarios, *_short_deadline(spec))


def _few_connections(spec: RunSpec) -> Iterator[str]:
    connections, workers = spec.load.connections, spec.load.workers
    if connections < workers and any(_shares_connections(each, spec) for each in spec.scenarios):
        yield (
            f"spec.load.connections ({connections}) is less than spec.load.workers ({workers}), "
            f"each of which has one at least: there will be {workers} to each server."
        )


def _shares_connections(scenario: Scenario, spec: RunSpec) -> bool:
    """Whether its requests share `load.connections`; else each client has its own."""
    is_multiplexed = scenario.concurrency is not None and spec.load.protocol == "GRPC"
    return is_multiplexed or _fewest_clients(scenario) is None


def _short_deadline(spec: RunSpec) -> Iterator[str]:
    deadline = spec.active_deadline_seconds
    once = sum(_least_seconds(each, spec.validity.raised(each.kind)) for each in spec.scenarios)
    least = spec.validity.repeats * once
    if least > deadline:
        yield (
            f"spec.activeDeadlineSeconds ({deadline}) is less than the {least:,.0f} s that the "
            "warm-ups and windows of all scenarios and repeats take at least: the run will be "
            "Failed (DeadlineExceeded)."
        )


def _least_seconds(scenario: Scenario, validity: Validity) -> float:
    """Return how long a scenario takes at least, where it becomes VALID at all."""
    if scenario.find_peak is not None:  # ends once it knows its peak
        return 0
    if scenario.offline is not None:  # ends with its samples
        return validity.warm_up_seconds
    window: float = validity.min_duration_seconds
    if scenario.server is not None:
        queries_last = validity.min_queries / _rate(scenario.server)
        window = max(window, min(queries_last, validity.max_duration_seconds))
    return validity.warm_up_seconds + window


def _of(scenario: Scenario, spec: RunSpec) -> Iterator[str]:
    validity = spec.validity.raised(scenario.kind)
    if scenario.find_peak is not None:
        yield from _long_probe(scenario.find_peak, validity)
    if scenario.server is not None:
        yield from _few_queries(scenario.server, validity)
    if scenario.burst is not None:
        yield from _long_period(scenario.burst, validity)
        yield from _quiet_burst(scenario.burst)
    if validity.warm_up == "UntilSteady" and scenario.kind in {"burst", "trace"}:
        yield (
            " changes its load by intent, and is seldom steady: with warmUp UntilSteady the "
            "warm-up may last for maxDurationSeconds, and the verdict be INVALID (Unsteady); take "
            "warmUp Fixed."
        )
    clients = _fewest_clients(scenario)
    if clients is not None and clients < spec.load.workers:
        many = "1 client" if clients == 1 else f"{clients} clients in a step"
        yield (
            f" has {many}, fewer than spec.load.workers ({spec.load.workers}): the other workers "
            "drive nothing then."
        )


def _long_probe(search: FindPeak, validity: Validity) -> Iterator[str]:
    longest, most = search.probe.max_seconds, validity.max_duration_seconds
    if longest > most:
        yield (
            f".probe.maxSeconds ({longest}) is more than spec.validity.maxDurationSeconds "
            f"({most}), which ends the whole search: one slow probe can take all its time."
        )


def _few_queries(load: ServerLoad, validity: Validity) -> Iterator[str]:
    bounded = load.latency_bound_microseconds is not None
    to_know = mlperf.fewest_queries(percentile_value(load.percentile)) if bounded else 0
    needed = max(to_know, validity.min_queries)
    rule = "MinQueries" if needed == validity.min_queries else "EarlyStopping"
    longest = validity.max_duration_seconds
    most = _rate(load) * longest
    will_be = max(validity.min_queries, _rate(load) * validity.min_duration_seconds)
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


def _rate(load: ServerLoad) -> float:
    return milli(load.target_qps) / 1000


def _quiet_burst(burst: Burst) -> Iterator[str]:
    if milli(burst.base_qps) > milli(burst.burst_qps):
        yield (
            f".baseQps ({burst.base_qps}) is more than burstQps ({burst.burst_qps}): what is "
            "called a burst is the quieter part of each period."
        )


def _long_period(burst: Burst, validity: Validity) -> Iterator[str]:
    period, least = burst.period_seconds, validity.min_duration_seconds
    if period > least:
        yield (
            f".periodSeconds ({period}) is more than spec.validity.minDurationSeconds ({least}): "
            "the window may end before its first period, so that bursts weigh more than their "
            "share; take whole periods."
        )


def _fewest_clients(scenario: Scenario) -> int | None:
    """Return how many clients a closed loop has at least in a step, None of other scenarios."""
    if scenario.concurrency is not None:
        return min(scenario.concurrency.clients)
    return 1 if scenario.kind in {"singleStream", "multiStream", "batch"} else None
