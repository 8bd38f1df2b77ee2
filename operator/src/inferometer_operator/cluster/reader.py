"""Reads from the API server: a run, its children, and objects that it names."""

import asyncio
from dataclasses import dataclass
from typing import Any

import aiohttp

from inferometer_api.plan.cluster_objects import COMPONENT_LABEL, RESULT, selector
from inferometer_operator.cluster.api_paths import api_path
from inferometer_operator.cluster.connection import (
    JSON,
    METADATA_LIST,
    METADATA_ONLY,
    ApiConnection,
)
from inferometer_operator.cluster.errors import ApiError, UnreachableError
from inferometer_operator.reconcile.context import controller_of
from inferometer_operator.reconcile.observed import Json

_POD_CONTROLLERS = frozenset({"Job", "ReplicaSet"})
_SERVICE_LABEL = "kubernetes.io/service-name"
_LOG_LIMIT_BYTES = 24 << 20
"""More than a load generator may write: its document has at most 8 MiB."""
_LOG_SECONDS = 60.0
_EVENT_LIMIT = 200
"""Bounds the memory that a namespace with many events may take at each read."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads that return what the API server holds now, without a cache."""

    connection: ApiConnection

    async def list_runs(self, namespace: str | None) -> list[Json]:
        """Return every run."""
        answer = await self.connection.request("GET", api_path("BenchmarkRun", namespace))
        return list(answer["items"])

    async def get(self, kind: str, namespace: str, name: str, *, accept: str = JSON) -> Any:
        """Return an object, or None if there is none of that name."""
        try:
            return await self.connection.request(
                "GET", api_path(kind, namespace, name), accept=accept
            )
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def get_child(self, kind: str, namespace: str, name: str, run_uid: str) -> Json | None:
        """Return a child of the run; None if it is absent or another owner's."""
        answer = await self.get(kind, namespace, name)
        return answer if answer is not None and is_child_of(answer, run_uid) else None

    async def get_metadata(self, kind: str, namespace: str, name: str) -> Json | None:
        """Return an object's metadata without its content, or None if it is absent."""
        answer = await self.get(kind, namespace, name, accept=METADATA_ONLY)
        return None if answer is None else answer["metadata"]

    async def list_pods(self, namespace: str, run_uid: str) -> tuple[Json, ...]:
        """Return the run's pods, by name; pods without a controller are not the run's."""
        answer = await self._list_by_label("Pod", namespace, selector(run_uid))
        return tuple(pod for pod in answer if controller_of(pod).get("kind") in _POD_CONTROLLERS)

    async def list_pod_uids(self, namespace: str, node: str) -> frozenset[str]:
        """Return the UIDs of all pods of a namespace that are bound to a node."""
        answer = await self.connection.request(
            "GET",
            api_path("Pod", namespace),
            query={"fieldSelector": f"spec.nodeName={node}"},
            accept=METADATA_LIST,
        )
        return frozenset(str(pod["metadata"]["uid"]) for pod in answer["items"])

    async def list_result_maps(self, namespace: str, run_uid: str) -> tuple[Json, ...]:
        """Return the ConfigMaps that hold the run's result, by name."""
        labels = f"{selector(run_uid)},{COMPONENT_LABEL}={RESULT}"
        answer = await self._list_by_label("ConfigMap", namespace, labels)
        return tuple(each for each in answer if is_child_of(each, run_uid))

    async def list_endpoint_slices(self, namespace: str, service: str) -> tuple[Json, ...]:
        """Return the EndpointSlices of a Service, by name."""
        return await self._list_by_label("EndpointSlice", namespace, f"{_SERVICE_LABEL}={service}")

    async def list_warnings(self, namespace: str, uid: str) -> tuple[Json, ...]:
        """Return the warnings about an object, newest last."""
        return await self._events(namespace, f"involvedObject.uid={uid},type=Warning")

    async def list_replica_set_failures(self, namespace: str, deployment: str) -> tuple[Json, ...]:
        """Return warnings about pods that a Deployment's ReplicaSet could not create, newest last.

        A ReplicaSet is known by the name of its Deployment alone.
        """
        answer = await self._events(
            namespace, "involvedObject.kind=ReplicaSet,reason=FailedCreate,type=Warning"
        )
        return tuple(
            event
            for event in answer
            if str(event["involvedObject"].get("name")).startswith(f"{deployment}-")
        )

    async def read_log(self, namespace: str, pod: str, container: str) -> list[str]:
        """Return the lines of a container's log.

        Raises ApiError if the API server cannot read it, UnreachableError if it does not end.
        """
        try:
            async with (
                asyncio.timeout(_LOG_SECONDS),
                self.connection.stream(
                    api_path("Pod", namespace, pod, "log"),
                    query={"container": container, "limitBytes": str(_LOG_LIMIT_BYTES)},
                    accept="*/*",
                    silence_seconds=_LOG_SECONDS,
                ) as stream,
            ):
                text = await stream.read()
        except (TimeoutError, aiohttp.ClientError) as error:
            raise UnreachableError(f"The log of pod {pod} did not end.") from error
        return text.decode(errors="replace").splitlines()

    async def _events(self, namespace: str, fields: str) -> tuple[Json, ...]:
        answer = await self.connection.request(
            "GET",
            api_path("Event", namespace),
            query={"fieldSelector": fields, "limit": str(_EVENT_LIMIT)},
        )
        return tuple(sorted(answer["items"], key=_event_time))

    async def _list_by_label(self, kind: str, namespace: str, labels: str) -> tuple[Json, ...]:
        answer = await self.connection.request(
            "GET", api_path(kind, namespace), query={"labelSelector": labels}
        )
        return tuple(sorted(answer["items"], key=lambda each: str(each["metadata"]["name"])))


def is_child_of(child: Json, run_uid: str) -> bool:
    """Return whether the run is an object's controller: any author can copy its labels."""
    return controller_of(child).get("uid") == run_uid


def _event_time(event: Json) -> str:
    return str(
        event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp", "")
    )
