"""Measures whether others used this machine's CPUs during a test of time on the real clock.

Three figures over the test's own window, each as a share of the window:

* how long some runnable task waited for a CPU: `some` of `/proc/pressure/cpu` (PSI);
* how long threads of this process and its children were runnable and did not run:
  `/proc/PID/task/TID/schedstat`;
* how long the hypervisor ran others: steal of `/proc/stat`.

A load generator and the server that it measures also wait for each other. Others can have caused
no more of the first two than the CPU time that they took, which is that of the machine
(`/proc/stat`) without that of this process and its children: the smaller of both counts.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

INCONCLUSIVE = "inconclusive"
MOST_WAITING = 0.05
"""Of the window, for which others may have kept tasks from a CPU."""
MOST_RUN_DELAY = 0.02
MOST_STEAL = 0.01
_HERTZ = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Readings:
    """The counters at one time, in seconds; None if the kernel has no such counter."""

    at: float
    waiting: float | None
    run_delay: float
    steal: float
    others: float
    """CPU time of the machine that is not of this process and its children."""


def read_counters() -> Readings:
    """Return the counters now."""
    return Readings(time.monotonic(), _waiting(), _run_delay(), _steal(), _others())


def disturbance(before: Readings, after: Readings) -> str | None:
    """Return how much others disturbed a window, None if it was quiet."""
    seconds = max(1e-9, after.at - before.at)
    cpus = os.cpu_count() or 1
    others = max(0.0, after.others - before.others) / seconds
    delay = min(others, (after.run_delay - before.run_delay) / seconds)
    steal = (after.steal - before.steal) / seconds / cpus
    found = []
    if before.waiting is not None and after.waiting is not None:
        waiting = min(others, (after.waiting - before.waiting) / seconds)
        if waiting > MOST_WAITING:
            found.append(f"others kept tasks waiting {waiting:.1%} (at most {MOST_WAITING:.0%})")
    if delay > MOST_RUN_DELAY:
        found.append(f"others kept this process waiting {delay:.1%} (at most {MOST_RUN_DELAY:.0%})")
    if steal > MOST_STEAL:
        found.append(f"the hypervisor took {steal:.1%} (at most {MOST_STEAL:.0%})")
    return f"{'; '.join(found)} of {seconds:.1f} s" if found else None


def _waiting() -> float | None:
    """Return for how long some task has waited for a CPU, by the kernel's pressure counters."""
    try:
        first = Path("/proc/pressure/cpu").read_text(encoding="ascii").splitlines()[0]
    except OSError:
        return None
    return int(first.rpartition("total=")[2]) / 1e6


def _run_delay() -> float:
    """Return for how long this process and its children were runnable and did not run."""
    total = 0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        for task in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
            with suppress(OSError, IndexError):
                total += int(task.read_text(encoding="ascii").split()[1])
    return total / 1e9


def _steal() -> float:
    """Return for how long the hypervisor ran others on CPUs of this machine."""
    return _machine_seconds()[7]


def _others() -> float:
    """Return the CPU time of this machine without that of this process and its children."""
    user, nice, system, _, _, interrupt, soft_interrupt, *_ = _machine_seconds()
    return user + nice + system + interrupt + soft_interrupt - _own_seconds()


def _own_seconds() -> float:
    """Return the CPU time of this process and its children, those that have ended too."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _machine_seconds() -> list[float]:
    """Return the times of all CPUs: user, nice, system, idle, wait, both interrupts, steal."""
    with suppress(OSError):
        words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
        return [int(each) / _HERTZ for each in words[1:]]
    return [0.0] * 8
