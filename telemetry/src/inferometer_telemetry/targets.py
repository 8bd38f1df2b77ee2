"""The known targets, their usage, and the target of a process."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inferometer_api.results.agent_sample import GpuUse, MissingSource, WorkloadReading
from inferometer_telemetry.cgroups import Cgroups
from inferometer_telemetry.counting import MOST_BYTES, Highest, Rising
from inferometer_telemetry.kernel_files import UnreadableError, text
from inferometer_telemetry.pod_usage import Usage, pod_usage
from inferometer_telemetry.processes import Tree, process_tree
from inferometer_telemetry.sources import Target

MOST_KNOWN = 256
KNOWN_NS = 300 * 10**9
"""How long a target is known after it was last requested."""
POD_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_COUNTS = (
    "cpu_microseconds",
    "throttled_microseconds",
    "cpu_pressure_microseconds",
    "memory_pressure_microseconds",
    "io_pressure_microseconds",
)


@dataclass(slots=True)
class _Known:
    requested_ns: int
    counts: dict[str, Rising | Highest] = field(default_factory=dict)
    started: int | None = None
    process_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class TargetsReading:
    """One reading of some targets."""

    used: Mapping[Target, Usage] = field(default_factory=dict)
    """The usage of the requested targets that were found."""
    started: Mapping[Target, int] = field(default_factory=dict)
    """When processes of these began, in ticks since the boot."""
    missing: list[MissingSource] = field(default_factory=list)

    def readings(self, gpus: Mapping[Target, list[GpuUse]]) -> list[WorkloadReading]:
        """Return the targets' readings of a sample, with their use of GPUs."""
        return [
            WorkloadReading(
                pod_uid=target.pod_uid,
                process_id=target.process_id,
                start_ticks=self.started.get(target),
                cpu_microseconds=used.cpu_microseconds,
                throttled_microseconds=used.throttled_microseconds,
                memory_bytes=used.memory_bytes,
                cpu_pressure_microseconds=used.cpu_pressure_microseconds,
                memory_pressure_microseconds=used.memory_pressure_microseconds,
                io_pressure_microseconds=used.io_pressure_microseconds,
                gpus=gpus.get(target, []),
            )
            for target, used in self.used.items()
            if used.cpu_microseconds is not None
        ]


class TargetTracker:
    """The targets that were requested within the last minutes, and were found."""

    def __init__(self, proc_root: Path, cgroups: Cgroups | None) -> None:
        self._proc = proc_root
        self._cgroups = cgroups
        self._known: dict[Target, _Known] = {}

    def forget_old(self, now_ns: int) -> list[Target]:
        """Forget the targets that no client requested lately, and return the others."""
        for target, known in list(self._known.items()):
            if now_ns - known.requested_ns > KNOWN_NS:
                del self._known[target]
        return list(self._known)

    def track(self, targets: Collection[Target], now_ns: int) -> TargetsReading:
        """Return what these targets used, and know them from now on."""
        found = self.read(targets, now_ns)
        for target in found.used:
            known = self._known.pop(target)
            known.requested_ns = now_ns
            self._known[target] = known
        while len(self._known) > MOST_KNOWN:
            # The first is the one that was requested the longest ago.
            del self._known[next(iter(self._known))]
        return found

    def read(self, targets: Collection[Target], now_ns: int) -> TargetsReading:
        """Return what these targets used, as the kernel counts it, and what of it is not known."""
        used: dict[Target, Usage] = {}
        started: dict[Target, int] = {}
        missing: list[MissingSource] = []
        for target in targets:
            try:
                usage, known = self._usage(target, now_ns)
            except UnreadableError as error:
                missing.append(_missing(target, str(error)))
                continue
            _let_never_fall(usage, known, Rising if target.pod_uid else Highest)
            if usage.cpu_microseconds is not None:
                self._known[target] = known
                used[target] = usage
                if known.started is not None:
                    started[target] = known.started
            missing += [_missing(target, problem) for problem in usage.problems]
        return TargetsReading(used, started, missing)

    def owners(self, process_id: int) -> Collection[Target]:
        """Return the known targets that a process belongs to."""
        try:
            groups = text(self._proc / str(process_id) / "cgroup")
        except UnreadableError:
            groups = ""
        return [
            target
            # GPUs are read in a thread of their own.
            for target, known in list(self._known.items())
            if process_id in known.process_ids
            or (target.pod_uid and _is_in(target.pod_uid, groups))
        ]

    def _usage(self, target: Target, now_ns: int) -> tuple[Usage, _Known]:
        known = self._known.get(target) or _Known(requested_ns=now_ns)
        if target.process_id is not None:
            tree = process_tree(self._proc, target.process_id)
            _same(target, tree, known)
            known.started, known.process_ids = tree.started, tree.process_ids
            return tree.usage, known
        if self._cgroups is None:
            raise UnreadableError("control groups are switched off (--no-cgroup)")
        pod = self._cgroups.pod(target.pod_uid, now_ns)
        if pod is None:
            raise UnreadableError(
                f"no control group below {self._cgroups.root} is this pod's: it has ended, or runs "
                "on another node"
            )
        return pod_usage(pod), known


def _same(target: Target, tree: Tree, known: _Known) -> None:
    if known.started not in {None, tree.started}:
        raise UnreadableError(
            f"process {target.process_id} has ended, and another one has its number now"
        )


def _let_never_fall(usage: Usage, known: _Known, count_of: type[Rising | Highest]) -> None:
    for name in _COUNTS:
        reading: int | None = getattr(usage, name)
        if reading is None:
            continue
        count = known.counts.get(name)
        if count is None:
            count = known.counts[name] = count_of.at(reading)
        elif not count.take(reading):
            usage.problems.append(f"the kernel's count of its {name} went back")
        setattr(usage, name, count.total)
    if usage.memory_bytes is not None and usage.memory_bytes > MOST_BYTES:
        usage.problems.append(f"{usage.memory_bytes} bytes of memory cannot be")
        usage.memory_bytes = None


def _is_in(pod_uid: str, groups: str) -> bool:
    return f"pod{pod_uid}" in groups or f"pod{pod_uid.replace('-', '_')}" in groups


def _missing(target: Target, reason: str) -> MissingSource:
    return MissingSource(source="cgroup", subject=target.label, reason=reason)
