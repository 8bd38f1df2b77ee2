"""Objects that a run has left behind, for example by `kubectl delete --cascade=orphan`."""

from collections.abc import Collection, Iterable

from inferometer_api.plan.cluster_objects import (
    COMPONENT_LABEL,
    MANAGED_BY_LABEL,
    MANAGER,
    RESULT,
    RUN_UID_LABEL,
)
from inferometer_operator.reconcile.context import controller_of, is_deleting
from inferometer_operator.reconcile.observed import ChildKind, Json
from inferometer_operator.reconcile.plan import DeletionTarget


def orphans(
    kind: ChildKind, found: Iterable[Json], run_uids: Collection[str]
) -> tuple[DeletionTarget, ...]:
    """Return the objects to delete: the operator created them for a run that no longer exists.

    `found` have their managed fields, `run_uids` are those of all runs now. Any author can copy
    labels: only an object counts that such a run owns, or that has lost its owner and was created
    by the operator. Results that were orphaned on purpose stay, and pods go with their Jobs.
    """
    return tuple(
        DeletionTarget(kind, str(each["metadata"]["name"]), str(each["metadata"]["uid"]))
        for each in found
        if _is_left_behind(each, run_uids) and not is_deleting(each)
    )


def older_servers(found: Iterable[Json]) -> tuple[DeletionTarget, ...]:
    """Return the Deployments to delete: servers of runs, as operators before server Jobs made them.

    A run that was measured with one ends as if its server was deleted.
    """
    return tuple(
        DeletionTarget("Deployment", str(each["metadata"]["name"]), str(each["metadata"]["uid"]))
        for each in found
        if _is_a_runs_own(each) and not is_deleting(each)
    )


def _is_a_runs_own(found: Json) -> bool:
    owner = controller_of(found)
    uid = (found["metadata"].get("labels") or {}).get(RUN_UID_LABEL)
    return uid is not None and owner.get("kind") == "BenchmarkRun" and owner.get("uid") == uid


def _is_left_behind(found: Json, run_uids: Collection[str]) -> bool:
    metadata = found["metadata"]
    labels = metadata.get("labels") or {}
    uid = labels.get(RUN_UID_LABEL)
    if uid is None or uid in run_uids or labels.get(COMPONENT_LABEL) == RESULT:
        return False
    if metadata.get("ownerReferences"):
        return _is_a_runs_own(found)
    makers = {each.get("manager") for each in metadata.get("managedFields") or ()}
    return labels.get(MANAGED_BY_LABEL) == MANAGER and MANAGER in makers
