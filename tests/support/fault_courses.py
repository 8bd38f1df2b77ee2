"""Courses of events in which a pod or another child fails."""

from collections.abc import Callable
from typing import Any

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from inferometer_operator.reconcile.observed import NOT_REMOVED
from inferometer_operator.settings import Agents
from support.cluster_objects import (
    Object,
    container,
    ended,
    on_silent_node,
    owner_reference,
    terminated,
    waiting,
    warning,
    with_container,
    with_init,
)
from support.condition_rows import Course, a_cluster, serving
from support.pretend_api import stored
from support.pretend_cluster import SETTINGS, PretendCluster

ChildChange = Callable[[Object], Object]
"""What happens to a pod that is made."""


def with_server(change: ChildChange, spec: dict[str, Any] | None = None) -> PretendCluster:
    """Return a cluster whose server pod is so."""
    cluster = a_cluster(spec).settle()
    pod = change(cluster.pod(SERVER))
    cluster.pods[pod["metadata"]["name"]] = pod
    return cluster.settle()


def with_load(change: ChildChange, spec: dict[str, Any] | None = None) -> PretendCluster:
    """Return a cluster whose server is ready and whose load pod is so."""
    cluster = a_cluster(spec).settle().schedule().start_server()
    pod = change(cluster.pod(LOADGEN))
    cluster.pods[pod["metadata"]["name"]] = pod
    return cluster.settle()


def changed_pod(cluster: PretendCluster, component: str, change: ChildChange) -> PretendCluster:
    """Let something happen to a pod of a run."""
    for name, pod in cluster._of(component):
        cluster.pods[name] = change(pod)
    return cluster.settle()


def waits(reason: str, message: str = "") -> ChildChange:
    """Return a kubelet's status of a container that does not start."""
    return lambda pod: with_container(
        pod, container(pod["spec"]["containers"][0]["name"], waiting(reason, message))
    )


def crashed(code: int, message: str, **more: Any) -> ChildChange:
    """Return a kubelet's status of a server that ended."""
    return lambda pod: ended(pod, code, message, **more)


def fetched(code: int, message: str) -> ChildChange:
    """Return a kubelet's status of an init container that failed."""

    def change(pod: Object) -> Object:
        found = with_init(pod, container("fetch", terminated(code, message)))
        return {**found, "status": {**found["status"], "phase": "Failed"}}

    return change


def refuses(*keys: str, words: str, code: int = 403) -> Course:
    """Return the course in which the API server refuses children."""

    def course() -> PretendCluster:
        cluster = a_cluster()
        cluster.refusals = dict.fromkeys(keys, (code, words))
        return cluster.settle().schedule() if "Job/a-run-load" in keys else cluster.settle()

    return course


def keeps_images() -> PretendCluster:
    """Return a cluster with a node that does not give up the images of a cold server."""
    agents = Agents.model_validate({"namespace": "agents", "imageRemovalTokenFile": "a"})
    settings = SETTINGS.model_copy(update={"agent": agents})
    cold = [{"name": "cold", "coldStart": {"state": "Nothing"}}]
    node = {"placement": {"nodeSelector": {"kubernetes.io/hostname": "node1"}}}
    cluster = a_cluster({"scenarios": cold, "server": node}, settings=settings)
    cluster.refusals = {"Job/a-run-server": (409, "The pod team/a uses r/serving:1", NOT_REMOVED)}
    return cluster.settle()


def refuses_server_pods(words: str) -> PretendCluster:
    """Return a cluster whose server's Job cannot make its pods."""
    cluster = a_cluster().settle()
    cluster.events.append(warning(cluster.children[cluster.server], "FailedCreate", words))
    return cluster.settle()


def refuses_load_pod(words: str) -> PretendCluster:
    """Return a cluster whose Job cannot make its pod."""
    cluster = a_cluster().settle().schedule().start_server()
    cluster.events.append(warning(cluster.children[cluster.load], "FailedCreate", words))
    return cluster.settle()


def foreign(key: str, *, late: bool = False) -> PretendCluster:
    """Return a cluster with an object of someone else that has a name of the run's."""
    cluster = a_cluster()
    name = key.partition("/")[2]
    cluster.children[key] = {"kind": key.partition("/")[0], "metadata": {"name": name, "uid": "x"}}
    cluster.settle()
    return cluster.schedule() if late else cluster


def left_behind(key: str) -> PretendCluster:
    """Return a cluster with a child of a deleted run of the same name that is still there."""
    cluster = a_cluster()
    earlier = stored(cluster.run, uid="of-an-earlier-one")
    kind, _, name = key.partition("/")
    owned = {"name": name, "uid": "x", "ownerReferences": [owner_reference(earlier)]}
    cluster.children[key] = {"kind": kind, "metadata": owned}
    return cluster.settle()


def without_conditions(cluster: PretendCluster, *keys: str) -> PretendCluster:
    """Let someone delete children of a run."""
    for key in keys:
        del cluster.children[key]
    return cluster.settle()


def silent(component: str) -> Course:
    """Return the course in which the node of a pod stops responding."""

    def course() -> PretendCluster:
        cluster = serving()
        return changed_pod(cluster, component, lambda pod: on_silent_node(pod, cluster.now))

    return course


def lost_pods(cluster: PretendCluster, component: str) -> PretendCluster:
    """Let pods of a run go without a trace."""
    for name, _ in cluster._of(component):
        del cluster.pods[name]
    return cluster.settle()
