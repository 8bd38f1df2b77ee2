"""The context of one decision: a run, its observed state, and the time."""

from dataclasses import dataclass
from datetime import datetime

from inferometer_api.plan.cluster_objects import (
    REPEAT_LABEL,
    inference_name,
    load_name,
    load_service_name,
    server_name,
)
from inferometer_api.plan.deadlines import GONE_SECONDS
from inferometer_api.runtimes.table import is_by_kserve
from inferometer_api.spec.resolve import is_launched, restarts_server
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.status.run_status import RunStatus
from inferometer_api.timestamps import parse_time
from inferometer_operator.manifests.owner import Owner
from inferometer_operator.reconcile.conditions import StatusDraft
from inferometer_operator.reconcile.observed import ChildKind, Fact, Json, Observed
from inferometer_operator.reconcile.times import add_seconds
from inferometer_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class ReconcileContext:
    """One run with a valid spec, the observed state of the cluster, and the time."""

    raw: Json
    run: BenchmarkRun
    """Resolved: every default is filled in."""
    draft: StatusDraft
    observed: Observed
    settings: Settings
    now: datetime
    token: str
    """The bearer token for POST /stop that a new plan gives to its load generator. The fleet's
    token comes from it."""

    @property
    def status(self) -> RunStatus:
        """The status as drafted so far."""
        return self.draft.status

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self.raw["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The run's namespace."""
        return str(self.raw["metadata"].get("namespace", "default"))

    @property
    def uid(self) -> str:
        """The run's UID."""
        return str(self.raw["metadata"]["uid"])

    @property
    def owner(self) -> Owner:
        """The run as the owner of its children."""
        return Owner(self.name, self.namespace, self.uid)

    @property
    def is_launched(self) -> bool:
        """Whether the operator starts the server; False for an External one."""
        return is_launched(self.run.spec)

    @property
    def uses_kserve(self) -> bool:
        """Whether KServe runs the server."""
        return is_by_kserve(self.run.spec.server.runtime)

    @property
    def server_kind(self) -> ChildKind:
        """The kind of the object that has the server's pods."""
        return "InferenceService" if self.uses_kserve else "Job"

    @property
    def server(self) -> str:
        """The name of the server's Job or InferenceService."""
        return inference_name(self.name) if self.uses_kserve else server_name(self.name)

    @property
    def server_port(self) -> int:
        """The port of the server's pods that takes the requests."""
        spec = self.run.spec
        return self.settings.launch_of(spec).port(spec.load.protocol)

    @property
    def load(self) -> str:
        """The name of the load generator's Job and of its plan."""
        return load_name(self.name)

    @property
    def load_service(self) -> str:
        """The name of the Service of the load pods."""
        return load_service_name(self.name)

    @property
    def awaited_repeat(self) -> int | None:
        """The repeat whose servers the load generator awaits; None if it awaits none."""
        report, spec = self.observed.report, self.run.spec
        progress = None if report is None else report.progress
        if progress is None or progress.stage != "WaitingForRestart" or not restarts_server(spec):
            return None
        return progress.repeat if 1 < progress.repeat <= spec.validity.repeats else None

    @property
    def is_between_servers(self) -> bool:
        """Whether the server of the repeat before is to go, and that of the next is not there."""
        awaited, owner = self.awaited_repeat, self.observed.server_owner
        return awaited is not None and (owner is None or repeat_of(owner) < awaited)

    @property
    def ready_deadline(self) -> datetime:
        """When the server must be ready, counted from the creation of its Job or InferenceService.

        Between two servers it counts from the first refusal of the new one.
        """
        if self.is_between_servers:
            refusal = self.observed.refused.get(f"{self.server_kind}/{self.server}")
            since = self.now if refusal is None else refusal.since
            return add_seconds(since, self.run.spec.server.ready_deadline_seconds)
        owner = self.observed.server_owner if self.is_launched else None
        start = (
            parse_time(self.status.start_time) if owner is None else self.since(owner, "created")
        )
        start = start or self.now
        return add_seconds(start, self.run.spec.server.ready_deadline_seconds)

    @property
    def deadline(self) -> datetime:
        """When the run must have ended, counted from its start."""
        start = parse_time(self.status.start_time) or self.now
        return add_seconds(start, self.run.spec.active_deadline_seconds)

    def since(self, thing: Json, fact: Fact) -> datetime:
        """Return since when an object shows a fact; now, if it does not or no one has looked."""
        uid = str(thing["metadata"].get("uid", ""))
        return self.observed.sightings.get((uid, fact), self.now)

    def gone_deadline(self, pod: Json, ended: datetime | None = None) -> datetime:
        """Return until when to wait for a pod: those of a lost node never disappear.

        A pod that is not being deleted yet counts from the end of its run.
        """
        began = ended or self.now
        if is_deleting(pod):
            grace_seconds = pod["metadata"].get("deletionGracePeriodSeconds") or 0
            deleted = add_seconds(self.since(pod, "deleting"), grace_seconds)
            began = deleted if ended is None else max(deleted, ended)
        return add_seconds(began, GONE_SECONDS)


def controller_of(thing: Json) -> Json:
    """Return the owner reference of an object's controller, empty if it has none."""
    owners = thing.get("metadata", {}).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


def repeat_of(owner: Json) -> int:
    """Return the repeat that the Job or the InferenceService of a server is for."""
    label = str((owner["metadata"].get("labels") or {}).get(REPEAT_LABEL, ""))
    return int(label) if label.isdecimal() else 1


def is_deleting(thing: Json) -> bool:
    """Return whether an object is being deleted."""
    return bool(thing.get("metadata", {}).get("deletionTimestamp"))
