"""Resolution of a manifest's constraints: what satisfies them, or comes nearest."""

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from inferometer_api.manifest.model_manifest import ModelManifest, SystemRequirements
from inferometer_api.manifest.version_constraint import nearest, satisfies
from inferometer_tasks.errors import TaskRefusedError

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}i": 1024**power for power, unit in enumerate(("K", "M", "G", "T"), 1)}


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine has."""

    architecture: str
    cpus: int
    memory_bytes: int
    device: str


def this_machine(device: str) -> Machine:
    """Return this machine; `device` is the one that the run selects."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(platform.machine(), len(os.sched_getaffinity(0)), pages, device)


def check_engine(manifest: ModelManifest, engine: str, installed: Mapping[str, str]) -> None:
    """Check that the chosen engine satisfies a manifest; `installed` has versions by engine.

    Raises TaskRefusedError with what came nearest.
    """
    wanted, constraint = manifest.framework.name, manifest.framework.version
    version = installed.get(engine, "")
    if engine == wanted.lower() and satisfies(version, constraint):
        return
    other = installed.get(wanted.lower())
    if other is not None and satisfies(other, constraint):
        raise TaskRefusedError(
            f"The manifest of {manifest.name} needs {wanted} {constraint}, and the run selects "
            f"{engine} {version}: {wanted} {other} would do, so change server.runtime."
        )
    if other is not None:
        closest = nearest([other], constraint)
        raise TaskRefusedError(
            f"The manifest of {manifest.name} needs {wanted} {constraint}, and nothing here "
            f"satisfies that: the nearest is {wanted} {closest}. Install another version, or use "
            "another manifest."
        )
    known = ", ".join(f"{name} {each}" for name, each in sorted(installed.items())) or "none"
    raise TaskRefusedError(
        f"The manifest of {manifest.name} needs {wanted} {constraint}, which no server here has; "
        f"the engines are: {known}."
    )


def check_machine(manifest: ModelManifest, machine: Machine) -> None:
    """Raise TaskRefusedError with everything that a machine lacks for a manifest."""
    lacking = list(_lacking(manifest.system_requirements, machine))
    if lacking:
        raise TaskRefusedError(
            f"This machine does not satisfy the systemRequirements of {manifest.name}: "
            f"{'; '.join(lacking)}."
        )


def _lacking(needs: SystemRequirements, machine: Machine) -> Iterator[str]:
    if needs.device is not None and needs.device != machine.device:
        yield f"it needs device {needs.device}, and the run selects {machine.device}"
    if needs.architectures and machine.architecture not in needs.architectures:
        yield (
            f"it needs the architecture {' or '.join(needs.architectures)}, and this is "
            f"{machine.architecture}"
        )
    if needs.cpus is not None and machine.cpus < _cpus(needs.cpus):
        yield f"it needs {needs.cpus} CPUs, and this has {machine.cpus}"
    if needs.memory is not None and machine.memory_bytes < _bytes(needs.memory):
        has = f"{machine.memory_bytes / 2**30:.1f}Gi"
        yield f"it needs {needs.memory} of memory, and this has {has}"


def _cpus(quantity: str) -> float:
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


def _bytes(quantity: str) -> int:
    digits = quantity.rstrip("kKMGTi")
    return int(digits) * _UNITS[quantity[len(digits) :]]
