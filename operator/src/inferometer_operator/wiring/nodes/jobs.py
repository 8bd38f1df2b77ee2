"""The Jobs that measure nodes, and their pods."""

from collections.abc import Iterable

from inferometer_api.plan.cluster_objects import node_benchmark_child
from inferometer_operator.cluster.child_store import is_child_of
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.manifests.owner import Owner
from inferometer_operator.reconcile.context import controller_of
from inferometer_operator.reconcile.observed import Json


def node_jobs(
    reader: Reader, owner: Owner, nodes: Iterable[str]
) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the Jobs of an owner that measure these nodes, and their pods, each by its node."""
    names = {node_benchmark_child(owner.name, owner.uid, node): node for node in nodes}
    jobs = {
        names[job["metadata"]["name"]]: job
        for job in reader.children.of_run("Job", owner.namespace, owner.uid)
        if job["metadata"]["name"] in names and is_child_of(job, owner.uid)
    }
    uids = {job["metadata"]["uid"]: node for node, job in jobs.items()}
    pods = {
        uids[controller_of(pod)["uid"]]: pod
        for pod in reader.list_pods(owner.namespace, owner.uid)
        if controller_of(pod).get("uid") in uids
    }
    return jobs, pods
