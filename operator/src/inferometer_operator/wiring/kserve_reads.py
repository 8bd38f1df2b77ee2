"""Reads of what KServe creates for an InferenceService, which no watch delivers."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from inferometer_api.plan.cluster_objects import predictor_name
from inferometer_api.runtimes.table import is_by_kserve
from inferometer_operator.cluster.child_store import ChildStore, is_child_of
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.children import KSERVE_KIND
from inferometer_operator.reconcile.context import controller_of
from inferometer_operator.reconcile.observed import ChildRole, InferenceObjects, Json


@dataclass(slots=True)
class InferenceMemory:
    """What was read: neither changes while the InferenceService is the same."""

    replica_sets: dict[str, bool] = field(default_factory=dict)
    """By UID, whether each belongs to the run."""
    service: Json | None = None
    """The predictor's Service, of the last InferenceService."""


def absent_roles(run: Json) -> set[ChildRole]:
    """Return the roles that no child of a raw run has, because of its server's runtime."""
    return {"server"} if _uses_kserve(run) else {"inference"}


def _uses_kserve(run: Json) -> bool:
    server = (run.get("spec") or {}).get("server")
    return isinstance(server, dict) and is_by_kserve(server.get("runtime"))


def _refusal(store: ChildStore) -> str:
    """Return why the operator cannot use KServe, as a clause; empty if it can."""
    if KSERVE_KIND in store.unserved:
        return f"the cluster serves no {KSERVE_KIND}s, so KServe is not installed"
    refusal = store.forbidden.get(KSERVE_KIND, "").rstrip(".")
    return f"the operator may not see {KSERVE_KIND}s ({refusal})" if refusal else ""


async def read_inference(
    reader: Reader,
    run: Json,
    owner: Json | None,
    pods: Iterable[Json],
    memory: InferenceMemory,
    *,
    reads: bool = False,
) -> InferenceObjects | None:
    """Return what KServe has created for a run's InferenceService.

    With `reads` also the Deployment, which explains why there are no pods. Any author
    can copy labels: each object counts by its controllers, up to the InferenceService. None: the
    run does not use KServe.
    """
    if not _uses_kserve(run):
        return None
    metadata, refusal = run["metadata"], _refusal(reader.children)
    namespace, name = metadata["namespace"], predictor_name(metadata["name"])
    if owner is not None:
        await _learn(reader, namespace, str(owner["metadata"]["uid"]), pods, memory)
    known = frozenset(uid for uid, own in memory.replica_sets.items() if own)
    if owner is None:
        return InferenceObjects(replica_sets=known, refusal=refusal)
    memory.service = _own(memory.service, owner)
    if memory.service is None:
        memory.service = _own(await reader.get("Service", namespace, name), owner)
    deployment = _own(await reader.get("Deployment", namespace, name), owner) if reads else None
    return InferenceObjects(memory.service, deployment, known, refusal)


def _own(found: Json | None, owner: Json) -> Json | None:
    return found if found is not None and is_child_of(found, owner["metadata"]["uid"]) else None


async def _learn(
    reader: Reader, namespace: str, owner_uid: str, pods: Iterable[Json], memory: InferenceMemory
) -> None:
    """Read the ReplicaSets of pods that are not known yet."""
    named = {
        str(owner["uid"]): str(owner["name"])
        for pod in pods
        if (owner := controller_of(pod)).get("kind") == "ReplicaSet"
    }
    for uid in named.keys() - memory.replica_sets.keys():
        found = await reader.get("ReplicaSet", namespace, named[uid])
        if found is None or found["metadata"]["uid"] != uid:
            continue
        above = controller_of(found)
        deployment = await reader.get("Deployment", namespace, str(above.get("name") or "none"))
        memory.replica_sets[uid] = (
            deployment is not None
            and deployment["metadata"]["uid"] == above.get("uid")
            and is_child_of(deployment, owner_uid)
        )
