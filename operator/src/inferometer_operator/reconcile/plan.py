"""What is to be done for a run now? The one decision that all others add to."""

from dataclasses import dataclass
from typing import Any, Literal

from inferometer_api.status.run_status import RunStatus


@dataclass(frozen=True, slots=True)
class Event:
    """Something worth a line in `kubectl describe`."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Target:
    """A child to delete."""

    kind: Literal["Deployment", "Job", "ConfigMap", "Service", "BenchmarkRun"]
    name: str
    uid: str
    """A precondition: something else of that name is never deleted."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done now, in this order: status, make, delete, ask; then look again."""

    status: RunStatus
    """The whole status as it shall be; written only where it differs from what is there."""
    create: tuple[dict[str, Any], ...] = ()
    """Children that are absent and shall exist."""
    delete: tuple[Target, ...] = ()
    events: tuple[Event, ...] = ()
    """Told once the status is written."""
    stop: str | None = None
    """The name of the load pod that shall end now and hand over what it measured."""
    download: str | None = None
    """The name of the ended load pod whose log holds the result."""
    look_again_seconds: float | None = None
    """When time alone may change the decision; None: only the cluster can."""
