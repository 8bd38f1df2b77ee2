"""What does the cluster say of one BenchmarkRun?"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from inferometer_api.crd import NAME as DEFINITION
from inferometer_api.status.run_status import Condition, ConditionType, RunStatus
from inferometer_cli.cluster.api import Cluster, Json, NotThereError
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.program import program_name, program_version


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A BenchmarkRun as the cluster has it."""

    name: str
    namespace: str
    uid: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    status: RunStatus = field(default_factory=RunStatus)
    created_at: str = ""
    deleted_at: str = ""
    """When its deletion was asked for; empty: it was not."""

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return one condition, None where the operator has not written it."""
        return next((each for each in self.status.conditions if each.type == kind), None)

    def holds(self, kind: ConditionType) -> bool:
        """Whether a condition is True."""
        condition = self.condition(kind)
        return condition is not None and condition.status == "True"

    @property
    def has_ended(self) -> bool:
        """Whether the run is complete or failed; its pods may still be going."""
        return any(self.holds(kind) for kind in ("Complete", "Failed", "Finished"))


def seen(raw: Mapping[str, Any]) -> SeenRun:
    """Return a run from its object; fields that a later operator added are passed over.

    Raises FailedError where the status is not understood at all.
    """
    meta = raw.get("metadata", {})
    name = meta.get("name", "")
    try:
        status = RunStatus.model_validate(raw.get("status") or {}, extra="ignore")
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise FailedError(
            f"The status of {name} is not understood at status.{where}: the operator is another "
            f"version than this, {program_version()}. Use the command line of the operator's version."
        ) from error
    return SeenRun(
        name=name,
        namespace=meta.get("namespace", ""),
        uid=meta.get("uid", ""),
        spec=raw.get("spec") or {},
        status=status,
        created_at=meta.get("creationTimestamp", ""),
        deleted_at=meta.get("deletionTimestamp", ""),
    )


def read_run(cluster: Cluster, name: str) -> SeenRun:
    """Return a run of the namespace. Raises RefusedError that says what there is instead."""
    try:
        return seen(cluster.read(cluster.run_path(name)))
    except NotThereError as absent:
        raise RefusedError(_absent(cluster, name)) from absent


def _absent(cluster: Cluster, name: str) -> str:
    asked = f"There is no BenchmarkRun {name} in namespace {cluster.namespace}"
    try:
        there = _names(cluster.read(cluster.run_path()))
    except NotThereError:
        return (
            f"The cluster knows no BenchmarkRuns: {DEFINITION} is not installed. Install the "
            f"chart first; `{program_name()} preflight` tells what else is missing."
        )
    except (RefusedError, FailedError):
        return f"{asked}; which others there are may not be read."
    if not there:
        return f"{asked}, nor any other; name another namespace with -n."
    near = difflib.get_close_matches(name, there, n=1)
    if near:
        return f"{asked}; did you mean {near[0]}?"
    more = ", ..." if len(there) > 5 else ""
    return f"{asked}; there are {', '.join(there[:5])}{more}. Name another namespace with -n."


def _names(listed: Json) -> list[str]:
    return sorted(item["metadata"]["name"] for item in listed.get("items", []))
