"""Warnings before a local run: a busy machine, and other measurements on it."""

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from inferometer_api.results.result import OtherLoad
from inferometer_loadgen.client.processes import (
    MachineSnapshot,
    arguments_of,
    other_load,
    read_machine,
)

_LEAST_SECONDS = 0.3
"""The kernel counts CPU time in steps of 10 ms: over less time the figure is chance."""
_BUSY_SHARE, _BUSY_CORES = 0.1, 0.5
"""Other processes may use this share of the CPUs, as in the rule BusyMachine, or so many cores."""
_MEASURES = frozenset({"run", "ab", "noise"})
_PROGRAMS = frozenset({"inferometer", "kubectl-inferometer"})
_NAMES = ("python", "inferometer", "kubectl-inferom")
"""Beginnings of the names of a measurement's process; the kernel cuts them after 15 characters."""


class MachineCheck:
    """Observes the machine while the server starts."""

    def __init__(self) -> None:
        self._before = read_machine()

    async def warnings(self) -> list[str]:
        """Return a sentence for each fault of the machine. Waits if it was created just now."""
        before = self._before
        if before is None:
            return []
        passed = (time.monotonic_ns() - before.at_ns) / 1e9
        await asyncio.sleep(max(0.0, _LEAST_SECONDS - passed))
        after = read_machine()
        if after is None:
            return []
        own = before.family_of(os.getpid()) | after.family_of(os.getpid())
        found = other_load(before, after, own)
        commands = {pid: arguments_of(pid) for pid in _candidates(after, own)}
        return [*other_runs(after.parents, commands), *busy(found)]


def busy(load: OtherLoad) -> Iterator[str]:
    """Yield a warning if other processes use much of the machine."""
    if load.other_cores <= max(_BUSY_CORES, _BUSY_SHARE * load.cpu_count):
        return
    names = ", ".join(f"{each.name} {each.cpu_cores:.1f}" for each in load.processes)
    yield (
        f"This machine is busy: other processes use {load.other_cores:.1f} of its "
        f"{load.cpu_count} CPUs{f' ({names})' if names else ''}. Stop them, or expect figures that "
        "vary or are INVALID."
    )


def other_runs(parents: Mapping[int, int], commands: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """Yield a warning for each other measurement, given the commands of possible ones.

    A measurement consists of several processes; only the first one of each is named.
    """
    found = {pid: name for pid, command in commands.items() if (name := _measurement(command))}
    for pid, name in sorted(found.items()):
        if not any(ancestor in found for ancestor in _ancestors(parents, pid)):
            yield (
                f"Another measurement is under way on this machine: {name} (process {pid}). Each "
                "disturbs the other; wait until it is over."
            )


def _candidates(machine: MachineSnapshot, own: set[int]) -> Iterator[int]:
    mine = {*own, *_ancestors(machine.parents, os.getpid())}
    for pid, times in machine.processes.items():
        if pid not in mine and times.name.startswith(_NAMES):
            yield pid


def _ancestors(parents: Mapping[int, int], pid: int) -> Iterator[int]:
    while (pid := parents.get(pid, 0)) > 0:
        yield pid


def _measurement(command: Sequence[str]) -> str:
    """Return what a process measures, in the words of its command; empty if it does not."""
    for index, word in enumerate(command):
        following = [*command[index + 1 : index + 3], "", ""]
        if word == "-m" and following[0] == "inferometer_loadgen":
            return "a load generator"
        is_program = PurePath(word).name in _PROGRAMS or (
            word == "inferometer_cli" and command[index - 1] == "-m"
        )
        if is_program and following[0] in _MEASURES:
            target = Path(following[1]).name
            return f"inferometer {following[0]} {target}".rstrip()
    return ""
