"""What a cluster leaves on this machine."""

from pathlib import Path

import psutil

from support.cluster import cgroups, homes
from support.cluster.addresses import Wire

_INTERFACES = Path("/sys/class/net")


def traces(name: str, slot: int | None) -> list[str]:
    """Return everything there is of the cluster with this name and slot, a line each."""
    home = str(homes.home_folder(name))
    found = [
        f"process {process.pid}: {' '.join(process.info['cmdline'])}"
        for process in psutil.process_iter(["cmdline"])
        if any(home in word for word in process.info["cmdline"] or ())
    ]
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found += [f"mount {line}" for line in mounts if home in line]
    if slot is not None:
        wire = Wire(slot)
        if (_INTERFACES / wire.interface).exists():
            found.append(f"network interface {wire.interface}")
        found += [f"control group {path}" for path in cgroups.paths(wire.cgroup)]
    if Path(home).exists():
        found.append(f"folder {home}")
    return found
