"""The manifest of a run's model in a ConfigMap: what it requires of engine and nodes."""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inferometer_api.nodes.selection import Node, pod_obstacle
from inferometer_api.plan.cluster_objects import ARCHITECTURE_LABEL, HOSTNAME_LABEL
from inferometer_api.spec.address import Address, AddressError, address
from inferometer_api.spec.run import RunSpec
from inferometer_api.suite.systems import node_bytes, node_cpus
from inferometer_operator.manifests.server_job import server_tolerations
from inferometer_operator.reconcile.context import ReconcileContext
from inferometer_operator.reconcile.observed import Json, KnownManifest
from inferometer_operator.settings import Settings

if TYPE_CHECKING:
    from inferometer_api.manifest.model_manifest import ModelManifest
    from inferometer_api.manifest.resolution import Machine

_MOST_BYTES = 64 << 10
"""Most manifests have 2 kB. An author could keep the operator busy with a large one."""
_NAMES = {"amd64": "x86_64", "arm64": "aarch64", "386": "i686", "arm": "armv7l"}
"""Kubernetes' names of architectures, and those of `uname -m`."""


def manifest_address(spec: RunSpec) -> Address | None:
    """Return the ConfigMap and the key of a run's manifest; None if it is elsewhere, or none."""
    if spec.model.manifest is None:
        return None
    try:
        found = address(spec.model.manifest.uri)
    except AddressError:
        return None
    return found if found is not None and found.kind == "configmap" else None


def read_manifest(config_map: Json, spec: RunSpec, at: Address) -> KnownManifest | None:
    """Return the manifest of a run in its ConfigMap, or why it is refused.

    None: it is too large for the operator. The load generator reads it.
    """
    # Functions import what a manifest takes: an operator without one saves the memory.
    from inferometer_api.manifest.model_manifest import ModelManifest  # noqa: PLC0415 - see above
    from inferometer_api.spec.reading import (  # noqa: PLC0415 - see above
        InvalidRunError,
        parse_document,
    )

    source, name = spec.model.manifest, f"configmap://{at.place}/{at.path}"
    content = _content(config_map, at.path)
    if content is None:
        return KnownManifest(problem=f"The ConfigMap {at.place} has no key {at.path}.")
    if len(content) > _MOST_BYTES:
        return None
    found = hashlib.sha256(content).hexdigest()
    wanted = None if source is None else source.sha256
    if wanted not in {None, found}:
        return KnownManifest(problem=f"The sha256 of {name} is {found}, not {wanted}.")
    try:
        text = content.decode("utf-8")
        manifest = parse_document(text, ModelManifest, source=name)
    except UnicodeDecodeError:
        return KnownManifest(problem=f"The manifest {name} is not UTF-8 text.")
    except InvalidRunError as error:
        return KnownManifest(problem=str(error))
    return KnownManifest(manifest)


def _content(config_map: Json, key: str) -> bytes | None:
    text = (config_map.get("data") or {}).get(key)
    if text is not None:
        return str(text).encode()
    encoded = (config_map.get("binaryData") or {}).get(key)
    try:
        return None if encoded is None else base64.b64decode(encoded)
    except binascii.Error:
        return None


def needs_nodes(known: KnownManifest, spec: RunSpec) -> bool:
    """Return whether a manifest requires anything that only the nodes themselves say."""
    if known.manifest is None or spec.server.external is not None:
        return False
    needs = known.manifest.system_requirements
    return needs.cpus is not None or needs.memory is not None or bool(needs.architectures)


def among_nodes(
    manifest: "ModelManifest", spec: RunSpec, settings: Settings, nodes: Iterable[Node]
) -> KnownManifest:
    """Return a manifest with the nodes that do not satisfy it, or why none does.

    Nodes count on which the run's servers could start. If there are none, that is left to the
    scheduler.
    """
    found = [_fit(node, manifest, spec) for node in nodes if _in_reach(node, spec, settings)]
    if found and not any(each.fits for each in found):
        nearest = min(found, key=_distance)
        problem = (
            f"No node satisfies the systemRequirements of {manifest.name}. Nearest is "
            f"{nearest.name}: {'; '.join(nearest.lacks)}."
        )
        return KnownManifest(problem=problem)
    unfit = sorted(each.hostname for each in found if not each.fits)
    return KnownManifest(manifest, unfit_hostnames=tuple(unfit))


