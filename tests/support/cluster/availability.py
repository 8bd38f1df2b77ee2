"""Whether this machine can run nodes, and if not, why."""

import os
import platform
import shutil
from pathlib import Path

_COMMANDS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
}
_CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))


def why_no_nodes() -> str | None:
    """Return a sentence saying why no node can run here; None if it can."""
    if platform.system() != "Linux":
        return f"Nodes run on Linux, and this is {platform.system()}."
    if os.geteuid() != 0:
        return "Nodes need root: they make network namespaces and control groups."
    packages = {package for command, package in _COMMANDS.items() if not shutil.which(command)}
    if cni_folder() is None:
        packages.add("containernetworking-plugins")
    if packages:
        return (
            f"Nodes need these packages of Debian's, which are not installed:"
            f" {', '.join(sorted(packages))}. As root on Debian, tests/install-tools installs them."
        )
    return None


def cni_folder() -> Path | None:
    """Return the folder of the CNI plugins: Debian's, or the one that others use."""
    needed = ("ptp", "host-local", "portmap", "loopback")
    whole = [folder for folder in _CNI_FOLDERS if all((folder / name).exists() for name in needed)]
    return whole[0] if whole else None
