"""The children of a run: the one list of the objects that the operator creates and deletes."""

from collections.abc import Iterable

from inferometer_api.plan.cluster_objects import fleet_name, load_name, server_name
from inferometer_operator.reconcile.context import controller_of, is_deleting
from inferometer_operator.reconcile.observed import ChildKind, Json, Observed
from inferometer_operator.reconcile.plan import DeletionTarget

Children = tuple[tuple[ChildKind, Json], ...]
"""In the order of deletion: the load goes before its server, so that no request meets a server
that ends."""
KINDS_WITH_PODS: tuple[ChildKind, ...] = ("Deployment", "Job")
"""Children that are not gone before their pods are."""


def child_names(run_name: str) -> tuple[tuple[ChildKind, str], ...]:
    """Return kind and name of every child that a run may have, in the order of deletion."""
    return (
        ("Job", load_name(run_name)),
        ("Deployment", server_name(run_name)),
        ("ConfigMap", load_name(run_name)),
        ("Service", fleet_name(run_name)),
    )


def run_children(observed: Observed, run_uid: str) -> Children:
    """Return the children that a run has now, those being deleted too."""
    found = ((kind, observed.children.get(kind)) for kind, _ in child_names(""))
    return tuple(
        (kind, child)
        for kind, child in found
        if child is not None and controller_of(child).get("uid") == run_uid
    )


def deletion_targets(children: Iterable[tuple[ChildKind, Json]]) -> tuple[DeletionTarget, ...]:
    """Return the children that are still to be deleted."""
    return tuple(
        DeletionTarget(kind, str(child["metadata"]["name"]), str(child["metadata"].get("uid", "")))
        for kind, child in children
        if not is_deleting(child)
    )
