"""The course of events that leads to each fault of a pod or of another child, a row each."""

from typing import Any

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from inferometer_api.results.result import Outcome
from inferometer_api.status.condition_reasons import REASONS, Place, ReasonName
from inferometer_operator.reconcile.observed import DownloadedResult
from support.cluster_objects import (
    EPOCH,
    Object,
    being_deleted,
    bound,
    container,
    disruption_fault,
    ended,
    evicted,
    started,
    terminated,
    unschedulable,
    with_init,
)
from support.condition_rows import Course, Row, external, measuring, serving
from support.fault_courses import (
    ChildChange,
    changed_pod,
    crashed,
    fetched,
    foreign,
    keeps_images,
    left_behind,
    lost_pods,
    refuses,
    refuses_load_pod,
    refuses_server_pods,
    silent,
    waits,
    with_load,
    with_server,
    without_conditions,
)
from support.pretend_cluster import PretendCluster

NOTHING = DownloadedResult(None, "The log holds no result document.")
"""What a load generator leaves that was killed."""
_FAILED: Place = ("Failed", "True")
_SERVER: Place = ("ServerReady", "False")
_LOAD: Place = ("Measuring", "False")
_REFUSED_JOB: Place = ("Measuring", "Unknown")
_QUOTA = "is forbidden: exceeded quota: small, requested: cpu=1, used: cpu=4, limited: cpu=4"
_LIMITS = "is forbidden: maximum cpu usage per Container is 500m, but limit is 1"
_POLICY = 'is forbidden: violates PodSecurity "restricted:latest": seccompProfile'
_HOOK = 'admission webhook "gate.example" denied the request: not here'
_GPU = {"server": {"device": "GPU"}}


def _rows(
    reason: ReasonName,
    server: Course | None = None,
    load: Course | None = None,
    says: tuple[str, ...] = (),
) -> list[Row]:
    """Return the rows of a fault: at once in its condition, and in Failed when it is over."""
    rows = [
        Row(place, reason, course, says)
        for place, course in ((_SERVER, server), (_LOAD, load))
        if course is not None
    ]
    course = server or load
    assert course is not None
    is_transient = REASONS[reason].is_transient
    return [
        *rows,
        Row(_FAILED, reason, (lambda: course().later(300)) if is_transient else course, says),
    ]


def _pod_rows(
    reason: ReasonName, change: ChildChange, *says: str, spec: dict[str, Any] | None = None
) -> list[Row]:
    return _rows(reason, lambda: with_server(change, spec), lambda: with_load(change), says)


def _server_rows(reason: ReasonName, change: ChildChange, *says: str) -> list[Row]:
    return _rows(reason, lambda: with_server(change), None, says)


def _killed_fetcher(pod: Object) -> Object:
    found = with_init(pod, container("fetch", terminated(137, reason="OOMKilled")))
    return {**found, "status": {**found["status"], "phase": "Failed"}}


def _refused_by_node(pod: Object) -> Object:
    status = {**pod["status"], "phase": "Failed", "reason": "OutOfcpu", "message": "not enough"}
    return {**pod, "status": status}


def _deleted_server(code: int, *, evicted: bool = False) -> PretendCluster:
    """Return a cluster that measured until its server was deleted, and then ended."""

    def change(pod: Object) -> Object:
        over = crashed(code, "", reason="Error")(pod)
        gone = being_deleted(over, EPOCH)
        return disruption_fault(gone, "EvictionByEvictionAPI", "evicting") if evicted else gone

    return changed_pod(measuring(), SERVER, change)


def _no_cpu(pod: Object) -> Object:
    return unschedulable(pod, "0/1 nodes are available: 1 Insufficient cpu.")


def _no_gpu(pod: Object) -> Object:
    return unschedulable(pod, "0/1 nodes: 1 Insufficient nvidia.com/gpu.")


_PULL = 'rpc error: code = NotFound desc = failed to pull "r/serving:1": not found'

