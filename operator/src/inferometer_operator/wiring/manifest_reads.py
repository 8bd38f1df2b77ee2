"""Reads of the manifest of a run's model, and of the nodes that it requires something of."""

from dataclasses import dataclass

from pydantic import ValidationError

from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL
from inferometer_api.spec.run import RunSpec
from inferometer_operator.cluster.errors import NodesForbiddenError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.conditions import generation_of
from inferometer_operator.reconcile.model_manifest import (
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
    """Return the manifest that a run names in a ConfigMap, with the nodes that matter to it.

    It is read once for each generation of the run, and `again` before the run begins. None: the run
    names none, or may not use it. Without the right to read nodes it has none.
    """
    try:
        spec = RunSpec.read(run.get("spec"))
    except ValidationError:
        return None
    at = manifest_address(spec)
    if at is None:
        return None
    if again or memory.known is None or memory.generation != generation_of(run):
        found = await reader.get("ConfigMap", run["metadata"]["namespace"], at.place)
        if found is None or (found["metadata"].get("labels") or {}).get(ALLOW_USE_LABEL) != "true":
            return None  # acceptance reports it
        known = read_manifest(found, spec, at)
        memory.known = await _with_nodes(reader, settings, known)
        memory.generation = generation_of(run)
    return memory.known


async def _with_nodes(reader: Reader, settings: Settings, known: KnownManifest) -> KnownManifest:
    manifest = known.manifest
    if manifest is None or not settings.read_nodes or not needs_nodes(manifest):
        return known
    try:
        return KnownManifest(manifest, nodes=await reader.list_nodes())
    except NodesForbiddenError:
        return known
