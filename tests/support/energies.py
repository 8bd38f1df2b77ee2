"""Agents' reports on a step, computed from seeded samples.

Power follows the servers' CPU seconds and GPU time, so that energy, series and idle power agree.
"""

from dataclasses import dataclass

import numpy as np

from inferometer_api.results.result import Energy, EnergyDomain, NodeSample, NodeTelemetry, Step
from inferometer_api.status.run_status import Attribution

_GIB = 2**30
_STRENGTH: tuple[Attribution, ...] = ("dedicated", "shared", "node", "estimated")


@dataclass(frozen=True, slots=True)
class Machine:
    """A node with an agent."""

    name: str = "bench-01"
    cpus: int = 8
    packages: int = 1
    gpus: int = 0
    share: float = 0.49
    """The servers' part of the busy CPU time."""
    throttles: bool = False
    """Whether the CPU limit, heat and the GPU's power cap hold the servers back in the middle."""
    missing: tuple[str, ...] = ()

    @property
    def idle_watts(self) -> dict[str, float]:
        """Return the power of each domain with no load."""
        cpu = {f"package-{n}": 21.5 + n for n in range(self.packages)}
        dram = {f"package-{n}-dram": 3.1 for n in range(self.packages)}
        return cpu | dram | {f"gpu-{n}": 54.0 + 3 * n for n in range(self.gpus)}


def metered(step: Step, *machines: Machine) -> Step:
    """Return the step with the energy and the telemetry of these machines."""
    telemetry = [_telemetry(step, machine, seed) for seed, machine in enumerate(machines)]
    domains = [
        domain
        for machine, node_telemetry in zip(machines, telemetry, strict=True)
        for domain in _domains(step, machine, node_telemetry)
    ]
    energy = _energy(step, domains)
    changes = {"energy": energy, "telemetry": telemetry}
    return step.model_copy(update=changes)


def estimated(step: Step, machine: Machine) -> Step:
    """Return the step with an energy estimated from CPU seconds; no counter is on the machine."""
    node_telemetry = _telemetry(step, machine, 0)
    without = [each.model_copy(update={"watts": {}}) for each in node_telemetry.samples]
    microjoules = round((node_telemetry.server_cpu_seconds or 0.0) * 9e6)
    domain = EnergyDomain(
        node=machine.name,
        domain="cpu",
        method="Estimate",
        attribution="estimated",
        share=1.0,
        domain_microjoules=microjoules,
        microjoules=microjoules,
    )
    telemetry = [node_telemetry.model_copy(update={"samples": without})]
    return step.model_copy(
        update={"energy": _energy(step, [domain]), "telemetry": telemetry},
    )


def _telemetry(step: Step, machine: Machine, seed: int) -> NodeTelemetry:
    random = np.random.default_rng(seed + 11)
    seconds = int(step.duration_nanoseconds / 1e9)
    samples = [_sample(at, seconds, machine, random) for at in range(seconds + 1)]
    return NodeTelemetry(
        node=machine.name,
        agent_version="0.1.0",
        cpu_count=machine.cpus,
        governor="performance",
        server_cpu_seconds=sum(each.server_cpu_cores or 0.0 for each in samples[1:]),
        server_throttled_seconds=sum(each.server_throttled_cores or 0.0 for each in samples[1:]),
        samples=samples,
        missing=list(machine.missing),
    )


def _sample(at: int, seconds: int, machine: Machine, random: np.random.Generator) -> NodeSample:
    hot = machine.throttles and seconds * 0.45 < at < seconds * 0.7
    cores = (0.7 if hot else 0.93) + 0.05 * random.random()
    busy = cores / machine.share + 0.04 * random.random()
    load = 0.55 if hot else 0.86
    gpus = {f"gpu-{n}": min(1.0, load + 0.12 * random.random()) for n in range(machine.gpus)}
    watts = {
        name: idle
        + random.random()
        + (230 * gpus[name] if name in gpus else busy * (1.2 if name.endswith("dram") else 11.0))
        for name, idle in machine.idle_watts.items()
    }
    reasons = {name: ["SwPowerCap", "SwThermalSlowdown"] for name in gpus} if hot else {}
    first = at == 0
    return NodeSample(
        at_milliseconds=at * 1000 + int(40 * random.random()),
        watts={} if first else {name: round(value, 2) for name, value in watts.items()},
        cpu_cores=None if first else busy,
        steal_cores=None if first else 0.0,
        cpu_frequency_hertz=int((2.35 if hot else 3.4) * 1e9 + 2e7 * random.random()),
        temperature_celsius=58 + 24 * min(1.0, at / max(1.0, seconds * 0.4)) + random.random(),
        server_cpu_cores=None if first else cores,
        server_memory_bytes=int((0.36 + 0.002 * random.random()) * _GIB),
        server_throttled_cores=None if first else (0.31 + 0.1 * random.random()) * hot,
        server_cpu_pressure=None if first else 0.02 * random.random() + 0.2 * hot,
        gpu_utilization=gpus,
        gpu_memory_bytes={name: int((5.4 + at / 400) * _GIB) for name in gpus},
        gpu_clock_hertz={name: int((1.1 if hot else 1.71) * 1e9) for name in gpus},
        gpu_throttle_reasons=reasons,
    )


def _domains(step: Step, machine: Machine, node_telemetry: NodeTelemetry) -> list[EnergyDomain]:
    seconds = step.duration_nanoseconds / 1e9
    found = []
    for name, idle in machine.idle_watts.items():
        joules = seconds * float(np.mean([each.watts[name] for each in node_telemetry.samples[1:]]))
        gpu = name.startswith("gpu")
        part = 1.0 if gpu else machine.share
        net = part * (joules - idle * seconds)
        found.append(
            EnergyDomain(
                node=machine.name,
                domain=name,
                method="PowerIntegral" if gpu else "Counter",
                attribution="dedicated" if gpu or part == 1.0 else "shared",
                share=part,
                domain_microjoules=round(joules * 1e6),
                microjoules=round(part * joules * 1e6),
                baseline_milliwatts=round(idle * 1000),
                net_microjoules=round(net * 1e6),
            )
        )
    return found


def _energy(step: Step, domains: list[EnergyDomain]) -> Energy:
    gross = sum(each.microjoules for each in domains)
    nets = [each.net_microjoules for each in domains if each.net_microjoules is not None]
    whole = len(nets) == len(domains)
    inferences = max(1, step.counts.samples)
    return Energy(
        attribution=max((each.attribution for each in domains), key=_STRENGTH.index),
        microjoules=gross,
        microjoules_per_inference=round(gross / inferences),
        baseline_milliwatts=sum(d.baseline_milliwatts or 0 for d in domains) if whole else None,
        net_microjoules=sum(nets) if whole else None,
        net_microjoules_per_inference=round(sum(nets) / inferences) if whole else None,
        window_nanoseconds=step.duration_nanoseconds,
        domains=domains,
    )
