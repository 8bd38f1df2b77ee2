"""Resolution of a manifest's constraints on this machine."""

import os
import platform
from collections.abc import Mapping

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.manifest.resolution import Machine, engine_problem, machine_problems
from inferometer_tasks.errors import TaskRefusedError


def this_machine(device: str) -> Machine:
    """Return this machine; `device` is the one that the run selects."""
    return Machine(platform.machine(), len(os.sched_getaffinity(0)), _memory_bytes(), device)


def this_node(device: str) -> Machine:
    """Return the node of this pod, with the CPUs that are exclusive to other pods."""
    return Machine(platform.machine(), os.cpu_count() or 1, _memory_bytes(), device)


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_engine(manifest: ModelManifest, engine: str, installed: Mapping[str, str]) -> None:
    """Check that the chosen engine satisfies a manifest; `installed` has versions by engine.

    Raises TaskRefusedError with what came nearest.
    """
    if problem := engine_problem(manifest, engine, installed):
        raise TaskRefusedError(problem)


def check_machine(manifest: ModelManifest, machine: Machine) -> None:
    """Raise TaskRefusedError with everything that a machine lacks for a manifest."""
    lacking = list(machine_problems(manifest.system_requirements, machine))
    if lacking:
        raise TaskRefusedError(
            f"This machine does not satisfy the systemRequirements of {manifest.name}: "
            f"{'; '.join(lacking)}."
        )
