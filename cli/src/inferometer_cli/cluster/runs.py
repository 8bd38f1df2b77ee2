"""The BenchmarkRuns of a cluster."""

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
    """When its deletion was requested; empty if it was not."""

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return one condition, None if the operator has not written it."""
        return next((each for each in self.status.conditions if each.type == kind), None)

    def holds(self, kind: ConditionType) -> bool:
        """Return whether a condition is True."""
        condition = self.condition(kind)
        return condition is not None and condition.status == "True"

    @property
    def has_ended(self) -> bool:
        """Whether the run is complete or failed; its pods may still be terminating."""
        return any(self.holds(kind) for kind in ("Complete", "Failed", "Finished"))


def seen(raw: Mapping[str, Any]) -> SeenRun:
    """Return a run from its object; ignore fields that a later operator added.

    Raises FailedError if the status cannot be understood.
    """
    meta = raw.get("metadata", {})
    name = meta.get("name", "")
    try:
        status = RunStatus.read(raw.get("status") or {})
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise FailedError(
            f"Cannot understand the status of {name} at status.{where}: the operator's version "
            f"differs from this one, {program_version()}. Use the version of the operator."
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
    """Return a run of the namespace. Raises RefusedError, which lists the runs that exist."""
    try:
        return seen(cluster.read(cluster.run_path(name)))
    except NotThereError as absent:
        raise RefusedError(_absent(cluster, name)) from absent


def _absent(cluster: Cluster, name: str) -> str:
    absent = f"BenchmarkRun {name} does not exist in namespace {cluster.namespace}"
    try:
        there = _names(cluster.read(cluster.run_path()))
    except NotThereError:
        return (
            f"The cluster has no BenchmarkRuns: {DEFINITION} is not installed. Install the chart "
            f"first; `{program_name()} preflight` lists what else is missing."
        )
    except (RefusedError, FailedError):
        return f"{absent}, and you may not list the runs that do."
    if not there:
        return f"{absent}, nor does any other. Give another namespace with -n."
    near = difflib.get_close_matches(name, there, n=1)
    if near:
        return f"{absent}. Did you mean {near[0]}?"
    more = ", ..." if len(there) > 5 else ""
    return f"{absent}. Existing runs: {', '.join(there[:5])}{more}. Give another namespace with -n."


def _names(listed: Json) -> list[str]:
    return sorted(item["metadata"]["name"] for item in listed.get("items", []))
