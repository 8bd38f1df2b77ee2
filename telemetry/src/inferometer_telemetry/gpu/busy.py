"""The busy time of one GPU, in total and per target."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from inferometer_telemetry.gpu.snapshot import ProcessSample, Snapshot
from inferometer_telemetry.gpu.totals import Integral
from inferometer_telemetry.sources import Owners, Target

_PERIOD_MICROSECONDS = 1_000_000
"""The most that a sample of utilisation covers, by NVML's documentation: after an idle time a
sample does not reach back to the one before."""
_FORGOTTEN_NS = 3_600_000_000_000


@dataclass(slots=True)
class _Use:
    """What a target had of the GPU."""

    percent_microseconds: int = 0
    seen_ns: int = 0


@dataclass(slots=True)
class GpuBusy:
    """Sums up what a GPU reports of itself, and of its processes.

    The two are measured apart, and need not add up: a process that has ended, or is hidden, was on
    the GPU all the same.
    """

    all_seen: bool
    """Whether the whole node's processes are seen, so that no other process is on the GPU."""
    since_microseconds: int = 0
    """The time stamp of the newest sample, by the driver's clock."""
    _has_begun: bool = False
    _utilization: Integral = field(default_factory=lambda: Integral(trapezoid=False))
    _read_ns: int = 0
    _uses: dict[Target, _Use] = field(default_factory=dict)

    def take(self, now_ns: int, snapshot: Snapshot, owners: Owners) -> int | None:
        """Take what the GPU reports now, and return for how many microseconds it was busy."""
        for process_id in snapshot.process_ids or ():
            self._mark_seen(now_ns, owners(process_id))
        for sample, busy in self._weigh(now_ns, snapshot.process_samples or ()):
            if self._has_begun:  # at first the driver hands out what was before the start
                for use in self._mark_seen(now_ns, owners(sample.process_id)):
                    use.percent_microseconds += busy
        self._has_begun = True
        self._forget(now_ns)
        self._read_ns = now_ns
        if snapshot.utilization_percent is None:
            return None
        percent_ns = self._utilization.advance(now_ns, snapshot.utilization_percent)
        return None if percent_ns is None else percent_ns // 100_000

    def uses(
        self, snapshot: Snapshot, requested: Collection[Target], owners: Owners
    ) -> Mapping[Target, int | None]:
        """Return how long the GPU was busy for each requested target that has been seen on it."""
        now = {target for each in snapshot.process_ids or () for target in owners(each)}
        return {
            target: self._uses[target].percent_microseconds // 100
            if snapshot.process_samples is not None
            else None
            for target in requested
            if target in now or target in self._uses
        }

    def _weigh(
        self, now_ns: int, samples: tuple[ProcessSample, ...]
    ) -> list[tuple[ProcessSample, int]]:
        """Return with each sample its percent x the time since the one before."""
        longest = max(_PERIOD_MICROSECONDS, (now_ns - self._read_ns) // 1000)
        until: dict[int, int] = {}
        found = []
        for sample in sorted(samples, key=lambda each: each.until_microseconds):
            began = until.get(sample.process_id, self.since_microseconds)
            until[sample.process_id] = sample.until_microseconds
            passed = min(sample.until_microseconds - began, longest)
            found.append((sample, min(sample.percent, 100) * max(passed, 0)))
        self.since_microseconds = max([self.since_microseconds, *until.values()])
        return found

    def _mark_seen(self, now_ns: int, targets: Collection[Target]) -> list[_Use]:
        uses = [self._uses.setdefault(target, _Use()) for target in targets]
        for use in uses:
            use.seen_ns = now_ns
        return uses

    def _forget(self, now_ns: int) -> None:
        for target, use in list(self._uses.items()):
            if now_ns - use.seen_ns > _FORGOTTEN_NS:
                del self._uses[target]
