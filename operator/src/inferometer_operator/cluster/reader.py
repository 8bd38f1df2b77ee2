"""Reads of a run, its children, and objects that it names.

Children are read from the store that the watches feed; everything else is what the API server holds
now.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from inferometer_api.plan.cluster_objects import COMPONENT_LABEL, RESULT, selector
from inferometer_operator.cluster.api_paths import api_path
from inferometer_operator.cluster.child_store import ChildStore, is_child_of
from inferometer_operator.cluster.connection import (
    JSON,
    METADATA_LIST,
    METADATA_ONLY,
    ApiConnection,
)
from inferometer_operator.cluster.errors import (
    ApiError,
    ApiUnreachableError,
    NodesForbiddenError,
)
from inferometer_operator.reconcile.children import METADATA_KINDS
from inferometer_operator.reconcile.context import controller_of
from inferometer_operator.reconcile.observed import Json

_SERVICE_LABEL = "kubernetes.io/service-name"
_FORBIDDEN = 403
_LOG_LIMIT_BYTES = 24 << 20
"""More than a load generator may write: its document has at most 8 MiB."""
_LOG_PIECE_BYTES = 64 << 10
_LOG_SECONDS = 60.0
LOG_SETTLED_SECONDS = 15.0
"""A container counts as ended before its runtime has written the last lines of the log. A log that
lacks the same for so long will not get it: nothing writes to it."""
_EVENT_LIMIT = 200
"""Bounds the memory that a namespace with many events may take at each read."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads of objects."""

    connection: ApiConnection
    children: ChildStore = field(default_factory=ChildStore)
    """Fed by the watches."""

    async def get(self, kind: str, namespace: str | None, name: str, *, accept: str = JSON) -> Any:
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
        """Return a child of the run from the store; None if it is absent or another owner's.

        The watch delivers no content of ConfigMaps: it is read once for each version.
        """
        held = self.children.get(kind, namespace, name, run_uid)
        if held is None or kind not in METADATA_KINDS or "data" in held:
            return held
        return await self.refresh_child(kind, namespace, name, run_uid)

    async def refresh_child(
        self, kind: str, namespace: str, name: str, run_uid: str
    ) -> Json | None:
        """Return a child of the run as the API server holds it now, and keep it in the store."""
        found = await self.get(kind, namespace, name)
        if found is not None:
            self.children.put(kind, found)
        return found if found is not None and is_child_of(found, run_uid) else None

    async def get_metadata(self, kind: str, namespace: str, name: str) -> Json | None:
        """Return an object's metadata without its content, or None if it is absent."""
        answer = await self.get(kind, namespace, name, accept=METADATA_ONLY)
        return None if answer is None else answer["metadata"]

    def list_pods(self, namespace: str, run_uid: str) -> tuple[Json, ...]:
        """Return the run's pods from the store, by name: those of Jobs and of KServe."""
        return tuple(
            pod
            for pod in self.children.of_run("Pod", namespace, run_uid)
            if controller_of(pod).get("kind") in {"Job", "ReplicaSet"}
        )

    async def refresh_pods(self, namespace: str, run_uid: str) -> None:
        """Put the run's pods into the store as the API server holds them now."""
        for pod in await self._list_by_label("Pod", namespace, selector(run_uid)):
            self.children.put("Pod", pod)

    async def list_pod_uids(self, namespace: str, node: str) -> frozenset[str]:
        """Return the UIDs of all pods of a namespace that are bound to a node."""
        answer = await self.connection.request(
            "GET",
            api_path("Pod", namespace),
            query={"fieldSelector": f"spec.nodeName={node}"},
            accept=METADATA_LIST,
        )
        return frozenset(str(pod["metadata"]["uid"]) for pod in answer["items"] or ())

    async def list_running_pods(self, namespace: str | None, node: str) -> tuple[Json, ...]:
        """Return the metadata of pods that run on a node; None: those of every namespace."""
        answer = await self.connection.request(
            "GET",
            api_path("Pod", namespace),
            query={"fieldSelector": f"spec.nodeName={node},status.phase=Running"},
            accept=METADATA_LIST,
        )
        return tuple(answer["items"] or ())

    async def get_node(self, name: str) -> Json | None:
        """Return a node, None if it is gone: by a list, which is what the operator may do."""
        answer = await self.connection.request(
            "GET", api_path("Node", None), query={"fieldSelector": f"metadata.name={name}"}
        )
        return next(iter(answer["items"] or ()), None)

    async def list_result_maps(self, namespace: str, run_uid: str) -> tuple[Json, ...]:
        """Return the metadata of the ConfigMaps that hold the run's result, by name."""
        labels = f"{selector(run_uid)},{COMPONENT_LABEL}={RESULT}"
        answer = await self._list_by_label("ConfigMap", namespace, labels, accept=METADATA_LIST)
        return tuple(each for each in answer if is_child_of(each, run_uid))

    async def list_nodes(self) -> tuple[Json, ...]:
        """Return every node of the cluster. Raises NodesForbiddenError without the right to."""
        try:
            answer = await self.connection.request("GET", api_path("Node", None))
        except ApiError as error:
            if error.code != _FORBIDDEN:
                raise
            text = (
                "The operator may not list nodes, although its setting readNodes is true: "
                f"{error.message.rstrip('.')}. Grant its ServiceAccount the verb list on nodes in "
                "the whole cluster, as the chart does with readNodes=true. It is tried again."
            )
            raise NodesForbiddenError(error.code, error.reason, text) from error
        return tuple(answer["items"])

    async def list_node_benchmarks(self, namespace: str) -> tuple[Json, ...]:
        """Return the NodeBenchmarks of a namespace."""
        answer = await self.connection.request("GET", api_path("NodeBenchmark", namespace))
        return tuple(answer["items"])

    async def list_endpoint_slices(self, namespace: str, service: str) -> tuple[Json, ...]:
        """Return the EndpointSlices of a Service, by name."""
        return await self._list_by_label("EndpointSlice", namespace, f"{_SERVICE_LABEL}={service}")

    async def list_warnings(self, namespace: str, uid: str) -> tuple[Json, ...]:
        """Return the warnings about an object, newest last."""
        return await self._events(namespace, f"involvedObject.uid={uid},type=Warning")

    async def list_pulls(self, namespace: str, uid: str) -> tuple[Json, ...]:
        """Return the Events about images of a pod, newest last."""
        return await self._events(namespace, f"involvedObject.uid={uid},reason=Pulled")

    async def stream_log(self, namespace: str, pod: str, container: str) -> AsyncGenerator[bytes]:
        """Yield a container's log in pieces as they arrive, 24 MiB at most.

        Raises ApiError if the API server cannot read it, UnreachableError if it does not end.
        """
        rest = _LOG_LIMIT_BYTES
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
                # A kubelet that knows no limit sends more.
                while rest > 0 and (piece := await stream.read(min(rest, _LOG_PIECE_BYTES))):
                    rest -= len(piece)
                    yield piece
        except (TimeoutError, aiohttp.ClientError) as error:
            raise ApiUnreachableError(f"The log of pod {pod} did not end.") from error

    async def _events(self, namespace: str, fields: str) -> tuple[Json, ...]:
        answer = await self.connection.request(
            "GET",
            api_path("Event", namespace),
            query={"fieldSelector": fields, "limit": str(_EVENT_LIMIT)},
        )
        return tuple(sorted(answer["items"], key=_event_time))

    async def _list_by_label(
        self, kind: str, namespace: str, labels: str, *, accept: str = JSON
    ) -> tuple[Json, ...]:
        answer = await self.connection.request(
            "GET", api_path(kind, namespace), query={"labelSelector": labels}, accept=accept
        )
        # A list of metadata without objects has null.
        found = answer["items"] or ()
        return tuple(sorted(found, key=lambda each: str(each["metadata"]["name"])))


def _event_time(event: Json) -> str:
    return str(
        event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp", "")
    )
