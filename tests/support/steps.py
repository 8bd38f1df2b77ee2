"""A step's result, computed from seeded samples.

The latencies of a server with one thread, a queue before it in open loop, and the real
HdrHistogram encoding.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # has no types

from inferometer_api.results.result import (
    Counts,
    Distribution,
    Energy,
    ErrorExample,
    PercentileValue,
    Step,
    UsageSample,
    Window,
)

Nanoseconds = npt.NDArray[np.int64]

_SECOND = 1_000_000_000
_MIB = 2**20
_PERCENTILES = (50.0, 90.0, 95.0, 97.0, 99.0, 99.9, 99.99)
_NO_AGENT = "this machine has no readable RAPL counter and no GPU"


@dataclass(frozen=True, slots=True)
class Load:
    """What the samples of one step are made of."""

    seconds: float = 20.0
    service_milliseconds: float = 21.0
    qps: float | None = None
    """Rate of an open loop; absent: one query after another."""
    batch_size: int = 1
    label: str = ""
    failures: dict[str, int] = field(default_factory=dict)
    seed: int = 7


@dataclass(frozen=True, slots=True)
class _Samples:
    scheduled: Nanoseconds
    lag: Nanoseconds
    done: Nanoseconds
    service: Nanoseconds

    @property
    def latency(self) -> Nanoseconds:
        return self.done - self.scheduled


def a_distribution(nanoseconds: Nanoseconds) -> Distribution:
    """Return the distribution of these times, with bounds by order statistics."""
    histogram = HdrHistogram(1, 3600 * _SECOND, 3)
    for value in nanoseconds.tolist():
        histogram.record_value(value)
    ordered = np.sort(nanoseconds)
    return Distribution(
        count=len(ordered),
        min_nanoseconds=int(ordered[0]),
        mean_nanoseconds=int(ordered.mean()),
        max_nanoseconds=int(ordered[-1]),
        percentiles=[_percentile(ordered, percentile) for percentile in _PERCENTILES],
        histogram=histogram.encode().decode("ascii"),
    )


def a_step(load: Load) -> Step:
    """Return what was found under this load."""
    samples = _samples(load)
    open_loop = load.qps is not None
    count = len(samples.done)
    duration = int(samples.done.max())
    failed = sum(load.failures.values())
    return Step(
        label=load.label,
        batch_size=load.batch_size,
        started_at="2026-03-12T14:03:31Z",
        warm_up_nanoseconds=2 * _SECOND,
        warm_up_queries=int(2 * count / load.seconds),
        duration_nanoseconds=duration,
        counts=Counts(
            queries=count + failed,
            samples=count * load.batch_size,
            succeeded=count,
            failed=failed,
            errors=load.failures,
            scheduled=count + failed if open_loop else None,
            waited_for_connection=3 if open_loop else 0,
            checked_replies=min(count, 32),
        ),
        scheduled_qps=(count + failed) / duration * _SECOND if open_loop else None,
        achieved_qps=count / duration * _SECOND,
        achieved_samples_per_second=count * load.batch_size / duration * _SECOND,
        latency=a_distribution(samples.latency),
        service_time=a_distribution(samples.service) if open_loop else None,
        dispatch_lag=a_distribution(samples.lag) if open_loop else None,
        windows=_windows(samples, load),
        usage=_usage(load),
        server_cpu_seconds=load.seconds * 0.93,
        client_cpu_seconds=load.seconds * 0.02,
        error_examples=[
            ErrorExample(kind=kind, message=f"no reply ({kind})") for kind in load.failures
        ],
        energy=Energy(attribution="unavailable", reason=_NO_AGENT),
    )


def _samples(load: Load) -> _Samples:
    random = np.random.default_rng(load.seed)
    mean = load.service_milliseconds * load.batch_size**0.86 * 1e6
    count = int((load.qps or _SECOND / mean) * load.seconds)
    service = (mean * (0.97 + random.lognormal(-3.6, 0.9, count))).astype(np.int64)
    if load.qps is None:
        done = np.cumsum(service)
        return _Samples(done - service, np.zeros_like(done), done, service)
    scheduled = np.cumsum(random.exponential(_SECOND / load.qps, count)).astype(np.int64)
    lag = random.lognormal(10.4, 0.6, count).astype(np.int64)
    done = np.empty_like(scheduled)
    free_at = 0
    for query in range(count):
        free_at = max(free_at, int(scheduled[query] + lag[query])) + int(service[query])
        done[query] = free_at
    return _Samples(scheduled, lag, done, done - scheduled - lag)


def _percentile(ordered: Nanoseconds, percentile: float) -> PercentileValue:
    count, share = len(ordered), percentile / 100
    spread = 1.96 * np.sqrt(count * share * (1 - share))
    low, high = int(count * share - spread), int(np.ceil(count * share + spread))
    return PercentileValue(
        percentile=percentile,
        nanoseconds=int(ordered[min(count - 1, int(np.ceil(count * share)) - 1)]),
        low_nanoseconds=int(ordered[low]) if low >= 0 else None,
        high_nanoseconds=int(ordered[high]) if high < count else None,
    )


def _windows(samples: _Samples, load: Load) -> list[Window]:
    windows = []
    failed_in = {2 + 5 * index for index in range(sum(load.failures.values()))}
    for second in range(max(1, int(samples.done.max() / _SECOND))):
        start, end = second * _SECOND, (second + 1) * _SECOND
        answered = (samples.done >= start) & (samples.done < end)
        due = (samples.scheduled >= start) & (samples.scheduled < end)
        latency = np.sort(samples.latency[answered])
        some = len(latency) > 0
        windows.append(
            Window(
                start_milliseconds=second * 1000,
                duration_milliseconds=1000,
                scheduled=int(due.sum()) if load.qps is not None else None,
                succeeded=len(latency),
                failed=1 if second in failed_in else 0,
                p50_nanoseconds=int(latency[len(latency) // 2]) if some else None,
                p99_nanoseconds=int(latency[int(len(latency) * 0.99)]) if some else None,
                max_nanoseconds=int(latency[-1]) if some else None,
            )
        )
    return windows


def _usage(load: Load) -> list[UsageSample]:
    random = np.random.default_rng(load.seed + 1)
    grown = 180 + 6 * load.batch_size
    return [
        UsageSample(
            at_milliseconds=second * 1000,
            server_cpu_cores=None if second == 0 else 0.93 + 0.04 * random.random(),
            server_memory_bytes=int((grown + 2 * random.random()) * _MIB),
            client_cpu_cores=0.015 + 0.01 * random.random(),
            client_memory_bytes=int((96 + random.random()) * _MIB),
        )
        for second in range(int(load.seconds) + 1)
    ]
