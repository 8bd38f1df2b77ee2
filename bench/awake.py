"""Idle-priority spinners that keep cores awake, because waking one is slow in a virtual machine.

    python -m bench.awake

runs until its parent ends, and only on otherwise idle cores.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.processes import start_child

_NICEST = 19


@contextmanager
def awake(cores: tuple[int | None, ...], folder: Path) -> Iterator[None]:
    """Keep cores busy with what gives way at once.

    A hypervisor with many guests gives a sleeping core away and brings it back late: of waits of
    5 ms one in a hundred has been seen to last 12 and more. Linux has `idle=poll` for the same.
    """
    command = [sys.executable, "-m", "bench.awake"]
    with ExitStack() as stack:
        for core in cores:
            if core is not None:
                stack.enter_context(start_child("bench.awake", command, core=core, folder=folder))
        yield


def main() -> None:
    """Keep the core that this process was given busy."""
    os.nice(_NICEST)
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    parent = os.getppid()
    while os.getppid() == parent:
        pass


if __name__ == "__main__":
    main()
