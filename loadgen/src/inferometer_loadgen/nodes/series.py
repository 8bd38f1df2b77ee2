"""Telemetry of a node for the result document, second by second."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from inferometer_api.results.agent_sample import (
    AgentSample,
    CpuReading,
    GpuReading,
    WorkloadReading,
)
from inferometer_api.results.result import NodeSample, NodeTelemetry, UsageSample
from inferometer_loadgen.nodes.window import (
    NodeWindow,
    TimedSample,
    gpus_used,
    target_cpu_microseconds,
    target_key,
    target_pairs,
)

_NS_PER_MS = 1_000_000
_NEAR_MILLISECONDS = 1_500
"""How far apart samples of an agent and of the load generator for one second may be."""
_LEAST_APART_NS = 100_000_000
"""Rates over less time are noise: the window may end just after a second."""


def telemetry_of(window: NodeWindow, *, on_gpu: bool) -> NodeTelemetry:
    """Return everything that an agent reported, also if its window has a fault.

    It includes the GPUs that run a process of the servers; with `on_gpu` and no such process, all.
    """
    if not window.samples:
        return NodeTelemetry(node=window.node, missing=[window.fault] if window.fault else [])
    last = window.last
    whole = not window.fault
    return NodeTelemetry(
        node=window.node,
        agent_version=last.agent_version,
        cpu_count=last.cpu.count if last.cpu else None,
        governor=last.cpu.governor if last.cpu else None,
        server_cpu_seconds=_seconds(target_cpu_microseconds(window)) if whole else None,
        server_throttled_seconds=_seconds(_throttled(window)) if whole else None,
        steal_seconds=_seconds(_steal(window)) if whole else None,
        samples=list(_samples(window, on_gpu=on_gpu)),
        missing=[*([window.fault] if window.fault else []), *_missing(last)],
    )


def filled(usage: Sequence[UsageSample], nodes: Sequence[NodeTelemetry]) -> list[UsageSample]:
    """Return samples of usage with the servers' part from the agents, where it is absent.

    `nodes` are all that servers run on; empty if not every one has an agent.
    """
    return [each if each.server_cpu_cores is not None else _filled(each, nodes) for each in usage]


def served_cpu_seconds(nodes: Sequence[NodeTelemetry]) -> float | None:
    """Return the CPU seconds of the servers on all nodes; None if one is not known."""
    return _sum(node.server_cpu_seconds for node in nodes)


def _filled(usage: UsageSample, nodes: Sequence[NodeTelemetry]) -> UsageSample:
    near = [_nearest(node.samples, usage.at_milliseconds) for node in nodes]
    memory = _sum(each.server_memory_bytes if each else None for each in near)
    return usage.model_copy(
        update={
            "server_cpu_cores": _sum(each.server_cpu_cores if each else None for each in near),
            "server_memory_bytes": None if memory is None else int(memory),
        }
    )


def _nearest(samples: Sequence[NodeSample], at_milliseconds: int) -> NodeSample | None:
    place = bisect_left(samples, at_milliseconds, key=lambda each: each.at_milliseconds)
    around = samples[max(0, place - 1) : place + 1]
    near = min(around, key=lambda each: abs(each.at_milliseconds - at_milliseconds), default=None)
    if near is None or abs(near.at_milliseconds - at_milliseconds) > _NEAR_MILLISECONDS:
        return None
    return near


def _sum(values: Iterable[float | None]) -> float | None:
    total = 0.0
    is_known = False
    for value in values:
        if value is None:
            return None
        total, is_known = total + value, True
    return total if is_known else None


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / 1e6


def _throttled(window: NodeWindow) -> int | None:
    """Return how long all servers were throttled; servers without a limit never are."""
    found = None
    for before, after in target_pairs(window):
        if before.throttled_microseconds is not None and after.throttled_microseconds is not None:
            passed = after.throttled_microseconds - before.throttled_microseconds
            found = (found or 0) + max(0, passed)
    return found


def _steal(window: NodeWindow) -> int | None:
    first, last = window.first.cpu, window.last.cpu
    if first is None or last is None:
        return None
    return max(0, last.steal_microseconds - first.steal_microseconds)


def _missing(sample: AgentSample) -> Iterator[str]:
    for each in sample.missing:
        subject = f" ({each.subject})" if each.subject else ""
        yield f"{each.source}{subject}: {each.reason}"


def _samples(window: NodeWindow, *, on_gpu: bool) -> Iterator[NodeSample]:
    used = gpus_used(window)

    def shown(uuid: str) -> bool:
        return uuid in used or (on_gpu and not used)

    before: TimedSample | None = None
    for taken in (*(window.idle or ()), *window.samples):
        if before is not None and taken.at_ns - before.at_ns < _LEAST_APART_NS:
            continue
        if before is not None or window.idle is None:
            yield _sample(taken, before, shown)
        before = taken


def _sample(
    taken: TimedSample, before: TimedSample | None, shown: Callable[[str], bool]
) -> NodeSample:
    now = taken.sample
    rates = _Rates(now, before.sample if before is not None else None)
    cpu = now.cpu or CpuReading(count=0, busy_microseconds=0, steal_microseconds=0)
    degrees = cpu.temperature_millidegrees_celsius
    gpus = [gpu for gpu in now.gpus if shown(gpu.uuid)]
    return NodeSample(
        at_milliseconds=taken.at_ns // _NS_PER_MS,
        watts=rates.watts(shown),
        cpu_cores=rates.of_node(lambda each: each.busy_microseconds),
        steal_cores=rates.of_node(lambda each: each.steal_microseconds),
        cpu_frequency_hertz=cpu.frequency_hertz,
        temperature_celsius=None if degrees is None else degrees / 1000,
        server_cpu_cores=rates.of_targets(lambda each: each.cpu_microseconds),
        server_memory_bytes=_memory(now.workloads),
        server_throttled_cores=rates.of_targets(lambda each: each.throttled_microseconds),
        server_cpu_pressure=rates.of_targets(lambda each: each.cpu_pressure_microseconds),
        gpu_utilization={
            _name(gpu): value for gpu in gpus if (value := rates.utilization(gpu)) is not None
        },
        gpu_memory_bytes=_known(gpus, lambda gpu: gpu.memory_used_bytes),
        gpu_clock_hertz=_known(gpus, lambda gpu: gpu.clock_hertz),
        gpu_throttle_reasons={
            _name(gpu): gpu.throttle_reasons for gpu in gpus if gpu.throttle_reasons
        },
    )


class _Rates:
    """Differences of two samples divided by the time between them; None if one is missing."""

    def __init__(self, now: AgentSample, before: AgentSample | None) -> None:
        comparable = (
            before is not None
            and before.instance == now.instance
            and before.monotonic_ns < now.monotonic_ns
        )
        self._now = now
        self._before = before if comparable else None
        self._microseconds = (now.monotonic_ns - before.monotonic_ns) / 1000 if before else 0.0

    def watts(self, shown: Callable[[str], bool]) -> dict[str, float]:
        if self._before is None:
            return {}
        before = {each.domain: each.microjoules for each in self._before.energy}
        return {
            each.domain: round((each.microjoules - before[each.domain]) / self._microseconds, 3)
            for each in self._now.energy
            if before.get(each.domain, each.microjoules + 1) <= each.microjoules
            and (each.kind != "Gpu" or shown(each.gpu_uuid))
        }

    def of_node(self, of: Callable[[CpuReading], int]) -> float | None:
        if self._before is None or self._before.cpu is None or self._now.cpu is None:
            return None
        return self._rate(of(self._before.cpu), of(self._now.cpu))

    def of_targets(self, of: Callable[[WorkloadReading], int | None]) -> float | None:
        if self._before is None:
            return None
        known = {target_key(each): of(each) for each in self._before.workloads}
        pairs = [(known.get(target_key(each)), of(each)) for each in self._now.workloads]
        rates = [self._rate(*pair) for pair in pairs]
        total = _sum(rates)
        return None if total is None else round(total, 4)

    def utilization(self, gpu: GpuReading) -> float | None:
        if self._before is not None:
            was = next((each for each in self._before.gpus if each.uuid == gpu.uuid), None)
            passed = (
                None if was is None else self._rate(was.busy_microseconds, gpu.busy_microseconds)
            )
            if passed is not None:
                return min(1.0, passed)
        return None if gpu.utilization_percent is None else min(1.0, gpu.utilization_percent / 100)

    def _rate(self, before: int | None, now: int | None) -> float | None:
        if before is None or now is None:
            return None
        return round(max(0, now - before) / self._microseconds, 4)


def _memory(targets: Sequence[WorkloadReading]) -> int | None:
    total = _sum(each.memory_bytes for each in targets)
    return None if total is None else int(total)


def _name(gpu: GpuReading) -> str:
    return f"gpu-{gpu.index}"


def _known(gpus: Sequence[GpuReading], of: Callable[[GpuReading], int | None]) -> dict[str, int]:
    return {_name(gpu): value for gpu in gpus if (value := of(gpu)) is not None}
