"""Energy of one node that counts as its servers', counter by counter."""

from collections.abc import Iterator
from dataclasses import dataclass

from inferometer_api.results.agent_sample import AgentSample, EnergyReading, GpuReading
from inferometer_api.results.result import EnergyDomain
from inferometer_api.status.run_status import Attribution
from inferometer_loadgen.nodes.window import (
    NodeWindow,
    gpus_used,
    target_cpu_microseconds,
    target_pairs,
)

DEDICATED_SHARE = 0.95
"""Share of the node's busy CPU time from which on all its energy counts as the servers'."""
MOST_WATTS = 10_000
"""No package and no GPU uses more: a counter that says so has jumped."""
_NS_PER_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class NodeEnergy:
    """The energy of one node, as far as it is known."""

    domains: list[EnergyDomain]
    not_covered: list[str]
    why_none: str = ""
    """Why there are no domains: a sentence without its period."""


@dataclass(frozen=True, slots=True)
class AttributedShare:
    """The part of a counter's energy that counts as the servers'."""

    attribution: Attribution
    part: float


_WHOLE = AttributedShare("node", 1.0)


def node_energy(window: NodeWindow, *, on_gpu: bool, milliwatts_per_core: int | None) -> NodeEnergy:
    """Return the energy of a node within a window that has no fault.

    `on_gpu` says that the servers should run on a GPU. If no counter covers the CPUs,
    `milliwatts_per_core` times the servers' CPU seconds replaces it.
    """
    counted = _Counted(window)
    domains = [*counted.cpu_domains(), *counted.gpu_domains()]
    not_covered = list(counted.left_out)
    if not any(reading.kind != "Gpu" for reading in counted.readings):
        estimate = None if milliwatts_per_core is None else _estimate(window, milliwatts_per_core)
        if estimate is not None:
            domains.append(estimate)
        else:
            why = _because(window.last, "rapl")
            not_covered.append(f"the CPUs of {window.node} have no counter{why}")
    not_covered += _parts_missing(window)
    if on_gpu and not gpus_used(window):
        not_covered.append(
            f"the agent of {window.node} sees no process of the servers on a GPU"
            f"{_because(window.last, 'nvml')}"
        )
    if domains:
        return NodeEnergy(domains, not_covered)
    return NodeEnergy([], [], why_none=_no_source(window, counted.left_out, on_gpu=on_gpu))


class _Counted:
    """The counters that went on from the window's begin to its end."""

    def __init__(self, window: NodeWindow) -> None:
        self._window = window
        self.left_out: list[str] = []
        self.readings: list[EnergyReading] = []
        used = gpus_used(window)
        self._gpus = {gpu.uuid: gpu for gpu in window.last.gpus if gpu.uuid in used}
        self._microjoules: dict[str, int] = {}
        for reading in window.last.energy:
            if reading.kind != "Gpu" or reading.gpu_uuid in used:
                self._count(reading)
        with_counter = {reading.gpu_uuid for reading in self.readings if reading.kind == "Gpu"}
        self.left_out += [
            f"{_gpu_name(self._gpus.get(uuid), uuid)} of {window.node} has no counter"
            for uuid in sorted(used - with_counter)
        ]

    def _count(self, reading: EnergyReading) -> None:
        name = f"the counter of {reading.domain} of {self._window.node}"
        before = _reading(self._window.first, reading.domain)
        found = 0 if before is None else reading.microjoules - before.microjoules
        if before is None:
            self.left_out.append(f"{name} was not there at the window's begin")
        elif before.method != reading.method:
            # Each method counts separately: their difference is not an energy.
            self.left_out.append(
                f"{name} went over from {before.method} to {reading.method} within the window"
            )
        elif found <= 0:
            # A running machine uses energy: a counter that says otherwise does not work.
            self.left_out.append(f"{name} stands still")
        elif found > MOST_WATTS * 1e6 * _window_seconds(self._window):
            self.left_out.append(f"{name} jumped by {found / 1e6:.3g} J")
        else:
            self.readings.append(reading)
            self._microjoules[reading.domain] = found

    def cpu_domains(self) -> Iterator[EnergyDomain]:
        share = cpu_share(self._window)
        for reading in self.readings:
            if reading.kind != "Gpu":
                yield self._domain(reading, share)

    def gpu_domains(self) -> Iterator[EnergyDomain]:
        for reading in self.readings:
            if reading.kind == "Gpu":
                yield self._domain(reading, gpu_share(self._window, reading.gpu_uuid))

    def _domain(self, reading: EnergyReading, share: AttributedShare) -> EnergyDomain:
        found = self._microjoules[reading.domain]
        idle = _idle_milliwatts(self._window, reading.domain)
        net = None
        if idle is not None:
            net = round(share.part * (found - idle * _window_seconds(self._window) * 1000))
        return EnergyDomain(
            node=self._window.node,
            domain=reading.domain,
            method=reading.method,
            attribution=share.attribution,
            share=share.part,
            domain_microjoules=found,
            microjoules=round(share.part * found),
            baseline_milliwatts=None if idle is None else round(idle),
            net_microjoules=net,
        )


def cpu_share(window: NodeWindow) -> AttributedShare:
    """Return the servers' part of the node's CPU time within the window."""
    used = target_cpu_microseconds(window)
    first, last = window.first.cpu, window.last.cpu
    if used is None or first is None or last is None:
        return _WHOLE
    busy = last.busy_microseconds - first.busy_microseconds
    # A server that answers uses CPU time: a reading without any cannot be right.
    if busy <= 0 or used <= 0:
        return _WHOLE
    part = min(1.0, used / busy)
    return (
        AttributedShare("dedicated", 1.0)
        if part >= DEDICATED_SHARE
        else AttributedShare("shared", part)
    )


