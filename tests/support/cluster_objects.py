"""Raw objects of the Kubernetes API at each step of a run.

Small builders of what kubelet, scheduler and controllers write; the shapes are those that a real
Kubernetes 1.34 wrote.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from inferometer_api.plan.cluster_objects import (
    EXPORTER,
    LOADGEN,
    SERVER,
    labels,
    load_name,
    server_name,
)
from inferometer_api.timestamps import format_time

Object = dict[str, Any]

EPOCH = datetime(2026, 3, 12, 14, 0, 0, tzinfo=UTC)
"""When the tests' clocks begin."""


def owner_reference(run: Mapping[str, Any]) -> Object:
    """Return what makes an object a run's own."""
    metadata = run["metadata"]
    return {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def a_pod(
    run: Mapping[str, Any],
    component: str,
    *,
    name: str | None = None,
    made: int = 1,
    **status: Any,
) -> Object:
    """Return a pod of a run as its Job made it, with members of its status set.

    `made`: how often the Job was made.
    """
    metadata = run["metadata"]
    pod_name = name or f"{metadata['name']}-{component}-1"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name,
            "namespace": metadata.get("namespace", "team"),
            "uid": f"uid-of-{pod_name}",
            "labels": labels(metadata["name"], metadata["uid"], component),
            "creationTimestamp": format_time(EPOCH),
            "ownerReferences": [_job(str(metadata["name"]), component, made)],
        },
        "spec": {"containers": [{"name": component}]},
        "status": {"phase": "Pending", "qosClass": "Guaranteed", **status},
    }


def _job(run_name: str, component: str, made: int) -> Object:
    """Return the owner reference of a pod."""
    name = load_name(run_name) if component == LOADGEN else server_name(run_name)
    uid = f"uid-of-Job/{name}-{made}"
    return {"controller": True, "kind": "Job", "name": name, "uid": uid}


def server_pod(run: Mapping[str, Any], number: int = 1, *, made: int = 1, **status: Any) -> Object:
    """Return a server pod that no node has yet."""
    name = f"{run['metadata']['name']}-server-{number}"
    return a_pod(run, SERVER, name=name, made=made, **status)


def condition(kind: str, value: str, at: datetime = EPOCH, **words: str) -> Object:
    """Return a condition of a pod or of another object."""
    return {"type": kind, "status": value, "lastTransitionTime": format_time(at), **words}


