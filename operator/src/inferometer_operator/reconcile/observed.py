"""The observed state of one run: raw objects of the API, without memory.

A restarted operator observes the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from inferometer_api.plan.load_plan import LoadNodeFault
from inferometer_api.plan.load_report import LoadReport
from inferometer_api.results.result import ClusterNode
from inferometer_operator.reconcile.result_packer import ReceivedResult, ResultPacker

if TYPE_CHECKING:
    from inferometer_api.manifest.model_manifest import ModelManifest

Json = Mapping[str, Any]
ChildKind = Literal["Job", "ConfigMap", "Service", "Workload", "InferenceService"]
"""Kinds of the objects that the operator creates for a run, except for its results."""
ChildRole = Literal["load", "server", "inference", "plan", "begun", "loadService", "workload"]
"""Roles of these objects: the Jobs of load and server, KServe's InferenceService instead of the
server's Job, the load generator's plan, the record that the load's Job was created although no
status can say so, the Service of the load pods, and the Workload by which Kueue admits the run."""


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The run's position in the queue."""

    admitted: bool
    """Whether it may begin, or has begun."""
    position: int = 0
    """1 for the next run, if it waits."""
    ahead: str = ""
    """NAMESPACE/NAME of a run ahead of it."""
    nodes_freed: bool = False
    """Whether another run has ended since this one found no nodes: it need not wait any longer."""
    others_await_nodes: bool = False
    """Whether another admitted run waits for nodes while this one awaits its next server."""


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """An object that the spec names; it needs the label inferometer.dev/allow-use."""

    kind: Literal["Secret", "ConfigMap", "PersistentVolumeClaim"]
    name: str
    path: str
    """The field that names it: "spec.model.credentialsSecret"."""
    use: str = "true"
    """The value that its label must have."""


@dataclass(frozen=True, slots=True)
class DownloadedResult:
    """The result in the load pod's log."""

    result: ReceivedResult | None
    fault: str = ""
    """Why there is none, as a sentence."""
    reason: Literal["ResultIncomplete", "ResultTooLarge", "ResultLost"] = "ResultIncomplete"
    """The kind of fault: a gap or a wrong checksum; a size over the limit; no log at all."""
    passing: bool = False
    """Whether it may still come: the log cannot be read now, or may not be written to its end."""
    packing: ResultPacker = field(default_factory=ResultPacker, compare=False, repr=False)
    """Goes with the result: decisions pack it once."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The last attempt to deliver a run's result to the results service."""

    stored_id: str = ""
    """The ID that the service gave it; empty if it did not take it."""
    config_maps: tuple[tuple[str, str], ...] = ()
    """Name and UID of the ConfigMaps whose content the service has."""
    reason: Literal["StoreUnreachable", "StoreRefused"] = "StoreUnreachable"
    fault: str = ""
    """Why it is not stored, as a sentence."""
    retry_at: datetime | None = None
    """When to try again; None if it is stored."""


Fact = Literal["created", "deleting", "bound", "silent", "ended", "unbacked"]
"""What an object shows from some time on: it was created, is being deleted, is bound to a node, its
node is silent, its container has ended; of a run: the Service of its External server leads to no
pods of the namespace."""
Sightings = Mapping[tuple[str, Fact], datetime]
"""Since when facts hold, by the object's UID (see sightings.py)."""


NOT_REMOVED = "ImageNotRemoved"
"""Reason of the refusal by a node that is to give up images before a child is created."""


@dataclass(frozen=True, slots=True)
class CreateRefusal:
    """The API server's refusal to create a child, or a node's."""

    since: datetime
    """The time of the first refusal in an unbroken row."""
    code: int
    """Its HTTP status. 409 means that another owner's object has the name: the executor has checked
    that it is not the run's own."""
    message: str
    reason: str = ""
    """The API's reason in CamelCase, or NOT_REMOVED."""
    holder: Json | None = None
    """With 409: the metadata of the object that has the name; None if it is gone already."""


@dataclass(frozen=True, slots=True)
class EndpointList:
    """The EndpointSlices of a Service."""

    slices: tuple[Json, ...] = ()
    refusal: str = ""
    """Why they could not be listed, in the API server's words."""
    pods: frozenset[tuple[str, str]] = frozenset()
    """Node and UID of each pod of the Service's namespace on the nodes in the slices. Only for an
    External server's Service."""


