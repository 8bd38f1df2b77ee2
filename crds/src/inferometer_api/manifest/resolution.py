"""Resolution of a manifest's constraints: what satisfies them, or comes nearest."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from inferometer_api.manifest.model_manifest import ModelManifest, SystemRequirements
from inferometer_api.manifest.version_constraint import nearest, satisfies
from inferometer_api.spec.resolve import whole_bytes


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine has."""

    architecture: str
    """As `uname -m` prints it."""
    cpus: int
    memory_bytes: int
    device: str


def engine_problem(manifest: ModelManifest, engine: str, installed: Mapping[str, str]) -> str:
    """Return why the chosen engine does not satisfy a manifest, with what comes nearest.

    `installed` has versions by engine. Empty if it does.
    """
    wanted, constraint = manifest.framework.name, manifest.framework.version
    version = installed.get(engine, "")
    if engine == wanted.lower() and satisfies(version, constraint):
        return ""
    other = installed.get(wanted.lower())
    if other is not None and satisfies(other, constraint):
        return (
            f"The manifest of {manifest.name} needs {wanted} {constraint}, and the run selects "
            f"{engine} {version}: {wanted} {other} would do, so change server.runtime."
        )
    if other is not None:
        closest = nearest([other], constraint)
        return (
            f"The manifest of {manifest.name} needs {wanted} {constraint}, and nothing here "
            f"satisfies that: the nearest is {wanted} {closest}. Install another version, or use "
            "another manifest."
        )
    known = ", ".join(f"{name} {each}" for name, each in sorted(installed.items())) or "none"
    return (
        f"The manifest of {manifest.name} needs {wanted} {constraint}, which no server here has; "
        f"the engines are: {known}."
    )


def machine_problems(needs: SystemRequirements, machine: Machine) -> Iterator[str]:
    """Yield a clause for everything that a machine lacks."""
    if needs.device is not None and needs.device != machine.device:
        yield f"it needs device {needs.device}, and the run selects {machine.device}"
    if needs.architectures and machine.architecture not in needs.architectures:
        yield (
            f"it needs the architecture {' or '.join(needs.architectures)}, and this is "
            f"{machine.architecture}"
        )
    if needs.cpus is not None and machine.cpus < _cpus(needs.cpus):
        yield f"it needs {needs.cpus} CPUs, and this has {machine.cpus}"
    if needs.memory is not None and machine.memory_bytes < whole_bytes(needs.memory):
        has = f"{machine.memory_bytes / 2**30:.1f}Gi"
        yield f"it needs {needs.memory} of memory, and this has {has}"


def _cpus(quantity: str) -> float:
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)
