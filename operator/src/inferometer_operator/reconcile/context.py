"""Which run is decided on, what is known of it, and when?"""

from dataclasses import dataclass
from datetime import datetime

from inferometer_api.plan.cluster_objects import fleet_name, load_name, server_name
from inferometer_api.plan.deadlines import GONE_SECONDS
from inferometer_api.spec.resolve import launched
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.status.run_status import RunStatus
from inferometer_operator.manifests.owner import Owner
from inferometer_operator.reconcile.conditions import Moment
from inferometer_operator.reconcile.observed import Json, Observed
from inferometer_operator.reconcile.times import add_seconds, parse_time
from inferometer_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class ReconcileContext:
    """One run whose spec is valid, what the cluster says of it, and when."""

    raw: Json
    run: BenchmarkRun
    """Resolved."""
    before: RunStatus
    """The status as it stands in the cluster."""
    observed: Observed
    settings: Settings
    now: datetime
    token: str
    """What a new plan gives to whoever may stop its load generator."""

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
    def moment(self) -> Moment:
        """When and of which generation something is told."""
        return moment_of(self.raw, self.now)

    @property
    def launched(self) -> bool:
        """Whether the server is started for the run."""
        return launched(self.run.spec)

    @property
    def server(self) -> str:
        """The name of the server's Deployment."""
        return server_name(self.name)

    @property
    def load(self) -> str:
        """The name of the load generator's Job and of its plan."""
        return load_name(self.name)

    @property
    def fleet(self) -> str:
        """The name of the Service of a fleet."""
        return fleet_name(self.name)

    @property
    def ready_deadline(self) -> datetime:
        """When the server must be ready: counted from its Deployment's making."""
        made = creation_time(self.observed.deployment) if self.launched else None
        start = made or parse_time(self.before.start_time) or self.now
        return add_seconds(start, self.run.spec.server.ready_deadline_seconds)

    def owns(self, child: Json) -> bool:
        """Whether the run is an object's controller: only then it is the run's own."""
        return controller_of(child).get("uid") == self.uid


def owner_of(context: ReconcileContext) -> Owner:
    """Return whose children are made."""
    return Owner(context.name, context.namespace, context.uid)


def gone_deadline(pod: Json, since: datetime) -> datetime:
    """Return until when a pod is waited for that shall go: those of a lost node never do."""
    began = parse_time(pod.get("metadata", {}).get("deletionTimestamp")) or since
    return add_seconds(max(began, since), GONE_SECONDS)


def moment_of(raw: Json, now: datetime) -> Moment:
    """Return when and of which generation something is told."""
    generation = raw["metadata"].get("generation")
    return Moment(now, generation if isinstance(generation, int) else None)


def creation_time(thing: Json | None) -> datetime | None:
    """Return when an object was made, None where it is absent."""
    return None if thing is None else parse_time(thing.get("metadata", {}).get("creationTimestamp"))


def controller_of(thing: Json) -> Json:
    """Return the reference to whatever made an object and sees to it, empty where nothing does."""
    owners = thing.get("metadata", {}).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


def is_deleting(thing: Json) -> bool:
    """Whether an object is being deleted."""
    return bool(thing.get("metadata", {}).get("deletionTimestamp"))