def waiting(reason: str, message: str = "") -> Object:
    """Return the state of a container that does not run yet."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def running(at: datetime = EPOCH) -> Object:
    """Return the state of a container that runs."""
    return {"running": {"startedAt": format_time(at)}}


def terminated(
    code: int, message: str = "", *, reason: str | None = None, at: datetime = EPOCH
) -> Object:
    """Return the state of a container that has ended."""
    end = {
        "exitCode": code,
        "reason": reason or ("Completed" if code == 0 else "Error"),
        "startedAt": format_time(at),
        "finishedAt": format_time(at),
    }
    return {"terminated": {**end, **({"message": message} if message else {})}}


def container(
    name: str,
    state: Object,
    *,
    ready: bool = False,
    image: str = "r/serving:1",
) -> Object:
    """Return the status of a container."""
    return {
        "name": name,
        "image": image,
        "imageID": f"{image}@sha256:{'c' * 64}",
        "ready": ready,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }


def unschedulable(pod: Object, message: str) -> Object:
    """Return the pod as a scheduler leaves it that finds no node."""
    new_condition = condition("PodScheduled", "False", reason="Unschedulable", message=message)
    return _with(pod, conditions=[new_condition])


def bound(pod: Object, node: str = "node1", address: str = "10.88.0.7") -> Object:
    """Return the pod on its node, with an address, its containers still to come."""
    found = _with(
        pod, podIP=address, hostIP="10.0.0.1", conditions=[condition("PodScheduled", "True")]
    )
    return {**found, "spec": {**pod["spec"], "nodeName": node}}


def with_container(pod: Object, *containers: Object, phase: str = "Pending") -> Object:
    """Return a bound pod with the status of its main container (and more)."""
    return _with(bound(pod), containerStatuses=list(containers), phase=phase)


def with_init(pod: Object, init: Object) -> Object:
    """Return a bound pod whose init container is in a state."""
    main = container(pod["spec"]["containers"][0]["name"], waiting("PodInitializing"))
    return _with(bound(pod), initContainerStatuses=[init], containerStatuses=[main])


def started(pod: Object, *, ready: bool, at: datetime = EPOCH, **more: Any) -> Object:
    """Return the pod with its container running."""
    name = pod["spec"]["containers"][0]["name"]
    value = "True" if ready else "False"
    found = with_container(pod, container(name, running(at), ready=ready), phase="Running")
    return _with(
        found,
        conditions=[
            condition("PodScheduled", "True"),
            condition("ContainersReady", value, at),
            condition("Ready", value, at),
        ],
        **more,
    )


def ended(
    pod: Object,
    code: int,
    message: str = "",
    *,
    reason: str | None = None,
    at: datetime = EPOCH,
) -> Object:
    """Return the pod of a Job with its container ended."""
    name = pod["spec"]["containers"][0]["name"]
    state = terminated(code, message, reason=reason, at=at)
    return with_container(pod, container(name, state), phase="Succeeded" if code == 0 else "Failed")


def with_exporter(pod: Object, state: Object) -> Object:
    """Return a load pod whose exporter is in a state; a kubelet sorts the containers by name."""
    others = [each for each in pod["status"]["containerStatuses"] if each["name"] != EXPORTER]
    phase = "Running" if "running" in state else pod["status"]["phase"]
    return _with(pod, containerStatuses=[container(EXPORTER, state), *others], phase=phase)


def evicted(pod: Object, message: str) -> Object:
    """Return the pod as a kubelet leaves it that was short of something."""
    return _with(pod, phase="Failed", reason="Evicted", message=message, containerStatuses=[])


def disruption_fault(pod: Object, reason: str, message: str) -> Object:
    """Return the pod as the cluster marks it before it deletes it."""
    new_condition = condition("DisruptionTarget", "True", reason=reason, message=message)
    return _with(pod, conditions=[*pod["status"].get("conditions", ()), new_condition])


def on_silent_node(pod: Object, at: datetime) -> Object:
    """Return a running pod whose node the cluster misses since a time."""
    conditions = [each for each in pod["status"].get("conditions", ()) if each["type"] != "Ready"]
    inside = [
        {**each, "status": "True"} if each["type"] == "ContainersReady" else each
        for each in conditions
    ]
    return _with(pod, conditions=[*inside, condition("Ready", "False", at)])


def being_deleted(thing: Object, at: datetime) -> Object:
    """Return an object that is being deleted."""
    return {**thing, "metadata": {**thing["metadata"], "deletionTimestamp": format_time(at)}}


def warning(about: Mapping[str, Any], reason: str, message: str, *, at: datetime = EPOCH) -> Object:
    """Return a warning of the cluster about an object."""
    metadata = about["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "type": "Warning",
        "reason": reason,
        "message": message,
        "metadata": {"creationTimestamp": format_time(EPOCH)},
        "lastTimestamp": format_time(at),
        "involvedObject": {
            "kind": about["kind"],
            "name": metadata["name"],
            "uid": metadata.get("uid"),
        },
    }


def endpoint(
    node: str | None,
    address: str,
    *,
    ready: bool | None = True,
    terminating: bool = False,
    pod: Object | None = None,
) -> Object:
    """Return an endpoint of a Service, which is a pod where one is given."""
    conditions = {"ready": ready, "serving": ready, "terminating": terminating}
    found: Object = {
        "addresses": [address],
        "conditions": {} if ready is None else conditions,
    }
    if node is not None:
        found["nodeName"] = node
    if pod is not None:
        found["targetRef"] = {"kind": "Pod", **pod}
    return found


def endpoint_slice(service: str, *endpoints: Object, **members: Any) -> Object:
    """Return an EndpointSlice of a Service, as its controller writes it."""
    return {
        "metadata": {
            "name": f"{service}-x7k2p",
            "labels": {
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "kubernetes.io/service-name": service,
            },
        },
        "addressType": "IPv4",
        "endpoints": list(endpoints),
        "ports": [{"name": "http", "port": 9465, "protocol": "TCP"}],
        **members,
    }


def _with(pod: Object, **status: Any) -> Object:
    conditions = _merged(pod["status"].get("conditions", ()), status.pop("conditions", None))
    return {**pod, "status": {**pod["status"], **status, "conditions": conditions}}


def _merged(before: Sequence[Object], after: Sequence[Object] | None) -> list[Object]:
    found = {each["type"]: each for each in (*before, *(after or ()))}
    return list(found.values())
