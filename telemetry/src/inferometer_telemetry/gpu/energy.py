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

    def read(self, now_ns: int, snapshot: Snapshot) -> tuple[EnergyMethod, int] | str:
        """Take a reading; return the method and microjoules, or the reason why there are none."""
        if self._has_counter is None:
            self._has_counter = _decided(snapshot)
        return (
            self._integrate(now_ns, snapshot)
            if self._has_counter is False
            else self._count(snapshot)
        )

    def _count(self, snapshot: Snapshot) -> tuple[EnergyMethod, int] | str:
        if snapshot.energy_millijoules is None:
            return f"its energy counter is not available: {snapshot.unanswered[nvml.ENERGY]}"
        millijoules = self._counter.advance(snapshot.energy_millijoules)
        if millijoules is None:
            return f"its energy counter went back, as after a start of the driver: {_AGAIN}"
        return "Counter", millijoules * 1000

    def _integrate(self, now_ns: int, snapshot: Snapshot) -> tuple[EnergyMethod, int] | str:
        if snapshot.power_milliwatts is None:
            reason = snapshot.unanswered[nvml.POWER]
            return f"it has no energy counter, and its power is not available: {reason}"
        picojoules = self._power.advance(now_ns, snapshot.power_milliwatts)
        if picojoules is None:
            return f"its power was not available for more than {GAP_NS // 10**9} s: {_AGAIN}"
        return "PowerIntegral", picojoules // 1_000_000


def _decided(snapshot: Snapshot) -> bool | None:
    """Return whether the GPU has a counter; None if it has not reported yet."""
    if snapshot.energy_millijoules is not None:
        return True
    return False if nvml.ENERGY in snapshot.unsupported else None
