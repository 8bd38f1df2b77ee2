"""Writes to the API server: status, children, deletions, events."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from inferometer_api.nodes.benchmark import NodeBenchmarkStatus
from inferometer_api.plan.cluster_objects import KUEUE_API_VERSION, MANAGER
from inferometer_api.status.run_status import RunStatus
from inferometer_api.suite.status import SuiteStatus
from inferometer_operator.cluster.api_paths import api_path
from inferometer_operator.cluster.child_store import ChildStore
from inferometer_operator.cluster.connection import (
    APPLY,
    JSON,
    MERGE_PATCH,
    METADATA_ONLY,
    ApiConnection,
)
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.cluster.server_clock import local_time
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.plan import DeletionTarget, Event, WorkloadReport

_HEALING = frozenset({400, 403, 404, 409, 422, 500})
"""Errors at the creation of a child that a person must see: quota, admission, name clash, a webhook
that does not answer. Others are retried silently."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes that can each be repeated, or lost, without harm.

    The store of the children holds each answer at once, before any watch delivers it.
    """

    connection: ApiConnection
    instance: str
    """This operator's identity, written to events."""
    clock: Callable[[], datetime] = local_time
    children: ChildStore = field(default_factory=ChildStore)

    async def apply_status(
        self, run: Json, status: RunStatus | SuiteStatus | NodeBenchmarkStatus
    ) -> Json:
        """Write the whole status of a run, a suite or a node benchmark by server-side apply.

        Return the object as it is then.

        Raises ApiError, a Conflict, if it has changed since it was read.
        """
        metadata = run["metadata"]
        written: Json = await self.connection.request(
            "PATCH",
            api_path(run["kind"], metadata["namespace"], metadata["name"], "status"),
            query={"fieldManager": MANAGER, "force": "true"},
            content_type=APPLY,
            body={
                "apiVersion": run["apiVersion"],
                "kind": run["kind"],
                # The UID protects a later run of the same name; the version protects what a new
                # leader wrote from a late write of the old one.
                "metadata": {
                    "name": metadata["name"],
                    "namespace": metadata["namespace"],
                    "uid": metadata["uid"],
                    "resourceVersion": metadata["resourceVersion"],
                },
                "status": status.model_dump(mode="json", exclude_none=True),
            },
        )
        return written

    async def apply_conditions(self, namespace: str, report: WorkloadReport) -> None:
        """Write conditions of a run's Workload, unless it is gone."""
        try:
            written = await self.connection.request(
                "PATCH",
                api_path("Workload", namespace, report.name, "status"),
                query={"fieldManager": MANAGER, "force": "true"},
                content_type=APPLY,
                body={
                    "apiVersion": KUEUE_API_VERSION,
                    "kind": "Workload",
                    "metadata": {"name": report.name, "namespace": namespace, "uid": report.uid},
                    "status": {"conditions": list(report.conditions)},
                },
            )
        except ApiError as error:
            # Another object of that name has another UID; apply would create one that is gone.
            if error.code not in {404, 409}:
                raise
            gone = {"namespace": namespace, "name": report.name, "uid": report.uid}
            self.children.remove("Workload", {"metadata": gone})
        else:
            self.children.put("Workload", written)

    async def create(self, child: dict[str, Any]) -> ApiError | None:
        """Create a child without overwriting; return the refusal, or None if it was created."""
        namespace = child["metadata"]["namespace"]
        try:
            created = await self.connection.request(
                "POST",
                api_path(child["kind"], namespace),
                query={"fieldManager": MANAGER},
                body=child,
                # A part of a result is large, and is not needed again.
                accept=METADATA_ONLY if "binaryData" in child else JSON,
            )
        except ApiError as error:
            # A quota in use by others may answer with a conflict: retry.
            passes = error.code == 409 and error.reason != "AlreadyExists"
            if error.code in _HEALING and not passes:
                return error
            raise
        self.children.put(child["kind"], created)
        return None

    async def create_suite_child(self, child: dict[str, Any]) -> Json | ApiError:
        """Create a run or an execution of a suite; return it, or the refusal.

        Raises ApiError if the same request may succeed soon.
        """
        path = api_path(child["kind"], child["metadata"]["namespace"])
        try:
            created: Json = await self.connection.request(
                "POST", path, query={"fieldManager": MANAGER}, body=child
            )
        except ApiError as error:
            if error.code in _HEALING:
                return error
            raise
        return created

    async def cancel_run(self, namespace: str, name: str) -> None:
        """Set `spec.cancel` of a run, unless it is gone."""
        await self._cancel("BenchmarkRun", namespace, name)

    async def cancel_suite(self, namespace: str, name: str) -> None:
        """Set `spec.cancel` of a suite, unless it is gone."""
        await self._cancel("BenchmarkSuite", namespace, name)

    async def _cancel(self, kind: str, namespace: str, name: str) -> None:
        try:
            await self.connection.request(
                "PATCH",
                api_path(kind, namespace, name),
                query={"fieldManager": MANAGER},
                content_type=MERGE_PATCH,
                body={"spec": {"cancel": True}},
            )
        except ApiError as error:
            if error.code != 404:
                raise

    async def delete(
        self, namespace: str, target: DeletionTarget, *, version: str | None = None
    ) -> None:
        """Delete this object by its UID, if it still exists; its dependents go after it.

        Raises ApiError, a Conflict, if it no longer has the resourceVersion `version`.
        """
        preconditions = {"uid": target.uid}
        if version is not None:
            preconditions["resourceVersion"] = version
        try:
            answer = await self.connection.request(
                "DELETE",
                api_path(target.kind, namespace, target.name),
                body={
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "preconditions": preconditions,
                    "propagationPolicy": "Background",
                },
            )
        except ApiError as error:
            # A conflict may be one with another writer: the object may still be there.
            if error.code != 404 and (
                error.code != 409 or version is not None or await self._exists(namespace, target)
            ):
                raise
            answer = {}
        if (answer.get("metadata") or {}).get("finalizers"):
            # It goes only later, and the answer is the object as it is until then.
            self.children.put(target.kind, answer)
        else:
            gone = {"namespace": namespace, "name": target.name, "uid": target.uid}
            self.children.remove(target.kind, {"metadata": gone})

    async def _exists(self, namespace: str, target: DeletionTarget) -> bool:
        """Return whether the object exists, rather than another one of its name."""
        path = api_path(target.kind, namespace, target.name)
        try:
            found = await self.connection.request("GET", path)
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return bool(found["metadata"].get("uid") == target.uid)

    async def create_event(self, run: Json, event: Event) -> None:
        """Create an event for the run, unless the same one exists."""
        metadata = run["metadata"]
        named = hashlib.sha256(f"{metadata['uid']}{event.reason}{event.message}".encode())
        name = f"{metadata['name'][:200]}.{named.hexdigest()[:16]}"
        try:
            await self.connection.request(
                "POST",
                api_path("Event", metadata["namespace"]),
                body=_event(run, event, name, self.clock(), self.instance),
            )
        except ApiError as error:
            if error.code != 409:
                raise


def _event(run: Json, event: Event, name: str, now: datetime, instance: str) -> dict[str, Any]:
    metadata = run["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": run["apiVersion"],
            "kind": run["kind"],
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        },
        "type": event.type,
        "reason": event.reason,
        # The API takes 1,024 bytes.
        "message": event.message.encode()[:1024].decode(errors="ignore"),
        "firstTimestamp": _stamp(now),
        "lastTimestamp": _stamp(now),
        "count": 1,
        "source": {"component": MANAGER},
        "reportingComponent": MANAGER,
        "reportingInstance": instance[:128],
    }


def _stamp(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