def gpu_share(window: NodeWindow, uuid: str) -> AttributedShare:
    """Return the servers' part of a GPU on which they have processes."""
    seen = [gpu for taken in window.samples for gpu in taken.sample.gpus if gpu.uuid == uuid]
    if not window.targets or not seen or any(gpu.mig for gpu in seen):
        return _WHOLE
    if all(gpu.foreign is False for gpu in seen):
        return AttributedShare("dedicated", 1.0)
    used = _gpu_busy(window, uuid)
    first, last = seen[0].busy_microseconds, seen[-1].busy_microseconds
    if not used or first is None or last is None or last <= first:
        return _WHOLE
    return AttributedShare("shared", min(1.0, used / (last - first)))


def _gpu_busy(window: NodeWindow, uuid: str) -> int | None:
    """Return the GPU time of all servers; None if that of one is not known."""
    total = 0
    for before, after in target_pairs(window):
        # A process that came to the GPU later had not used it before.
        had = next((use.busy_microseconds for use in before.gpus if use.gpu_uuid == uuid), 0)
        for use in after.gpus:
            if use.gpu_uuid == uuid:
                if had is None or use.busy_microseconds is None:
                    return None
                total += max(0, use.busy_microseconds - had)
    return total


def _estimate(window: NodeWindow, milliwatts_per_core: int) -> EnergyDomain | None:
    used = target_cpu_microseconds(window)
    if used is None or used <= 0:
        return None
    idle = _idle_cpu_microseconds(window)
    return estimated(window.node, used, milliwatts_per_core, idle, _window_seconds(window))


def estimated(
    node: str,
    cpu_microseconds: float,
    milliwatts_per_core: int,
    idle_cores: float | None = None,
    window_seconds: float = 0.0,
) -> EnergyDomain:
    """Return CPU time times a stated power; idle power is the same for the servers without load."""
    microjoules = cpu_microseconds * milliwatts_per_core / 1000
    idle = None if idle_cores is None else idle_cores * milliwatts_per_core
    net = None if idle is None else round(microjoules - idle * window_seconds * 1000)
    return EnergyDomain(
        node=node,
        domain="cpu",
        method="Estimate",
        attribution="estimated",
        share=1.0,
        domain_microjoules=round(microjoules),
        microjoules=round(microjoules),
        baseline_milliwatts=None if idle is None else round(idle),
        net_microjoules=net,
    )


def _idle_window(window: NodeWindow) -> NodeWindow | None:
    """Return the time without load as a window; None if its samples cannot be compared."""
    if window.idle is None:
        return None
    before, after = (taken.sample for taken in window.idle)
    if before.instance != after.instance or after.monotonic_ns <= before.monotonic_ns:
        return None
    return NodeWindow(window.node, window.targets, window.idle)


def _reading(sample: AgentSample, domain: str) -> EnergyReading | None:
    return next((each for each in sample.energy if each.domain == domain), None)


def _idle_milliwatts(window: NodeWindow, domain: str) -> float | None:
    idle = _idle_window(window)
    if idle is None:
        return None
    before, after = _reading(idle.first, domain), _reading(idle.last, domain)
    if before is None or after is None or before.method != after.method:
        return None
    spent = after.microjoules - before.microjoules
    return spent / _window_seconds(idle) / 1000 if spent > 0 else None


def _idle_cpu_microseconds(window: NodeWindow) -> float | None:
    """Return the servers' CPU seconds per second without load."""
    idle = _idle_window(window)
    used = None if idle is None else target_cpu_microseconds(idle)
    return None if idle is None or used is None else used / 1e6 / _window_seconds(idle)


def counted_ns(window: NodeWindow) -> int:
    """Return the time between the counters' two readings, by the node's clock."""
    return window.last.monotonic_ns - window.first.monotonic_ns


def _window_seconds(window: NodeWindow) -> float:
    return counted_ns(window) / _NS_PER_SECOND


def _parts_missing(window: NodeWindow) -> Iterator[str]:
    """Yield the parts of a working source that an agent cannot read."""
    used = gpus_used(window)
    unknown = window.targets and target_cpu_microseconds(window) is None
    for missing in window.last.missing:
        if missing.subject and (missing.source == "rapl" or missing.subject in used):
            yield f"{missing.subject} of {window.node} gives no figure ({missing.reason})"
        elif unknown and missing.source == "cgroup":
            yield f"the servers' part of {window.node}'s CPU time is not known ({missing.reason})"


def _because(sample: AgentSample, source: str) -> str:
    reasons = [each.reason for each in sample.missing if each.source == source and not each.subject]
    return f" ({'; '.join(reasons)})" if reasons else ""


def _no_source(window: NodeWindow, left_out: list[str], *, on_gpu: bool) -> str:
    sources = ("rapl", "nvml") if on_gpu else ("rapl",)
    reasons = [
        f"{each.source}: {each.subject + ': ' if each.subject else ''}{each.reason}"
        for each in window.last.missing
        if each.source in sources
    ]
    why = "; ".join([*left_out, *reasons])
    return f"{window.node or 'the node'} has no source of energy figures" + (
        f" ({why})" * bool(why)
    )


def _gpu_name(gpu: GpuReading | None, uuid: str) -> str:
    return f"GPU {uuid}" if gpu is None else f"gpu-{gpu.index}"
