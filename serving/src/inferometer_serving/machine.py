"""The machine that the server computes on, as far as a result must know it."""

import os
import platform
from pathlib import Path

_GPUS = Path("/proc/driver/nvidia/gpus")


def machine_facts(gpus: Path = _GPUS) -> dict[str, str]:
    """Return the number of CPUs, the memory, the kernel and the GPUs of this machine.

    In a cluster the load generator may run on another one. Without a GPU there is no `gpus`.
    """
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = {
        "cpu_count": str(os.cpu_count() or ""),
        "memory_gibibytes": str(round(pages / 2**30)),
        "kernel": platform.release(),
        "gpus": ", ".join(sorted(set(_gpu_names(gpus)))),
    }
    return {name: value for name, value in found.items() if value}


def _gpu_names(folder: Path) -> list[str]:
    """Return the models of the GPUs that the driver shows to this process."""
    found = []
    for path in folder.glob("*/information"):
        try:
            lines = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        parts = (line.partition(":") for line in lines)
        found += [value.strip() for name, _, value in parts if name.strip() == "Model"]
    return found
