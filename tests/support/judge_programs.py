"""Programs in C, and of Debian, whose rates judge those of the node benchmark."""

import platform
import shutil
import subprocess
from pathlib import Path

from support.requirements import cannot_run

HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""NumPy has its arrays in huge pages, where the machine allows them: so do the judges."""


def compile_program(folder: Path, *words: str | Path) -> Path:
    """Compile a program in C for this CPU; end the test if there is no compiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        cannot_run("gcc is not installed.")
    # Or the compiler has the C library copy, with stores that go round the caches.
    options = ["-O3", "-march=native", "-funroll-loops", "-fno-tree-loop-distribute-patterns"]
    if platform.machine() == "x86_64":
        # Ours, too, has vectors of 256 bits: on Zen 4 they are 3 % faster than those of 512.
        options.append("-mprefer-vector-width=256")
    subprocess.run([compiler, *options, *words, "-o", "program"], cwd=folder, check=True)
    return folder / "program"


def require_program(name: str) -> None:
    """End the test if a program is not installed."""
    if shutil.which(name) is None:
        cannot_run(f"{name} is not installed: tests/install-tools verify does it.")
