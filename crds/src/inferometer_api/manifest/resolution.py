"""Resolution of a manifest's constraints: what satisfies them, or comes nearest."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from inferometer_api.manifest.model_manifest import Framework, ModelManifest, SystemRequirements
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


def matching_framework(manifest: ModelManifest, engine: str, version: str) -> Framework | None:
    """Return what a manifest states of an engine if this version satisfies it; else None.

    An empty version is not known, and satisfies every constraint. Raises ConstraintError.
    """
    found = satisfied_frameworks(manifest, {engine.lower(): version})
    return found[0] if found else None


def describe_frameworks(manifest: ModelManifest) -> str:
    """Return the engines that a manifest takes, with their constraints."""
    return " or ".join(f"{each.name} {each.version}" for each in manifest.frameworks)


def engine_problem(manifest: ModelManifest, engine: str, installed: Mapping[str, str]) -> str:
    """Return why the chosen engine does not satisfy a manifest, with what comes nearest.

    `installed` has versions by engine; an empty one is not known, and satisfies every constraint.
    Empty if it does.
    """
    fitting = satisfied_frameworks(manifest, installed)
    if any(each.name.lower() == engine for each in fitting):
        return ""
    needs = f"The manifest of {manifest.name} needs {describe_frameworks(manifest)}"
    if fitting:
        known = " or ".join(f"{each.name} {installed[each.name.lower()]}" for each in fitting)
        return (
            f"{needs}, and the run selects {_named(engine, installed)}: {known} would do, so "
            "change server.runtime."
        )
    closest = [
        f"{each.name} {nearest([installed[each.name.lower()]], each.version)}"
        for each in manifest.frameworks
        if each.name.lower() in installed
    ]
    if closest:
        return (
            f"{needs}, and nothing here satisfies that: the nearest is {' or '.join(closest)}. "
            "Install another version, or use another manifest."
        )
    known = ", ".join(_named(each, installed) for each in sorted(installed)) or "none"
    return f"{needs}, which is not among the engines that could run it here: {known}."


def _named(engine: str, installed: Mapping[str, str]) -> str:
    return f"{engine} {installed.get(engine, '')}".strip()


def satisfied_frameworks(manifest: ModelManifest, installed: Mapping[str, str]) -> list[Framework]:
    """Return the engines of a manifest that are installed in a version that it takes.

    An empty version is not known, and satisfies every constraint. Raises ConstraintError.
    """
    return [each for each in manifest.frameworks if _is_satisfied(each, installed)]


def _is_satisfied(framework: Framework, installed: Mapping[str, str]) -> bool:
    version = installed.get(framework.name.lower())
    return version is not None and (not version or satisfies(version, framework.version))


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
