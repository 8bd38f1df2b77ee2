"""The CPU that the server computes on: its model, instruction set, and pinning."""

import os
from pathlib import Path

_BEST_FIRST = (
    *("amx_fp16", "amx_bf16", "amx_int8", "avx512_fp16", "avx512_bf16", "avx512_vnni", "avx512f"),
    *("avx_vnni", "avx2", "avx", "sse4_2", "i8mm", "bf16", "sve2", "sve", "asimddp", "asimd"),
)
"""Names of the kernel for x86 and Arm."""
_CPU_INFO = Path("/proc/cpuinfo")


def instruction_set(cpu_info: Path = _CPU_INFO) -> str:
    """Return the kernel's name of the widest one that engines compute matrices with.

    Empty if the kernel does not say.
    """
    flags = frozenset(_value(cpu_info, "flags", "Features").split())
    return next((each for each in _BEST_FIRST if each in flags), "")


def model_name(cpu_info: Path = _CPU_INFO) -> str:
    """Return the name of the CPU; empty if the kernel does not say."""
    return _value(cpu_info, "model name", "Model")


def pinned_cpus() -> int:
    """Return how many CPUs this process is pinned to; 0 if it may use all of the machine."""
    allowed = len(os.sched_getaffinity(0))
    return allowed if allowed < (os.cpu_count() or allowed) else 0


def _value(cpu_info: Path, *names: str) -> str:
    """Return the first value with one of these names, "" if there is none."""
    try:
        lines = cpu_info.read_text().splitlines()
    except OSError:
        return ""
    parts = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in parts if name.strip() in names), "")
