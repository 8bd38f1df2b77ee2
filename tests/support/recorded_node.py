"""A recorded node with known joules, CPU seconds and pods, which a test advances.

A `RecordedNode` writes the trees that an agent reads as /sys, /proc and /sys/fs/cgroup. `advance`
lets time pass on it: counters grow by what is said, and wrap around where the kernel's would.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from support.recorded_pods import Layout, PodState, QosClass, RecordedPods, write

RANGE_MICROJOULES = 262_143_328_850
"""Where the counter of a package wraps around on most of Intel's processors: after 262 kJ."""
TICKS_A_SECOND = 100


@dataclass(slots=True)
class _Zone:
    folder: str
    microjoules: int


@dataclass(slots=True)
class _Process:
    parent: int
    ticks: int = 0
    memory_bytes: int = 2**20
    pod_uid: str = ""
    children: list[int] = field(default_factory=list)


class RecordedNode:
    """A recorded machine: packages with their memory, CPUs with sensors, pods, processes.

    `begin_joules` is what each energy counter shows at first: close to `RANGE_MICROJOULES` it
    wraps around soon.
    """

    def __init__(
        self,
        root: Path,
        *,
        cpus: int = 4,
        packages: int = 1,
        layout: Layout = "v2-systemd",
        below: str = "",
        begin_joules: float = 1000.0,
    ) -> None:
        self.root = root
        self.sys_root, self.proc_root = root / "sys", root / "proc"
        self.cgroup_root = self.sys_root / "fs/cgroup"
        self.pods = RecordedPods(self.cgroup_root, layout, below)
        self._cpus = cpus
        self._busy_seconds = 1000.0
        self._steal_seconds = 0.0
        self._states: dict[str, PodState] = {}
        self._processes: dict[int, _Process] = {}
        self._zones: dict[str, _Zone] = {}
        begin = round(begin_joules * 1e6)
        for package in range(packages):
            self._add_zone(f"package-{package}", f"intel-rapl:{package}", begin)
            self._add_zone(f"package-{package}-core", f"intel-rapl:{package}:0", begin)
            self._add_zone(f"package-{package}-dram", f"intel-rapl:{package}:1", begin)
        # The first package once more, by another way to the same counter.
        self._add_zone("package-0-mmio", "intel-rapl-mmio:0", begin)
        self._add_zone("psys", f"intel-rapl:{packages}", begin)
        self.show(kilohertz=2_400_000, millidegrees=48_000)
        self._store_proc()

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options with which an agent reads this node."""
        roots = (("sys", self.sys_root), ("proc", self.proc_root), ("cgroup", self.cgroup_root))
        return tuple(word for name, path in roots for word in (f"--{name}-root", str(path)))

    def powercap(self, folder: str) -> Path:
        """Return the folder of a zone: "intel-rapl:0"."""
        return self.sys_root / "class/powercap" / folder

    def add_pod(self, uid: str, qos: QosClass = "guaranteed", *, is_limited: bool = True) -> None:
        """Let a pod begin."""
        self._states[uid] = PodState(uid, qos, is_limited)
        self.pods.store(self._states[uid])

    def pod(self, uid: str) -> PodState:
        """Return what a pod has used: what is changed here is shown by the next `advance`."""
        return self._states[uid]

    def remove_pod(self, uid: str) -> None:
        """Let a pod end."""
        self.pods.remove(self._states.pop(uid))

    def add_process(self, process_id: int, *, parent: int = 1, pod_uid: str = "") -> None:
        """Let a process begin."""
        self._processes[process_id] = _Process(parent, pod_uid=pod_uid)
        if parent in self._processes:
            self._processes[parent].children.append(process_id)
            self._store_process(parent)
        self._store_process(process_id)

    def show(self, *, kilohertz: int, millidegrees: int, governor: str = "performance") -> None:
        """Set the frequency of every CPU, and the temperature of the first package."""
        for cpu in range(self._cpus):
            folder = self.sys_root / f"devices/system/cpu/cpu{cpu}/cpufreq"
            write(folder / "scaling_cur_freq", f"{kilohertz}\n")
            write(folder / "scaling_governor", f"{governor}\n")
        chip = self.sys_root / "class/hwmon/hwmon3"
        write(chip / "name", "coretemp\n")
        write(chip / "temp1_label", "Package id 0\n")
        write(chip / "temp1_input", f"{millidegrees}\n")
        other = self.sys_root / "class/hwmon/hwmon0"
        write(other / "name", "nvme\n")
        write(other / "temp1_input", "71850\n")

    def add_sensors(self, cores: int) -> None:
        """Give each core a sensor in addition to its package's."""
        chip = self.sys_root / "class/hwmon/hwmon3"
        for core in range(cores):
            write(chip / f"temp{core + 2}_label", f"Core {core}\n")
            write(chip / f"temp{core + 2}_input", "40000\n")

    def advance(
        self,
        *,
        joules: Mapping[str, float] | None = None,
        busy_seconds: float = 0.0,
        steal_seconds: float = 0.0,
        pods: Mapping[str, float] | None = None,
        processes: Mapping[int, float] | None = None,
    ) -> None:
        """Let something happen.

        `joules` by domain ("package-0", "package-0-dram"), `busy_seconds` of CPU time of the whole
        node; `pods` and `processes` say how many CPU seconds each had of them.
        """
        for domain, grown in (joules or {}).items():
            zone = self._zones[domain]
            zone.microjoules = (zone.microjoules + round(grown * 1e6)) % RANGE_MICROJOULES
            self._store_zone(zone)
        for uid, seconds in (pods or {}).items():
            self._states[uid].cpu_seconds += seconds
            self.pods.store(self._states[uid])
        for process_id, seconds in (processes or {}).items():
            self._processes[process_id].ticks += round(seconds * TICKS_A_SECOND)
            self._store_process(process_id)
        self._busy_seconds += busy_seconds
        self._steal_seconds += steal_seconds
        self._store_proc()

    def _add_zone(self, domain: str, folder: str, begin: int) -> None:
        zone = self._zones[domain] = _Zone(folder, begin)
        name = "package-0" if domain == "package-0-mmio" else domain
        for part in ("core", "dram"):
            name = part if name.endswith(f"-{part}") else name
        write(self.powercap(folder) / "name", f"{name}\n")
        write(self.powercap(folder) / "max_energy_range_uj", f"{RANGE_MICROJOULES}\n")
        self._store_zone(zone)

    def _store_zone(self, zone: _Zone) -> None:
        write(self.powercap(zone.folder) / "energy_uj", f"{zone.microjoules}\n")

    def _store_proc(self) -> None:
        busy, steal = (
            round(seconds * TICKS_A_SECOND) for seconds in (self._busy_seconds, self._steal_seconds)
        )
        system = busy // 4
        lines = [f"cpu  {busy - system} 0 {system} 987654 321 0 0 {steal} 5 0"]
        lines += [f"cpu{cpu} 1 0 1 1 1 0 0 0 0 0" for cpu in range(self._cpus)]
        write(self.proc_root / "stat", "\n".join([*lines, "intr 1 2 3", "ctxt 4", ""]))
        write(
            self.proc_root / "meminfo",
            "MemTotal:       16384000 kB\nMemFree:         1024000 kB\n"
            "MemAvailable:    8192000 kB\n",
        )

    def _store_process(self, process_id: int) -> None:
        process = self._processes[process_id]
        folder = self.proc_root / str(process_id)
        user = process.ticks // 2
        times = f"{user} {process.ticks - user} 0 0"
        write(
            folder / "stat",
            f"{process_id} (a (b) c) S {process.parent} 1 1 0 -1 4194304 9 0 0 0 {times} 20 0 1 0 "
            f"{7000 + process_id} 1000000 500\n",
        )
        kibibytes = process.memory_bytes // 1024
        write(folder / "status", f"Name:\tx\nRssAnon:\t{kibibytes} kB\nRssFile:\t99 kB\n")
        children = "".join(f"{child} " for child in process.children)
        write(folder / f"task/{process_id}/children", children)
        group = "/init.scope"
        if process.pod_uid:
            group = f"/{self.pods.path(self._states[process.pod_uid])}/{process_id}"
        write(folder / "cgroup", f"0::{group}\n")
