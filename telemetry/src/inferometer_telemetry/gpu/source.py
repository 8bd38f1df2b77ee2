"""The GPUs of this node as a source of figures."""

from collections.abc import Collection
from pathlib import Path

from inferometer_api.results.agent_sample import GpuUse, MissingSource
from inferometer_telemetry.gpu import nvml
from inferometer_telemetry.gpu.busy import GpuBusy
from inferometer_telemetry.gpu.meter import GpuMeter, GpuMeterReading
from inferometer_telemetry.gpu.nvml import Call, Handle, NvmlError
from inferometer_telemetry.gpu.nvml_recorded import RecordedNvml
from inferometer_telemetry.gpu.snapshot import Snapshot, snapshot
from inferometer_telemetry.sources import GpuSource, GpuSourceReading, Owners, Target

_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO of include/linux/proc_ns.h."""
_AGAIN_NS = 60_000_000_000
"""How long a driver or a GPU that is not there is left alone."""


def open_gpus(root: Path | None) -> GpuSource:
    """Return the GPUs of this node by NVML, or those of the recorded tree `root`.

    Never fails: what is not there is `missing` in each reading.
    """
    if root is not None:
        return Gpus(RecordedNvml(root), all_seen=True)
    return Gpus(nvml.library, all_seen=in_first_pid_namespace())


def in_first_pid_namespace(own: Path = Path("/proc/self/ns/pid")) -> bool:
    """Return whether this process is in the PID namespace that the node began with.

    NVIDIA's driver reports processes by their IDs in the asker's namespace and leaves out those
    that have none there (os_find_ns_pid in its kernel modules).
    """
    try:
        return own.stat().st_ino == _FIRST_PID_NAMESPACE
    except OSError:
        return False


class Gpus:
    """The GPUs that a library knows; it is opened at the first reading, and again when it ends."""

    def __init__(self, call: Call, *, all_seen: bool) -> None:
        self._call = call
        self._all_seen = all_seen
        self._count = 0
        self._meters: dict[str, GpuMeter] = {}
        self._known: dict[int, GpuMeter] = {}
        self._snapshots: dict[int, tuple[int, Snapshot]] = {}
        self._away: dict[int, tuple[int, MissingSource]] = {}
        self._closed: tuple[int, MissingSource] | None = None

    def read(self, now_ns: int, requested: Collection[Target], owners: Owners) -> GpuSourceReading:
        """Return what the GPUs report now."""
        if not self._count:
            if self._closed is not None and now_ns < self._closed[0]:
                return GpuSourceReading(missing=[self._closed[1]])
            try:
                self._count = nvml.open_nvml(self._call)
            except NvmlError as error:
                return self._end(now_ns, str(error))
        try:
            found = [self._one(now_ns, at, requested, owners) for at in range(self._count)]
        except NvmlError as error:
            return self._end(now_ns, f"NVIDIA's driver went away: {error}")
        return _together(found)

    def close(self) -> None:
        """Let go of the library."""
        if self._count:
            nvml.close_nvml(self._call)
            self._count = 0

    def _one(
        self, now_ns: int, index: int, requested: Collection[Target], owners: Owners
    ) -> GpuMeterReading | MissingSource:
        """Return what one GPU gives; raises NvmlError if the driver is gone."""
        if index in self._away and now_ns < self._away[index][0]:
            return self._away[index][1]
        try:
            meter, latest = self._snapshot_of(now_ns, index)
        except NvmlError as error:
            if error.code in nvml.DRIVER_GONE:
                raise
            known = self._known.get(index)
            lost = MissingSource(
                source="nvml",
                subject=known.uuid if known else f"gpu-{index}",
                reason=f"the GPU does not answer: {error}",
            )
            self._away[index] = (now_ns + _AGAIN_NS, lost)
            return lost
        self._away.pop(index, None)
        return meter.read(now_ns, latest, requested, owners)

    def _snapshot_of(self, now_ns: int, index: int) -> tuple[GpuMeter, Snapshot]:
        """Return what a GPU reports, which is queried once per moment. Raises NvmlError."""
        at_ns, latest = self._snapshots.get(index, (None, None))
        if latest is None or at_ns != now_ns:
            handle = nvml.gpu_at(self._call, index)
            meter = self._meter(index, handle)
            latest = snapshot(self._call, handle, meter.busy.since_microseconds)
            self._snapshots[index] = now_ns, latest
        return self._known[index], latest

    def _meter(self, index: int, handle: Handle) -> GpuMeter:
        """Return the meter of a GPU; one that came back, at whatever index, goes on counting."""
        if index not in self._known:
            uuid = str(nvml.ask(self._call, handle, nvml.UUID))
            if uuid not in self._meters:
                name = str(nvml.ask(self._call, handle, nvml.NAME))
                busy = GpuBusy(all_seen=self._all_seen)
                self._meters[uuid] = GpuMeter(uuid=uuid, index=index, name=name, busy=busy)
            self._meters[uuid].index = index
            self._known[index] = self._meters[uuid]
        return self._known[index]

    def _end(self, now_ns: int, reason: str) -> GpuSourceReading:
        self.close()
        self._known.clear()
        self._snapshots.clear()
        self._away.clear()
        self._closed = (now_ns + _AGAIN_NS, MissingSource(source="nvml", reason=reason))
        return GpuSourceReading(missing=[self._closed[1]])


def _together(found: Collection[GpuMeterReading | MissingSource]) -> GpuSourceReading:
    uses: dict[Target, list[GpuUse]] = {}
    together = GpuSourceReading(uses=uses)
    for each in found:
        if isinstance(each, MissingSource):
            together.missing.append(each)
            continue
        together.gpus.append(each.gpu)
        together.energy.extend([each.energy] if each.energy else [])
        together.missing.extend(each.missing)
        for target, use in each.uses.items():
            uses.setdefault(target, []).append(use)
    return together
