"""Agents' reports around a window, in as few words as a test needs."""

from typing import Any

from inferometer_api.results.agent_sample import (
    AgentSample,
    CpuReading,
    EnergyReading,
    GpuUse,
    WorkloadReading,
)
from inferometer_api.results.result import Energy
from inferometer_loadgen.nodes.energy import EnergyTerms, WorkDone, energy
from inferometer_loadgen.nodes.window import NodeWindow, TimedSample

SECOND = 1_000_000_000
TEN_SECONDS = 10 * SECOND
METERED = EnergyTerms(disabled=False, unmetered="", milliwatts_per_core=None, on_gpu=False)
POD = "pod-1"


def sample(at_ns: int, **fields: Any) -> AgentSample:
    """Return a sample that has only the given fields."""
    base: dict[str, Any] = {
        "agent_version": "0",
        "instance": "first",
        "node": "n",
        "monotonic_ns": at_ns,
        "unix_ns": 0,
    }
    return AgentSample(**{**base, **fields})


def package(microjoules: int, name: str = "package-0") -> EnergyReading:
    """Return the counter of a package."""
    return EnergyReading(domain=name, kind="Package", method="Counter", microjoules=microjoules)


def gpu_counter(microjoules: int, index: int = 0) -> EnergyReading:
    """Return the counter of a GPU."""
    return EnergyReading(
        domain=f"gpu-{index}",
        kind="Gpu",
        method="Counter",
        microjoules=microjoules,
        gpu_uuid=f"GPU-{index}",
    )


def cpu(busy: int) -> CpuReading:
    """Return what all CPUs did."""
    return CpuReading(count=4, busy_microseconds=busy, steal_microseconds=0)


def target(used: int, pod: str = POD, gpus: list[GpuUse] | None = None) -> WorkloadReading:
    """Return what a server used."""
    return WorkloadReading(pod_uid=pod, cpu_microseconds=used, gpus=gpus or [])


def window(
    first: dict[str, Any],
    last: dict[str, Any],
    *,
    idle: tuple[dict[str, Any], dict[str, Any]] | None = None,
    targets: int = 1,
    node: str = "n",
    seconds: int = 10,
) -> NodeWindow:
    """Return a window of two samples, after an idle time of five seconds."""
    before = None
    if idle is not None:
        before = (
            TimedSample(-10 * SECOND, sample(90 * SECOND, **idle[0])),
            TimedSample(-5 * SECOND, sample(95 * SECOND, **idle[1])),
        )
    edges = (
        TimedSample(0, sample(100 * SECOND, **first)),
        TimedSample(seconds * SECOND, sample((100 + seconds) * SECOND, **last)),
    )
    return NodeWindow(node, targets, edges, before)


def found(*windows: NodeWindow, terms: EnergyTerms = METERED, **worked: Any) -> Energy:
    """Return the energy of a load of 1,000 inferences in ten seconds."""
    done = {"inferences": 1000, "duration_ns": TEN_SECONDS, "server_cpu_seconds": None, **worked}
    return energy(windows, terms, WorkDone(**done))


def a_package(
    joules: int, *, busy: int, used: int | None, idle_watts: int | None = None, **more: Any
) -> NodeWindow:
    """Return a window in which a package took so much and CPUs were busy so many microseconds."""
    targets = [] if used is None else [target(used)]
    idle = None
    if idle_watts is not None:
        idle = ({"energy": [package(0)]}, {"energy": [package(idle_watts * 5_000_000)]})
    return window(
        {"energy": [package(5)], "cpu": cpu(7), "workloads": [target(0)]},
        {"energy": [package(5 + joules * 1_000_000)], "cpu": cpu(7 + busy), "workloads": targets},
        idle=idle,
        **more,
    )


def gpu_terms() -> EnergyTerms:
    """Return the terms of a run on GPUs."""
    return EnergyTerms(disabled=False, unmetered="", milliwatts_per_core=None, on_gpu=True)
