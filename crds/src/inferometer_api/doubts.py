"""What of a valid run can be tried, and yet does not come out as somebody may expect?

Whatever is told here is measured all the same, and noted in the result's environment.
"""

from collections.abc import Iterator

from inferometer_api.run import RunSpec
from inferometer_api.scenario import Burst, FindPeak, Scenario, Validity


def doubts(spec: RunSpec) -> tuple[str, ...]:
    """Return a sentence for each such thing; every sentence begins with the path."""
    return tuple(
        f"spec.scenarios[{index}].{scenario.kind}{sentence}"
        for index, scenario in enumerate(spec.scenarios)
        for sentence in _of(scenario, spec)
    )


def _of(scenario: Scenario, spec: RunSpec) -> Iterator[str]:
    validity = spec.validity.raised(scenario.kind)
    if scenario.find_peak is not None:
        yield from _long_probe(scenario.find_peak, validity)
    if scenario.burst is not None:
        yield from _long_period(scenario.burst, validity)
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
