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
"""What most GPUs lack, or what is told of where it is missed."""
_HIDDEN = (
    "processes of others on it are not seen, since the agent is not in the node's own PID "
    "namespace; a pod needs hostPID"
)


@dataclass(frozen=True, slots=True)
class GpuFound:
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
        self, now_ns: int, told: Snapshot, asked: Collection[Target], owners: Owners
    ) -> GpuFound:
        """Sum up what the GPU tells now and return what it comes to."""
        lacks = _untold(told)
        busy_microseconds = self.busy.take(now_ns, told, owners)
        if told.process_ids is not None and not self.busy.all_seen:
            lacks.append(_HIDDEN)
        match self.energy.read(now_ns, told):
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
        return GpuFound(
            gpu=self._reading(told, busy_microseconds, foreign=self._foreign(told, asked, owners)),
            energy=energy,
            uses={
                target: GpuUse(gpu_uuid=self.uuid, busy_microseconds=busy)
                for target, busy in self.busy.uses(told, asked, owners).items()
            },
            missing=[MissingSource(source="nvml", subject=self.uuid, reason=one) for one in lacks],
        )

    def _foreign(self, told: Snapshot, asked: Collection[Target], owners: Owners) -> bool | None:
        if told.process_ids is None:
            return None
        if any(set(owners(each)).isdisjoint(asked) for each in told.process_ids):
            return True
        return False if self.busy.all_seen else None

    def _reading(
        self, told: Snapshot, busy_microseconds: int | None, *, foreign: bool | None
    ) -> GpuReading:
        return GpuReading(
            uuid=self.uuid,
            index=self.index,
            name=self.name,
            busy_microseconds=busy_microseconds,
            foreign=foreign,
            mig=told.mig,
            utilization_percent=told.utilization_percent,
            memory_used_bytes=told.memory_used_bytes,
            memory_total_bytes=told.memory_total_bytes,
            power_milliwatts=told.power_milliwatts,
            clock_hertz=told.clock_hertz,
            temperature_millidegrees_celsius=told.temperature_millidegrees_celsius,
            throttle_reasons=told.throttle_reasons,
        )


def _untold(told: Snapshot) -> list[str]:
    """Return a sentence for each of NVML's reasons, with all that it is the reason for."""
    by_reason: dict[str, list[str]] = {}
    for question, why in told.untold.items():
        if question not in _SILENT:
            by_reason.setdefault(why, []).append(question.what)
    return [f"NVML does not tell {', '.join(whats)}: {why}" for why, whats in by_reason.items()]
