"""Reads of the manifest of a run's model, and of the nodes that it requires something of."""

import asyncio
from dataclasses import dataclass

from pydantic import ValidationError

from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL
from inferometer_api.spec.address import Address
from inferometer_api.spec.run import RunSpec
from inferometer_operator.cluster.errors import NodesForbiddenError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.conditions import generation_of
from inferometer_operator.reconcile.model_manifest import (
    among_nodes,
    manifest_address,
    needs_nodes,
    read_manifest,
)
from inferometer_operator.reconcile.observed import Json, KnownManifest
from inferometer_operator.settings import Settings


@dataclass(slots=True)
class ManifestMemory:
    """What was read of one generation of a run."""

    known: KnownManifest | None = None
    generation: int | None = None


async def read_known_manifest(
    reader: Reader, settings: Settings, run: Json, memory: ManifestMemory, *, again: bool = False
) -> KnownManifest | None:
    """Return the manifest that a run names in a ConfigMap, compared with the nodes.

    It is read once for each generation of the run, and `again` before a queued run begins. None:
    the run names none, may not use it, or it is too large for the operator.
    """
    try:
        spec = RunSpec.read(run.get("spec"))
    except ValidationError:
        return None
    at = manifest_address(spec)
    if at is None:
        return None
    if again or memory.generation != generation_of(run):
        namespace = run["metadata"]["namespace"]
        described = await reader.get_metadata("ConfigMap", namespace, at.place)
        if described is None or (described.get("labels") or {}).get(ALLOW_USE_LABEL) != "true":
            return None  # acceptance reports it
        memory.known = await _read(reader, settings, spec, at, namespace)
        memory.generation = generation_of(run)
    return memory.known


async def _read(
    reader: Reader, settings: Settings, spec: RunSpec, at: Address, namespace: str
) -> KnownManifest | None:
    config_map = await reader.get("ConfigMap", namespace, at.place)
    if config_map is None:
        return None
    known = await asyncio.to_thread(read_manifest, config_map, spec, at)
    if known is None or known.manifest is None:
        return known
    if not settings.read_nodes or not needs_nodes(known, spec):
        return known
    try:
        return among_nodes(known.manifest, spec, settings, await reader.list_nodes())
    except NodesForbiddenError:
        return known
