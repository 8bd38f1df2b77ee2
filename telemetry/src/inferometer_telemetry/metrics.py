"""The agent's Prometheus metrics."""

from collections.abc import Callable, Iterable, Sequence

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector
from typing_extensions import override

from inferometer_api.metrics import definitions as api
from inferometer_api.metrics.exposition import family
from inferometer_api.nodes.cache_statistics import CacheStatistics
from inferometer_api.results.agent_sample import (
    AgentSample,
    CpuReading,
    GpuReading,
    WorkloadReading,
)
from inferometer_telemetry.sampler import Latest
from inferometer_telemetry.sources import Target

Row = tuple[Sequence[str], float | None]
"""The values of a metric's labels, behind the node's name, and its value; None is not known."""


class NodeMetrics(Collector):
    """The metrics of the node agent, at each scrape."""

    def __init__(
        self,
        scraped: Callable[[], Latest | None],
        cache: Callable[[], CacheStatistics | None] = lambda: None,
    ) -> None:
        self._scraped = scraped
        self._cache = cache

    @override
    def collect(self) -> Iterable[Family]:
        latest = self._scraped()
        return [] if latest is None else families(latest, self._cache())


def families(latest: Latest, cache: CacheStatistics | None = None) -> list[Family]:
    """Return every metric of the node agent; an unknown figure has no series."""
    sample = latest.sample
    rows = {
        **_energy(latest),
        **({} if sample.cpu is None else _cpu(sample.cpu)),
        **_targets(sample.workloads),
        **_gpus(sample.gpus),
        **_agent(latest),
        **({} if cache is None else _model_cache(cache)),
    }
    return [_family(metric, sample, rows.get(metric, [])) for metric in api.METRICS["node agent"]]


def _family(metric: api.Metric, sample: AgentSample, rows: Sequence[Row]) -> Family:
    found = family(metric)
    if isinstance(found, HistogramMetricFamily):
        raise TypeError(f"{metric.name} is a histogram: a node has none.")
    for labels, value in rows:
        if value is not None:
            found.add_metric([sample.node, *labels], value)
    return found


def _energy(latest: Latest) -> dict[api.Metric, list[Row]]:
    readings = [
        (reading, (reading.domain, reading.kind, reading.method))
        for reading in latest.sample.energy
    ]
    return {
        api.NODE_ENERGY: [(labels, reading.microjoules / 1e6) for reading, labels in readings],
        api.NODE_POWER: [
            (labels, latest.watts.get(reading.domain)) for reading, labels in readings
        ],
    }


def _cpu(cpu: CpuReading) -> dict[api.Metric, list[Row]]:
    return {
        api.NODE_CPUS: [((), cpu.count)],
        api.NODE_CPU_BUSY: [((), cpu.busy_microseconds / 1e6)],
        api.NODE_CPU_STEAL: [((), cpu.steal_microseconds / 1e6)],
        api.NODE_FREQUENCY: [((), cpu.frequency_hertz)],
        api.NODE_GOVERNOR: [((cpu.governor or "",), 1 if cpu.governor else None)],
        api.NODE_TEMPERATURE: [((), _scaled(cpu.temperature_millidegrees_celsius, 1e3))],
        api.NODE_MEMORY_AVAILABLE: [((), cpu.memory_available_bytes)],
    }


def _targets(targets: Sequence[WorkloadReading]) -> dict[api.Metric, list[Row]]:
    named = [(each, Target(each.pod_uid, each.process_id).label) for each in targets]
    return {
        api.WORKLOAD_CPU: [((name,), each.cpu_microseconds / 1e6) for each, name in named],
        api.WORKLOAD_THROTTLED: [
            ((name,), _scaled(each.throttled_microseconds, 1e6)) for each, name in named
        ],
        api.WORKLOAD_MEMORY: [((name,), each.memory_bytes) for each, name in named],
        api.WORKLOAD_PRESSURE: [
            ((name, resource), _scaled(microseconds, 1e6))
            for each, name in named
            for resource, microseconds in (
                ("cpu", each.cpu_pressure_microseconds),
                ("memory", each.memory_pressure_microseconds),
                ("io", each.io_pressure_microseconds),
            )
        ],
    }


def _gpus(gpus: Sequence[GpuReading]) -> dict[api.Metric, list[Row]]:
    named = [(gpu, str(gpu.index)) for gpu in gpus]
    return {
        api.GPU_INFO: [
            ((name, gpu.uuid, gpu.name, str(gpu.mig).lower()), 1) for gpu, name in named
        ],
        api.GPU_UTILIZATION: [
            ((name,), _scaled(gpu.utilization_percent, 1e2)) for gpu, name in named
        ],
        api.GPU_MEMORY_USED: [((name,), gpu.memory_used_bytes) for gpu, name in named],
        api.GPU_MEMORY_TOTAL: [((name,), gpu.memory_total_bytes) for gpu, name in named],
        api.GPU_CLOCK: [((name,), gpu.clock_hertz) for gpu, name in named],
        api.GPU_TEMPERATURE: [
            ((name,), _scaled(gpu.temperature_millidegrees_celsius, 1e3)) for gpu, name in named
        ],
        api.GPU_THROTTLED: [
            ((name, reason), 1) for gpu, name in named for reason in sorted(gpu.throttle_reasons)
        ],
    }


def _agent(latest: Latest) -> dict[api.Metric, list[Row]]:
    return {
        api.AGENT_SOURCE: [((source,), float(is_)) for source, is_ in latest.available.items()],
        api.AGENT_SAMPLES: [((), latest.samples)],
        api.AGENT_SAMPLE_SECONDS: [((), latest.seconds)],
    }


def _model_cache(cache: CacheStatistics) -> dict[api.Metric, list[Row]]:
    return {
        api.CACHE_HITS: [((), cache.hits)],
        api.CACHE_MISSES: [((), cache.misses)],
        api.CACHE_FETCHED: [((), cache.fetched_bytes)],
        api.CACHE_EVICTIONS: [((), cache.evictions)],
        api.CACHE_USED: [((), cache.used_bytes)],
        api.CACHE_QUOTA: [((), cache.quota_bytes)],
    }


def _scaled(value: int | None, by: float) -> float | None:
    return None if value is None else value / by
