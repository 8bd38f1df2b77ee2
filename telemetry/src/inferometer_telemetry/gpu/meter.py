"""The figures of one GPU in a sample."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from inferometer_api.results.agent_sample import EnergyReading, GpuReading, GpuUse, MissingSource
from inferometer_telemetry.gpu import nvml
from inferometer_telemetry.gpu.busy import GpuBusy
from inferometer_telemetry.gpu.energy import GpuEnergy
from inferometer_telemetry.gpu.snapshot import Snapshot
from inferometer_telemetry.sources import Owners, Target

_SILENT = frozenset({nvml.ENERGY, nvml.GRAPHICS, nvml.MIG_MODE})
"""Figures that most GPUs lack, or that another entry already reports as missing."""
_HIDDEN = (
    "processes of others on it are not seen, since the agent is not in the node's own PID "
    "namespace; a pod needs hostPID"
)


@dataclass(frozen=True, slots=True)
class GpuMeterReading:
    """What one reading of one GPU gave."""

    gpu: GpuReading
    energy: EnergyReading | None
    uses: Mapping[Target, GpuUse]
    missing: list[MissingSource]


@dataclass(slots=True)
class GpuMeter:
    """One GPU, which is read again and again."""

    uuid: str
    index: int
    name: str
    busy: GpuBusy
    energy: GpuEnergy = field(default_factory=GpuEnergy)

    def read(
        self, now_ns: int, snapshot: Snapshot, requested: Collection[Target], owners: Owners
    ) -> GpuMeterReading:
        """Take a reading and return the GPU's figures."""
        lacks = _unanswered(snapshot)
        busy_microseconds = self.busy.take(now_ns, snapshot, owners)
        if snapshot.process_ids is not None and not self.busy.all_seen:
            lacks.append(_HIDDEN)
        match self.energy.read(now_ns, snapshot):
            case str(reason):
                energy = None
                lacks.append(reason)
            case method, microjoules:
                energy = EnergyReading(
                    domain=f"gpu-{self.index}",
                    kind="Gpu",
                    method=method,
                    microjoules=microjoules,
                    gpu_uuid=self.uuid,
                )
        return GpuMeterReading(
            gpu=self._reading(
                snapshot, busy_microseconds, foreign=self._foreign(snapshot, requested, owners)
            ),
            energy=energy,
            uses={
                target: GpuUse(gpu_uuid=self.uuid, busy_microseconds=busy)
                for target, busy in self.busy.uses(snapshot, requested, owners).items()
            },
            missing=[MissingSource(source="nvml", subject=self.uuid, reason=one) for one in lacks],
        )

    def _foreign(
        self, snapshot: Snapshot, requested: Collection[Target], owners: Owners
    ) -> bool | None:
        if snapshot.process_ids is None:
            return None
        if any(set(owners(each)).isdisjoint(requested) for each in snapshot.process_ids):
            return True
        return False if self.busy.all_seen else None

    def _reading(
        self, snapshot: Snapshot, busy_microseconds: int | None, *, foreign: bool | None
    ) -> GpuReading:
        return GpuReading(
            uuid=self.uuid,
            index=self.index,
            name=self.name,
            busy_microseconds=busy_microseconds,
            foreign=foreign,
            mig=snapshot.mig,
            utilization_percent=snapshot.utilization_percent,
            memory_used_bytes=snapshot.memory_used_bytes,
            memory_total_bytes=snapshot.memory_total_bytes,
            power_milliwatts=snapshot.power_milliwatts,
            clock_hertz=snapshot.clock_hertz,
            temperature_millidegrees_celsius=snapshot.temperature_millidegrees_celsius,
            throttle_reasons=snapshot.throttle_reasons,
        )


def _unanswered(snapshot: Snapshot) -> list[str]:
    """Return a sentence for each of NVML's reasons, with all that it is the reason for."""
    by_reason: dict[str, list[str]] = {}
    for question, why in snapshot.unanswered.items():
        if question not in _SILENT:
            by_reason.setdefault(why, []).append(question.what)
    return [f"NVML does not report {', '.join(whats)}: {why}" for why, whats in by_reason.items()]
