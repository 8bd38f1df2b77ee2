"""What does the cluster say of one run?

Raw objects of the API as the cluster gave them, and nothing remembered: a restarted operator
observes the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from inferometer_api.plan.load_report import LoadReport
from inferometer_api.results.result import ResultDocument
from inferometer_operator.reconcile.result_packer import ResultPacker

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The run's place among those that wait for their turn."""

    admitted: bool
    """Whether it may begin (or has begun)."""
    position: int = 0
    """1 for the next, where it waits."""
    ahead: str = ""
    """NAMESPACE/NAME of a run that holds it up."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that the spec names; it must carry the label inferometer.dev/allow-use=true."""

    kind: Literal["Secret", "ConfigMap", "PersistentVolumeClaim"]
    name: str
    path: str
    """Where the spec names it: "spec.model.credentialsSecret"."""


@dataclass(frozen=True, slots=True)
class DownloadedResult:
    """What the load pod's log gave."""

    document: ResultDocument | None
    fault: str = ""
    """Why there is no document, as a sentence."""
    reason: Literal["ResultIncomplete", "ResultTooLarge", "ResultLost"] = "ResultIncomplete"
    """Which kind of fault: a gap or a wrong sum; more than may be read; no log at all."""
    packing: ResultPacker = field(default_factory=ResultPacker, compare=False, repr=False)
    """Goes with the document: decisions pack it once. Those of a large one take a second, in which
    nothing else of the loop runs unless the edge decides in a thread."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the API server said when a child could not be made."""

    since: datetime
    """When it first said so, in a row of attempts that all failed."""
    code: int
    """Its HTTP status. 409 stands for an object of that name that is not the run's: the edge has
    looked, and a 409 by the run's own object is no refusal."""
    message: str
    holder: Json | None = None
    """With 409: the metadata of the object that has the name, as it was found; None where it was
    gone by then."""


@dataclass(frozen=True, slots=True)
class EndpointList:
    """The EndpointSlices of a Service."""

    slices: tuple[Json, ...] = ()
    refusal: str = ""
    """Why they could not be listed, in the API server's words."""
    pods: frozenset[tuple[str, str]] = frozenset()
    """Node and UID of each pod of the Service's namespace on the nodes that the slices name, as the
    pods say it; of an External server's Service alone."""


@dataclass(frozen=True, slots=True)
class Observed:
    """All that the cluster says of one run. None: it is not there, or was not asked for."""

    queue_position: QueuePosition
    deployment: Json | None = None
    """The server's. Of these three only the run's own: a foreign object of the name is none, and
    tells itself as a refusal."""
    job: Json | None = None
    plan_map: Json | None = None
    """The ConfigMap with the load generator's plan."""
    fleet_service: Json | None = None
    """The Service that names the pods of a fleet, where the run asks for one; the run's own."""
    pods: tuple[Json, ...] = ()
    """Pods that carry the run's labels, its own or not (see pods.py), those being deleted too."""
    result_maps: tuple[Json, ...] = ()
    """ConfigMaps that carry the labels of the run's results, its own or not, by name."""
    events: tuple[Json, ...] = ()
    """Warnings about the run's Deployment, ReplicaSet, Job and pods, the newest last."""
    raw_references: Mapping[Reference, Json | None] = field(default_factory=dict)
    """The metadata ({"labels": ...}) of all that references.references(run) names; None: it does
    not exist. Asked for while the run has not started, Secrets only where settings allow them."""
    service: Json | None = None
    """The Service that spec.server.external names, whole."""
    agents: EndpointList | None = None
    """The node agents, where settings name some; asked for while the plan is still to be made."""
    behind_service: EndpointList | None = None
    """What is behind `service`; asked for while the plan is still to be made."""
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    """What the API server said when a child could not be made, by KIND/NAME ("Job/a-run-load").
    Plan.make names such a child all the same: the edge decides how soon it is tried again. An
    entry goes when the child was made; a restarted operator has none and tries again."""
    report: LoadReport | None = None
    """The load generator's last answer, or its termination message once it has ended."""
    downloaded: DownloadedResult | None = None
    """What became of Plan.collect. The edge must answer in the end, with a fault at worst: a run
    waits for it."""
