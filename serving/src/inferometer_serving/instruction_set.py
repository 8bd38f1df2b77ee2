"""The widest instruction set of the CPU that engines compute matrices with."""

from pathlib import Path

_BEST_FIRST = (
    *("amx_fp16", "amx_bf16", "amx_int8", "avx512_fp16", "avx512_bf16", "avx512_vnni", "avx512f"),
    *("avx_vnni", "avx2", "avx", "sse4_2", "i8mm", "bf16", "sve2", "sve", "asimddp", "asimd"),
)
"""Names of the kernel for x86 and Arm."""


def instruction_set(cpu_info: Path = Path("/proc/cpuinfo")) -> str:
    """Return the kernel's name of it; empty if the kernel does not say."""
    try:
        text = cpu_info.read_text()
    except OSError:
        return ""
    for line in text.splitlines():
        name, _, words = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            flags = frozenset(words.split())
            return next((each for each in _BEST_FIRST if each in flags), "")
    return ""
