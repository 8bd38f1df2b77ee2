"""Takes samples of this node, and compares each with the one before."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from inferometer_api.results.agent_sample import AgentSample, MissingSource, Source
from inferometer_telemetry.cgroups import Cgroups
from inferometer_telemetry.cpu_gauges import Gauges, read_gauges
from inferometer_telemetry.kernel_files import UnreadableError, text
from inferometer_telemetry.node import NodeReader, NodeReading
from inferometer_telemetry.rapl import Rapl, RaplReading
from inferometer_telemetry.sources import GpuSource, GpuSourceReading, Target
from inferometer_telemetry.targets import TargetsReading, TargetTracker

FLOOR_NS = 50_000_000
"""A client that requests a sample sooner gets the one before, with its time: from faster readings
of an energy counter one can guess what a processor computes (CVE-2020-8694)."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """What time it is, and what is unique."""

    monotonic_ns: Callable[[], int]
    unix_ns: Callable[[], int]
    unique: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Places:
    """Where the sources are read. Each is None if it is switched off."""

    sys: Path | None
    """Of the node's gauges."""
    rapl: Path | None
    proc: Path
    cgroup: Path | None


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest of the samples that are taken at each interval."""

    sample: AgentSample
    watts: Mapping[str, float]
    """By energy domain: since the sample before, or what a GPU reports."""
    available: Mapping[Source, bool]
    """Which sources give figures."""
    samples: int
    """The number of samples since the start, including those for clients."""
    seconds: float
    """What they took together."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """What was read of the whole node, and when."""

    monotonic_ns: int
    unix_ns: int
    energy: RaplReading
    node: NodeReading


class Sampler:
    """All sources of a node."""

    def __init__(
        self, places: Places, gpus: GpuSource | None, *, node: str, version: str, clocks: Clocks
    ) -> None:
        self._places = places
        self._gpus = gpus
        self._name, self._version, self._clocks = node, version, clocks
        self._rapl = None if places.rapl is None else Rapl(places.rapl)
        self._node = None if places.sys is None else NodeReader(places.proc)
        self._cgroups = None if places.cgroup is None else Cgroups(places.cgroup)
        self._targets = TargetTracker(places.proc, self._cgroups)
        self._instance = clocks.unique()
        self._boot_id = boot_id(places.proc)
        self._gauges = Gauges()
        self._moment: _Moment | None = None
        """The newest reading."""
        self._sampled_ns = -FLOOR_NS
        """When a reading was last taken since a client requested one."""
        self._samples = 0
        self._spent_ns = 0
        self.latest: Latest | None = None
        """The newest regular sample; None if it failed."""

    def look(self) -> Gauges:
        """Return what changes slowly and may take long to read; safe in another thread."""
        return Gauges() if self._places.sys is None else read_gauges(self._places.sys)

    def tick(self, gauges: Gauges) -> Latest:
        """Take the next of the regular samples, with gauges that were just looked at."""
        before, self.latest = self.latest, None
        self._gauges = gauges
        known = self._targets.forget_old(self._clocks.monotonic_ns())
        # the targets' usage is only read for clients; that of GPUs is summed up between samples
        sample = self._take(self._read(), known, lambda *_: TargetsReading())
        self.latest = Latest(
            sample,
            watts(None if before is None else before.sample, sample),
            available(sample, has_cgroups=self._has_cgroups()),
            self._samples,
            self._spent_ns / 1e9,
        )
        return self.latest

    def sample(self, requested: Collection[Target]) -> AgentSample:
        """Return what the node reports now, of these targets; they are known from now on.

        Within FLOOR_NS of the previous sample it returns that reading, with its time.
        """
        now_ns = self._clocks.monotonic_ns()
        moment = self._moment
        if moment is None or now_ns - self._sampled_ns >= FLOOR_NS:
            moment = self._read()
            self._sampled_ns = moment.monotonic_ns
        return self._take(moment, requested, self._targets.track)

    def scrape(self) -> Latest | None:
        """Return the newest regular sample, with what all known targets have used until now."""
        if self.latest is None:
            return None
        now_ns = self._clocks.monotonic_ns()
        targets = self._targets.read(self._targets.forget_old(now_ns), now_ns).readings({})
        sample = self.latest.sample.model_copy(update={"workloads": targets})
        return replace(self.latest, sample=sample)

    def close(self) -> None:
        """Let go of what the sources hold."""
        if self._gpus is not None:
            self._gpus.close()

    def _read(self) -> _Moment:
        now_ns, unix_ns = self._clocks.monotonic_ns(), self._clocks.unix_ns()
        energy = RaplReading() if self._rapl is None else self._rapl.read(now_ns)
        node = NodeReading() if self._node is None else self._node.read(self._gauges)
        if not energy.goes_on:
            # Earlier readings cannot be compared with later ones.
            self._instance = self._clocks.unique()
        self._moment = _Moment(now_ns, unix_ns, energy, node)
        self._spent_ns += self._clocks.monotonic_ns() - now_ns
        return self._moment

    def _take(
        self,
        moment: _Moment,
        requested: Collection[Target],
        read: Callable[[Collection[Target], int], TargetsReading],
    ) -> AgentSample:
        began_ns = self._clocks.monotonic_ns()
        now_ns, energy, node = moment.monotonic_ns, moment.energy, moment.node
        targets = read(requested, began_ns)
        gpus = (
            GpuSourceReading()
            if self._gpus is None
            else self._gpus.read(now_ns, requested, self._targets.owners)
        )
        sample = AgentSample(
            agent_version=self._version,
            instance=self._instance,
            node=self._name,
            boot_id=self._boot_id,
            monotonic_ns=now_ns,
            unix_ns=moment.unix_ns,
            energy=[*energy.energy, *gpus.energy],
            cpu=node.cpu,
            gpus=gpus.gpus,
            workloads=targets.readings(gpus.uses),
            missing=[
                *self._off(),
                *energy.missing,
                *node.missing,
                *self._about_cgroups(),
                *targets.missing,
                *gpus.missing,
            ],
        )
        self._samples += 1
        self._spent_ns += self._clocks.monotonic_ns() - began_ns
        return sample

    def _off(self) -> list[MissingSource]:
        sources: dict[Source, object] = {
            "rapl": self._rapl,
            "nvml": self._gpus,
            "cgroup": self._cgroups,
            "node": self._node,
        }
        return [
            MissingSource(source=name, reason=f"it is switched off (--no-{name})")
            for name, source in sources.items()
            if source is None
        ]

    def _has_cgroups(self) -> bool:
        return self._cgroups is not None and self._cgroups.hierarchies() is not None

    def _about_cgroups(self) -> list[MissingSource]:
        if self._cgroups is None:
            return []
        found = self._cgroups.hierarchies()
        if found is None:
            reason = f"there are no control groups at {self._cgroups.root}"
            return [MissingSource(source="cgroup", reason=reason)]
        if found.version == 1:
            reason = "control groups v1 do not report how long a pod's threads wait (PSI)"
            return [MissingSource(source="cgroup", subject="pressure", reason=reason)]
        return []


def boot_id(proc_root: Path) -> str:
    """Return the ID of this start of this machine; empty if the kernel has none."""
    try:
        return text(proc_root / "sys/kernel/random/boot_id").strip()
    except UnreadableError:
        return ""


def watts(before: AgentSample | None, now: AgentSample) -> Mapping[str, float]:
    """Return the power of each energy domain: its GPU's figure, else the mean between samples."""
    milliwatts_by_gpu = {gpu.uuid: gpu.power_milliwatts for gpu in now.gpus}
    earlier: dict[str, int] = {}
    elapsed_ns = 1
    if before is not None and before.instance == now.instance:
        earlier = {reading.domain: reading.microjoules for reading in before.energy}
        elapsed_ns = max(1, now.monotonic_ns - before.monotonic_ns)
    found: dict[str, float] = {}
    for reading in now.energy:
        milliwatts = milliwatts_by_gpu.get(reading.gpu_uuid)
        if milliwatts is not None:
            found[reading.domain] = milliwatts / 1e3
        elif reading.domain in earlier:
            grown = reading.microjoules - earlier[reading.domain]
            found[reading.domain] = grown * 1e3 / elapsed_ns
    return found


def available(sample: AgentSample, *, has_cgroups: bool) -> Mapping[Source, bool]:
    """Return which sources give figures."""
    return {
        "rapl": any(reading.kind != "Gpu" for reading in sample.energy),
        "nvml": bool(sample.gpus),
        "cgroup": has_cgroups,
        "node": sample.cpu is not None,
    }
