"""The control groups of a node's pods, in each layout that kubelets have."""

from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Literal

Layout = Literal["v2-systemd", "v2-cgroupfs", "v1-systemd", "v1-cgroupfs"]
QosClass = Literal["guaranteed", "burstable", "besteffort"]
CONTAINER_ID = "5f0d5c2b9d3e"


@dataclass(slots=True)
class PodState:
    """What a recorded pod has used until now."""

    uid: str
    qos: QosClass = "guaranteed"
    is_limited: bool = True
    cpu_seconds: float = 0.0
    throttled_seconds: float = 0.0
    memory_bytes: int = 256 * 2**20
    inactive_file_bytes: int = 16 * 2**20
    cpu_pressure_seconds: float = 0.0
    memory_pressure_seconds: float = 0.0
    io_pressure_seconds: float = 0.0


class RecordedPods:
    """The tree /sys/fs/cgroup of a node; `below` is a root of the kubelet's own."""

    def __init__(self, root: Path, layout: Layout, below: str = "") -> None:
        self._root = root
        self._version, self._driver = layout.split("-")
        self._below = below
        if self._version == "v2":
            write(root / "cgroup.controllers", "cpuset cpu io memory pids\n")
            return
        (root / "cpu,cpuacct").mkdir(parents=True)
        (root / "memory").mkdir()
        for name in ("cpu", "cpuacct"):
            (root / name).symlink_to("cpu,cpuacct")

    def path(self, pod: PodState) -> str:
        """Return the pod's control group, as /proc/PID/cgroup names it."""
        of_class = "" if pod.qos == "guaranteed" else pod.qos
        if self._driver == "cgroupfs":
            return "/".join(filter(None, (self._below, "kubepods", of_class, f"pod{pod.uid}")))
        slices = ["kubepods", *([of_class] if of_class else []), f"pod{pod.uid.replace('-', '_')}"]
        names = ["-".join(slices[: at + 1]) + ".slice" for at in range(len(slices))]
        return "/".join(filter(None, (self._below, *names)))

    def folder(self, pod: PodState, controller: str = "cpu") -> Path:
        """Return where the pod's files of a controller are."""
        root = self._root if self._version == "v2" else self._root / controller
        return root / self.path(pod)

    def store(self, pod: PodState) -> None:
        """Write what a pod has used."""
        for inside in ("", CONTAINER_ID):
            if self._version == "v2":
                _store_v2(self.folder(pod) / inside, pod)
            else:
                _store_v1(self.folder(pod) / inside, self.folder(pod, "memory") / inside, pod)

    def remove(self, pod: PodState) -> None:
        """Remove a pod's groups, as a kubelet does when it has ended."""
        rmtree(self.folder(pod))
        if self._version == "v1":
            rmtree(self.folder(pod, "memory"))


def _store_v2(folder: Path, pod: PodState) -> None:
    throttled = round(pod.throttled_seconds * 1e6)
    write(
        folder / "cpu.stat",
        f"usage_usec {round(pod.cpu_seconds * 1e6)}\nuser_usec 1\nsystem_usec 1\n"
        f"nr_periods {9 * pod.is_limited}\nnr_throttled 1\nthrottled_usec {throttled}\n",
    )
    write(folder / "memory.current", f"{pod.memory_bytes}\n")
    write(folder / "memory.stat", f"anon 1\nfile 2\ninactive_file {pod.inactive_file_bytes}\n")
    for resource, seconds in (
        ("cpu", pod.cpu_pressure_seconds),
        ("memory", pod.memory_pressure_seconds),
        ("io", pod.io_pressure_seconds),
    ):
        averages = "avg10=0.12 avg60=0.03 avg300=0.00"
        total = round(seconds * 1e6)
        write(
            folder / f"{resource}.pressure",
            f"some {averages} total={total}\nfull {averages} total={total // 2}\n",
        )


def _store_v1(cpu: Path, memory: Path, pod: PodState) -> None:
    throttled = round(pod.throttled_seconds * 1e9)
    write(cpu / "cpuacct.usage", f"{round(pod.cpu_seconds * 1e9)}\n")
    write(
        cpu / "cpu.stat",
        f"nr_periods {9 * pod.is_limited}\nnr_throttled 1\nthrottled_time {throttled}\n",
    )
    write(memory / "memory.usage_in_bytes", f"{pod.memory_bytes}\n")
    write(memory / "memory.stat", f"cache 1\ntotal_inactive_file {pod.inactive_file_bytes}\n")


def write(path: Path, text: str) -> None:
    """Write a file as the kernel changes its own: a reader sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new_file = path.with_name(f".{path.name}")
    new_file.write_text(text)
    new_file.replace(path)
