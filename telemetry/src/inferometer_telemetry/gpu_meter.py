"""What does one GPU add to a sample?"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from inferometer_api.telemetry import EnergyReading, GpuReading, GpuUse, MissingSource
from inferometer_telemetry import nvml
from inferometer_telemetry.gpu_busy import GpuBusy
from inferometer_telemetry.gpu_energy import GpuEnergy
from inferometer_telemetry.gpu_snapshot import Snapshot
from inferometer_telemetry.sources import Owners, Target

_SILENT = frozenset({nvml.ENERGY, nvml.GRAPHICS, nvml.MIG_MODE})
"""What most GPUs lack, or what is told of where it is missed."""
_HIDDEN = (
    "the processes on it cannot be seen from a PID namespace of the agent's own: its pod needs "
    "hostPID"
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
        lacks = [
            f"{question.what} is not told: {why}"
            for question, why in told.untold.items()
            if question not in _SILENT
        ]
        busy_microseconds = self.busy.take(now_ns, told, owners)
        if told.process_ids is not None and not self.busy.processes_seen:
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
        if told.process_ids is None or not self.busy.processes_seen:
            return None
        return not all(set(owners(each)) & set(asked) for each in told.process_ids)

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