@dataclass(frozen=True, slots=True)
class KnownManifest:
    """The manifest of a run's model, as far as it is in a ConfigMap that the run may use."""

    manifest: "ModelManifest | None" = None
    problem: str = ""
    """Why it is refused, as a sentence: it is broken, or no node satisfies it."""
    unfit_hostnames: tuple[str, ...] = ()
    """Nodes that do not satisfy it, if the operator may read nodes."""


@dataclass(frozen=True, slots=True)
class KueueObjects:
    """What is observed of Kueue, if the settings enable it and the cluster serves its API."""

    flavors: Mapping[str, Json | None] = field(default_factory=dict)
    """The ResourceFlavors that Kueue has assigned to the run, by name, read until its pods exist.
    None: it does not exist, or cannot be read."""
    priority_class: Json | None = None
    """The WorkloadPriorityClass that the run's label names; read until its Workload exists."""
    refusal: str = ""
    """Why the operator may not see Workloads, in the API server's words."""


@dataclass(frozen=True, slots=True)
class InferenceObjects:
    """What KServe has created for the InferenceService of a run, as far as that controls it."""

    service: Json | None = None
    """The Service by which users reach the server."""
    deployment: Json | None = None
    replica_sets: frozenset[str] = frozenset()
    """UIDs of the ReplicaSets of its Deployment."""
    refusal: str = ""
    """Why the operator cannot use KServe here, as a clause; empty if it can."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed state of one run. None: absent, or not read."""

    queue_position: QueuePosition
    children: Mapping[ChildRole, Json | None] = field(default_factory=dict)
    """The run's own objects of `child_names`: another owner's object of the name is None here, and
    becomes a refusal."""
    sightings: Sightings = field(default_factory=dict)
    """Of the run, its children and `pods`."""
    pods: tuple[Json, ...] = ()
    """Pods with the run's labels, its own or not (see pods.py), including those being deleted."""
    result_maps: tuple[Json, ...] = ()
    """Metadata of ConfigMaps with the labels of the run's results, its own or not, by name."""
    events: tuple[Json, ...] = ()
    """Warnings about the run's Jobs and pods, newest last."""
    pulls: tuple[Json, ...] = ()
    """Events about the images of ready server pods; only of a server that starts without image."""
    references: Mapping[ObjectReference, Json | None] = field(default_factory=dict)
    """The metadata ({"labels": ...}) of each object in `references`; None: it does not exist. Read
    until the run starts; Secrets only if the settings allow them."""
    model_manifest: KnownManifest | None = None
    """The manifest that the run names in a ConfigMap; read until its servers are created."""
    service: Json | None = None
    """The Service in spec.server.external, with its spec."""
    agents: EndpointList | None = None
    """The node agents, if the settings name some; read until the plan exists."""
    load_node_faults: tuple[LoadNodeFault, ...] = ()
    """What NodeBenchmarks of the run's namespace found; read until the plan exists."""
    cluster_nodes: Mapping[str, ClusterNode | None] = field(default_factory=dict)
    """What the cluster knows of the servers' nodes, by name; read for each plan."""
    behind_service: EndpointList | None = None
    """The endpoints of `service`; read until the plan exists."""
    refused: Mapping[str, CreateRefusal] = field(default_factory=dict)
    """Refusals to create a child, by KIND/NAME ("Job/a-run-load"). Plan.create lists such a child
    all the same: the executor decides when to retry. An entry goes once the child is created; a
    restarted operator has none and retries."""
    report: LoadReport | None = None
    """The load generator's last report, or its termination message once it has ended."""
    downloaded: DownloadedResult | None = None
    """The result of Plan.download, or why the last attempt failed. None: not tried yet, or dropped
    before a pause."""

    delivery: Delivery | None = None
    """None: not tried yet."""

    kueue: KueueObjects | None = None
    """None: Kueue is disabled or not installed."""

    inference: InferenceObjects | None = None
    """None: the run does not use KServe."""

    @property
    def workload(self) -> Json | None:
        """The Workload by which Kueue admits the run."""
        return self.children.get("workload")

    @property
    def kueue_flavors(self) -> Mapping[str, Json | None]:
        """The ResourceFlavors that Kueue has assigned to the run."""
        return {} if self.kueue is None else self.kueue.flavors

    @property
    def server_owner(self) -> Json | None:
        """The server's Job, or its InferenceService."""
        return self.children.get("server") or self.children.get("inference")

    @property
    def load_job(self) -> Json | None:
        """The load generator's Job."""
        return self.children.get("load")

    @property
    def plan_map(self) -> Json | None:
        """The ConfigMap with the load generator's plan."""
        return self.children.get("plan")