FAULT_ROWS: list[Row] = [
    *_pod_rows("ImageNotPulled", waits("ErrImagePull", _PULL), "r/serving:1", "not found"),
    *_pod_rows("ImageNameInvalid", waits("InvalidImageName", "no such format"), "r/serving:1"),
    Row(_SERVER, "Unschedulable", lambda: with_server(_no_cpu), ("cpu 1", "1 Insufficient cpu")),
    Row(_LOAD, "Unschedulable", lambda: with_load(_no_cpu), ("cpu 1", "1 Insufficient cpu")),
    Row(
        _SERVER,
        "GpuUnavailable",
        lambda: with_server(_no_gpu, _GPU),
        ("1 nvidia.com/gpu", "Insufficient nvidia.com/gpu", "spec.server.gpu.resource"),
    ),
    *(
        Row(("Accepted", "True"), "WaitingForNodes", course, (says, "1 attempt"))
        for course, says in (
            (lambda: with_server(_no_cpu).later(30), "1 Insufficient cpu"),
            (lambda: with_server(_no_gpu, _GPU).later(30), "1 Insufficient nvidia.com/gpu"),
            (lambda: with_load(_no_cpu).later(30), "1 Insufficient cpu"),
        )
    ),
    *_pod_rows(
        "VolumeNotBound",
        lambda pod: unschedulable(pod, 'persistentvolumeclaim "models" not found'),
        'claim "models" not found',
    ),
    *_rows(
        "QuotaExceeded",
        lambda: refuses_server_pods(f'pods "x" {_QUOTA}'),
        lambda: refuses_load_pod(f'pods "x" {_QUOTA}'),
        ("exceeded quota: small", "cpu 1, memory 2Gi"),
    ),
    Row(_REFUSED_JOB, "QuotaExceeded", refuses("Job/a-run-load", words=f'jobs "x" {_QUOTA}')),
    *_rows(
        "LimitRangeRefused",
        lambda: refuses_server_pods(f'pods "x" {_LIMITS}'),
        lambda: refuses_load_pod(f'pods "x" {_LIMITS}'),
        ("maximum cpu usage per Container is 500m", "cpu 1, memory 2Gi"),
    ),
    *_rows(
        "AdmissionRefused",
        lambda: refuses_server_pods(f'pods "x" {_POLICY}'),
        lambda: refuses_load_pod(f'pods "x" {_POLICY}'),
        ("violates PodSecurity",),
    ),
    Row(_REFUSED_JOB, "AdmissionRefused", refuses("Job/a-run-load", words=_HOOK), ("not here",)),
    *_rows(
        "CreationRefused",
        refuses("Job/a-run-server", words='cannot create resource "jobs"'),
        lambda: refuses_load_pod("serviceaccounts default not found"),
    ),
    Row(
        _REFUSED_JOB,
        "CreationRefused",
        refuses("ConfigMap/a-run-load", "Job/a-run-load", words="x"),
    ),
    *_rows(
        "NameClash",
        lambda: foreign("Job/a-run-server"),
        lambda: foreign("Job/a-run-load", late=True),
        ("is not the run's",),
    ),
    Row(
        _REFUSED_JOB,
        "NameClash",
        lambda: left_behind("Job/a-run-load").schedule(),
        ("is being deleted", "until 2026-03-12T14:01:00.000Z"),
    ),
    *_pod_rows(
        "ContainerNotStarted",
        waits("CreateContainerConfigError", 'configmap "x" not found'),
        'configmap "x" not found',
    ),
    *_rows("ImageNotRemoved", keeps_images, None, ("The pod team/a uses",)),
    *_server_rows("ModelNotFetched", fetched(1, "The store did not answer."), "did not answer"),
    *_server_rows("TaskRefused", fetched(3, "The manifest excludes its engine."), "excludes"),
    *_server_rows("ModelRefused", fetched(2, "The model has another checksum."), "checksum"),
    *_server_rows("ServerCrashed", crashed(1, "Segmentation"), "code 1", "Segmentation"),
    *_server_rows("ServerRefused", crashed(2, "No such operator."), "No such operator."),
    *_rows(
        "ServerNotReady",
        lambda: with_server(lambda pod: started(pod, ready=False)).later(300),
        None,
        ("300 s", "spec.server.readyDeadlineSeconds"),
    ),
    *_rows("ServiceNotFound", lambda: external().settle(), None, ("theirs", "team")),
    *_rows(
        "ServerEnded",
        lambda: changed_pod(measuring(), SERVER, crashed(1, "Killed.")),
        None,
        ("code 1", "Killed."),
    ),
    *_rows("ServerReplaced", lambda: lost_pods(measuring(), SERVER), None, ("gone",)),
    *_rows("ServerReplaced", lambda: _deleted_server(143), None, ("deleted by another client",)),
    *_rows("ServerReplaced", lambda: _deleted_server(137), None, ("deleted by another client",)),
    Row(
        _FAILED,
        "Evicted",
        lambda: _deleted_server(143, evicted=True),
        ("evicting",),
    ),
    *_rows("ServerDeleted", lambda: without_conditions(measuring(), "Job/a-run-server"), None),
    *_rows(
        "OutOfMemory",
        lambda: with_server(crashed(137, "", reason="OOMKilled")),
        lambda: with_load(_killed_fetcher),
        ("memory 2Gi",),
    ),
    Row(
        _FAILED,
        "OutOfMemory",
        lambda: measuring().end_load(137, document=NOTHING, reason="OOMKilled"),
        ("load.resources.memory",),
    ),
    *_pod_rows(
        "Evicted",
        lambda pod: evicted(bound(pod), "The node was low on resource: memory."),
        "low on resource: memory",
        "node1",
    ),
    *_pod_rows(
        "PodRefused",
        lambda pod: _refused_by_node(bound(pod)),
        "OutOfcpu",
        "node1",
    ),
    *_rows("NodeLost", silent(SERVER), silent(LOADGEN), ("node1",)),
    Row(
        _FAILED,
        "NodeLost",
        lambda: changed_pod(
            measuring(),
            SERVER,
            lambda pod: disruption_fault(pod, "DeletionByTaintManager", "Taint manager: deleting"),
        ),
        ("Taint manager",),
    ),
    Row(
        _FAILED,
        "Evicted",
        lambda: changed_pod(
            measuring(),
            SERVER,
            lambda pod: disruption_fault(pod, "PreemptionByScheduler", "preempting to accommodate"),
        ),
        ("preempting",),
    ),
    Row(_FAILED, "LoadNotStarted", lambda: with_load(bound).later(300), ("300 s", "a-run-load")),
    *_rows("LoadPodLost", None, lambda: lost_pods(measuring(), LOADGEN)),
    Row(
        _FAILED,
        "LoadPodLost",
        lambda: lost_pods(without_conditions(serving(), "Job/a-run-load"), LOADGEN),
    ),
    Row(
        _FAILED,
        "LoadPodLost",
        lambda: changed_pod(measuring(), LOADGEN, lambda pod: being_deleted(pod, measuring().now)),
        ("deleted by another client",),
    ),
    Row(
        _FAILED,
        "LoadPodLost",
        lambda: measuring().end_load(143, Outcome(state="Terminated", reason="Terminated")),
        ("stopped by another client",),
    ),
    Row(
        _FAILED,
        "LoadGeneratorDied",
        lambda: changed_pod(
            measuring(), LOADGEN, lambda pod: ended(pod, 139, "Segmentation fault")
        ),
        ("code 139", "Segmentation fault"),
    ),
    *_rows("InputRefused", None, lambda: with_load(fetched(2, "No such array.")), ("No such",)),
    *_rows("InputsNotFetched", None, lambda: with_load(fetched(1, "No route.")), ("No route",)),
]
"""Every fault of a pod or of another child."""