def manifest_problems(context: ReconcileContext) -> Iterator[str]:
    """Yield why the manifest of a run refuses it: it is broken, or nothing here satisfies it."""
    known = context.observed.model_manifest
    if known is None:
        return
    if known.manifest is None:
        yield f"spec.model.manifest: {known.problem}"
        return
    if not context.is_launched:
        return
    if problem := _engine_problem(context, known.manifest):
        yield f"spec.model.manifest: {problem}"
    needs, device = known.manifest.system_requirements, context.run.spec.server.device
    if needs.device not in {None, device}:
        yield (
            f"spec.server.device: the manifest of {known.manifest.name} needs {needs.device}, and "
            f"the run selects {device}."
        )


def node_requirements(context: ReconcileContext) -> list[dict[str, Any]]:
    """Return what the manifest requires of the servers' nodes, as expressions of their labels.

    Without the right to read nodes that is the architecture alone. Nodes that come later may be
    used: an autoscaler adds them.
    """
    known = context.observed.model_manifest
    if known is None or known.manifest is None:
        return []
    found = []
    if wanted := known.manifest.system_requirements.architectures:
        of_kubernetes = {ours: theirs for theirs, ours in _NAMES.items()}
        names = sorted({of_kubernetes.get(each, each) for each in wanted})
        found.append({"key": ARCHITECTURE_LABEL, "operator": "In", "values": names})
    if unfit := known.unfit_hostnames:
        found.append({"key": HOSTNAME_LABEL, "operator": "NotIn", "values": list(unfit)})
    return found


def _engine_problem(context: ReconcileContext, manifest: "ModelManifest") -> str:
    """Return why the engine of the run's image does not do; empty if the engine is not known."""
    engine, engines = context.settings.engine_of(context.run.spec)
    if not engine:
        return ""
    from inferometer_api.manifest.resolution import engine_problem  # noqa: PLC0415 - saves memory

    return engine_problem(manifest, engine, engines)


@dataclass(frozen=True, slots=True)
class _NodeFit:
    name: str
    hostname: str
    machine: "Machine"
    lacks: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return not self.lacks


def _distance(fit: _NodeFit) -> tuple[int, int, int, str]:
    """Return how far a node is from what is needed: what it lacks, then how large it is."""
    return len(fit.lacks), -fit.machine.cpus, -fit.machine.memory_bytes, fit.name


def _in_reach(node: Node, spec: RunSpec, settings: Settings) -> bool:
    """Return whether a server of the run could start on a node, whatever its manifest needs."""
    server = spec.server
    if not server.placement.node_selector.items() <= _labels(node).items():
        return False
    offered = ((node.get("status") or {}).get("allocatable") or {}) if server.gpu else {}
    if server.gpu is not None and node_cpus(offered.get(server.gpu.resource)) < server.gpu.count:
        return False
    return not pod_obstacle(node, server_tolerations(server, settings))


def _fit(node: Node, manifest: "ModelManifest", spec: RunSpec) -> _NodeFit:
    from inferometer_api.manifest.resolution import (  # noqa: PLC0415 - saves memory
        Machine,
        machine_problems,
    )

    name, status = str(node["metadata"]["name"]), node.get("status") or {}
    capacity = status.get("capacity") or {}
    architecture = str((status.get("nodeInfo") or {}).get("architecture", ""))
    machine = Machine(
        _NAMES.get(architecture, architecture),
        node_cpus(capacity.get("cpu")),
        node_bytes(capacity.get("memory")),
        spec.server.device,
    )
    needs = manifest.system_requirements
    wanted = [_NAMES.get(each, each) for each in needs.architectures]
    needs = needs.model_copy(update={"architectures": wanted, "device": None})
    lacks = tuple(machine_problems(needs, machine))
    return _NodeFit(name, str(_labels(node).get(HOSTNAME_LABEL, name)), machine, lacks)


def _labels(node: Node) -> Json:
    found: Json = node["metadata"].get("labels") or {}
    return found
