"""The children of a run: the one list of the objects that the operator creates and deletes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from inferometer_api.plan.cluster_objects import (
    LOADGEN,
    SERVER,
    begun_name,
    inference_name,
    load_name,
    load_service_name,
    server_name,
    workload_name,
)
from inferometer_operator.reconcile.context import controller_of, is_deleting
from inferometer_operator.reconcile.observed import ChildKind, ChildRole, Json, Observed
from inferometer_operator.reconcile.plan import DeletionTarget

Children = tuple[tuple[ChildRole, Json], ...]
"""In the order of deletion: the load goes before its server, so that no request meets a server
that ends. The Workload goes last: its quota is for the pods."""
KINDS_WITH_PODS: frozenset[ChildKind] = frozenset({"Job", "InferenceService"})
"""Kinds of the children that are not gone before their pods are."""
_KINDS: dict[ChildRole, ChildKind] = {
    "load": "Job",
    "server": "Job",
    "inference": "InferenceService",
    "plan": "ConfigMap",
    "begun": "ConfigMap",
    "loadService": "Service",
    "workload": "Workload",
}
_COMPONENTS: dict[ChildRole, str] = {"server": SERVER, "load": LOADGEN}
"""Component of the pods of each Job."""
CHILD_KINDS: tuple[ChildKind, ...] = tuple(dict.fromkeys(_KINDS.values()))
"""Every kind of the children, in the order of deletion."""
OPTIONAL_KINDS: frozenset[ChildKind] = frozenset({"InferenceService", "Workload"})
"""Kinds of other projects: the cluster may not serve them, or not let the operator see them."""
KSERVE_KIND: ChildKind = "InferenceService"
QUOTA_KIND: ChildKind = "Workload"
"""The kind of the child that holds quota for the pods: it goes after them."""
METADATA_KINDS: frozenset[ChildKind] = frozenset({"ConfigMap"})
"""Kinds whose content may be large: watches carry their metadata, and the content is read once."""
POD: Literal["Pod"] = "Pod"
"""The kind of the objects that the Jobs among the children create."""


@dataclass(frozen=True, slots=True)
class ChildName:
    """Role, kind and name of a child."""

    role: ChildRole
    kind: ChildKind
    name: str


def child_names(run_name: str) -> tuple[ChildName, ...]:
    """Return every child that a run may have, in the order of deletion."""
    names: dict[ChildRole, str] = {
        "load": load_name(run_name),
        "server": server_name(run_name),
        "inference": inference_name(run_name),
        "plan": load_name(run_name),
        "begun": begun_name(run_name),
        "loadService": load_service_name(run_name),
        "workload": workload_name(run_name),
    }
    return tuple(ChildName(role, kind, names[role]) for role, kind in _KINDS.items())


def jobs_with_components(
    children: Mapping[ChildRole, Json | None],
) -> tuple[tuple[Json, str], ...]:
    """Return the Jobs of a run that exist, each with the component of its pods."""
    found = ((children.get(role), component) for role, component in _COMPONENTS.items())
    return tuple((job, component) for job, component in found if job is not None)


def run_children(observed: Observed, run_uid: str) -> Children:
    """Return the children that a run has now, those being deleted too."""
    found = ((role, observed.children.get(role)) for role in _KINDS)
    return tuple(
        (role, child)
        for role, child in found
        if child is not None and controller_of(child).get("uid") == run_uid
    )


def deletion_targets(children: Iterable[tuple[ChildRole, Json]]) -> tuple[DeletionTarget, ...]:
    """Return the children that are still to be deleted."""
    return tuple(
        DeletionTarget(
            _KINDS[role], str(child["metadata"]["name"]), str(child["metadata"].get("uid", ""))
        )
        for role, child in children
        if not is_deleting(child)
    )
