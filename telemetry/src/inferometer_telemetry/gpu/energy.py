"""The energy that one GPU has used since the agent's start."""

from dataclasses import dataclass, field

from inferometer_api.results.agent_sample import EnergyMethod
from inferometer_telemetry.gpu import nvml
from inferometer_telemetry.gpu.snapshot import Snapshot
from inferometer_telemetry.gpu.totals import GAP_NS, Counter, Integral

_AGAIN = "its energy is known again when the agent is restarted"


@dataclass(slots=True)
class GpuEnergy:
    """By the GPU's own counter or, where it never had one, by summing up its power."""

    _counter: Counter = field(default_factory=Counter)
    _power: Integral = field(default_factory=lambda: Integral(trapezoid=True))
    _has_counter: bool | None = None
    """Decided once: two ways do not add up to one figure."""

    def read(self, now_ns: int, told: Snapshot) -> tuple[EnergyMethod, int] | str:
        """Take what the GPU tells now; return how it is known and microjoules, or why it is not."""
        if self._has_counter is None:
            self._has_counter = _decided(told)
        return self._integrated(now_ns, told) if self._has_counter is False else self._counted(told)

    def _counted(self, told: Snapshot) -> tuple[EnergyMethod, int] | str:
        if told.energy_millijoules is None:
            return f"its energy counter is not told: {told.untold[nvml.ENERGY]}"
        millijoules = self._counter.grown(told.energy_millijoules)
        if millijoules is None:
            return f"its energy counter went back, as after a start of the driver: {_AGAIN}"
        return "Counter", millijoules * 1000

    def _integrated(self, now_ns: int, told: Snapshot) -> tuple[EnergyMethod, int] | str:
        if told.power_milliwatts is None:
            return f"it has no energy counter, and its power is not told: {told.untold[nvml.POWER]}"
        picojoules = self._power.grown(now_ns, told.power_milliwatts)
        if picojoules is None:
            return f"its power was not told for more than {GAP_NS // 10**9} s: {_AGAIN}"
        return "PowerIntegral", picojoules // 1_000_000


def _decided(told: Snapshot) -> bool | None:
    """Return whether the GPU has a counter; None where it has not told yet."""
    if told.energy_millijoules is not None:
        return True
    return False if nvml.ENERGY in told.unsupported else None
