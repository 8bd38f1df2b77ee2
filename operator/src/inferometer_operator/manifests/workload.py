"""The Workload by which Kueue admits a run as a whole, and what its admission adds to the pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inferometer_api.plan.cluster_objects import (
    ADMISSION,
    KUEUE_API_VERSION,
    KUEUE_GROUP,
    workload_name,
)
from inferometer_api.spec.resolve import is_launched
from inferometer_api.spec.run import BenchmarkRun
from inferometer_operator.manifests.load_job import load_job
from inferometer_operator.manifests.owner import Manifest, Owner, child_metadata
from inferometer_operator.manifests.server_job import server_job
from inferometer_operator.settings import Settings

SERVER_PODS, LOAD_PODS = "server", "load"
"""The names of the pod sets."""
_POD_FIELDS = ("nodeSelector", "tolerations", "affinity", "runtimeClassName", "restartPolicy")
"""What decides on nodes and quota, besides the containers' requests. The rest is left out: a
Workload waits for long, and is watched."""


@dataclass(frozen=True, slots=True)
class WorkloadPriority:
    """A WorkloadPriorityClass and its value."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class PodAdditions:
    """What Kueue's admission adds to the pods of one set."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Manifest, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def workload(
    run: BenchmarkRun,
    owner: Owner,
    settings: Settings,
    *,
    queue: str,
    priority: WorkloadPriority | None,
    requirements: Sequence[Manifest] = (),
) -> Manifest:
    """Return the Workload of a resolved run: its server and load pods are admitted together.

    The nodes of its servers satisfy the `requirements`, as in `server_job`.
    Raises AddressError if an address of the run is not valid.
    """
    sets = [_pod_set(LOAD_PODS, load_job(run, owner, settings))]
    if is_launched(run.spec):
        sets.insert(
            0, _pod_set(SERVER_PODS, server_job(run, owner, settings, requirements=requirements))
        )
    spec: Manifest = {"queueName": queue, "podSets": sets}
    if priority is not None:
        spec["priority"] = priority.value
        spec["priorityClassRef"] = {
            "group": KUEUE_GROUP,
            "kind": "WorkloadPriorityClass",
            "name": priority.name,
        }
    return {
        "apiVersion": KUEUE_API_VERSION,
        "kind": "Workload",
        "metadata": child_metadata(owner, workload_name(owner.name), ADMISSION),
        "spec": spec,
    }


def add_to_pods(job: Manifest, additions: PodAdditions) -> Manifest:
    """Return a Job whose pods have these additions; labels and annotations of its own stay."""
    spec = job["spec"]
    template = spec["template"]
    metadata, pods = dict(template["metadata"]), dict(template["spec"])
    for name, more in (("labels", additions.labels), ("annotations", additions.annotations)):
        if more:
            metadata[name] = {**more, **metadata.get(name, {})}
    if additions.node_selector:
        pods["nodeSelector"] = {**pods.get("nodeSelector", {}), **additions.node_selector}
    if additions.tolerations:
        pods["tolerations"] = [*pods.get("tolerations", ()), *additions.tolerations]
    return {**job, "spec": {**spec, "template": {"metadata": metadata, "spec": pods}}}


def _pod_set(name: str, job: Manifest) -> Manifest:
    """Return the pods of a Job as a set: their number, and what they need of a node."""
    pods = job["spec"]["template"]["spec"]
    template = {each: pods[each] for each in _POD_FIELDS if each in pods}
    for containers in ("initContainers", "containers"):
        if containers in pods:
            template[containers] = [_needs(each) for each in pods[containers]]
    return {"name": name, "count": job["spec"]["parallelism"], "template": {"spec": template}}


def _needs(container: Manifest) -> Manifest:
    return {name: container[name] for name in ("name", "image", "resources")}
