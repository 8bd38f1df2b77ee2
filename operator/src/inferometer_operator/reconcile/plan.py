"""The plan for a run: what to write, create, delete and request now."""

from dataclasses import dataclass
from typing import Any, Literal

from inferometer_api.plan.load_plan import ServerTargets
from inferometer_api.status.run_status import RunStatus
from inferometer_operator.reconcile.observed import ChildKind


@dataclass(frozen=True, slots=True)
class Event:
    """An event for `kubectl describe`."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class DeletionTarget:
    """An object to delete."""

    kind: ChildKind | Literal["BenchmarkRun", "BenchmarkSuite", "Deployment", "NodeBenchmark"]
    name: str
    uid: str
    """A precondition: another object of that name is never deleted."""


@dataclass(frozen=True, slots=True)
class WorkloadReport:
    """Conditions of the run's Workload that Kueue is to read."""

    name: str
    uid: str
    conditions: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Handover:
    """The servers of a further repeat, for the load generator that awaits them."""

    pod: str
    """The name of the load pod."""
    targets: ServerTargets


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, in this order: status, creations, Workload, deletions, requests."""

    status: RunStatus
    """The whole new status; written only if it differs from the current one."""
    create: tuple[dict[str, Any], ...] = ()
    """Children that are absent and must exist."""
    workload: WorkloadReport | None = None
    delete: tuple[DeletionTarget, ...] = ()
    events: tuple[Event, ...] = ()
    """Created once the status is written."""
    handover: Handover | None = None
    """Sent until the load generator reports that it has the servers."""
    stop: str | None = None
    """The name of the load pod to stop; it writes what it measured."""
    download: str | None = None
    """The name of the ended load pod whose log holds the result."""
    deliver: bool = False
    """Whether to send the result in the ConfigMaps of the status to the results service."""
    look_again_seconds: float | None = None
    """When time alone may change the plan; None: only an event can."""
