"""What is behind the Services that a plan is made from: node agents, and an External server?

Where that cannot be listed the run goes on without, and is told why.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog

from inferometer_api.plan.cluster_objects import SERVER
from inferometer_operator.cluster.errors import ApiError, UnreachableError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.agent_assignment import slice_nodes
from inferometer_operator.reconcile.observed import EndpointList, Json
from inferometer_operator.reconcile.pods import address, component
from inferometer_operator.settings import Settings

_AGAIN_SECONDS = 1.0
_MOST_NODES_ASKED = 64
"""Slices may be anybody's: no more of the nodes that they name are looked at."""
_log = structlog.get_logger()


async def list_agents(
    reader: Reader, settings: Settings, run: Json, pods: Iterable[Json]
) -> EndpointList | None:
    """Return the node agents, None while no server is anywhere, or there are none."""
    settled = settings.agent
    placed = any(component(pod) == SERVER and address(pod) for pod in pods)
    if settled is None or not (placed or external_service_name(run)):
        return None

    async def ask() -> EndpointList:
        return EndpointList(await reader.list_endpoint_slices(settled.namespace, settled.service))

    return await _listed(ask)


async def list_backends(reader: Reader, run: Json) -> EndpointList | None:
    """Return what is behind the Service of a run's External server, None without such."""
    name, namespace = external_service_name(run), str(run["metadata"]["namespace"])
    if name is None:
        return None

    async def ask() -> EndpointList:
        slices = await reader.list_endpoint_slices(namespace, name)
        nodes = slice_nodes(slices)[:_MOST_NODES_ASKED]
        found = await asyncio.gather(*(reader.list_pod_uids(namespace, node) for node in nodes))
        pairs = zip(nodes, found, strict=True)
        return EndpointList(
            slices, pods=frozenset((node, uid) for node, uids in pairs for uid in uids)
        )

    return await _listed(ask)


async def _listed(ask: Callable[[], Awaitable[EndpointList]]) -> EndpointList:
    """Return the answer, with what kept it from coming; a fault that may pass is met once more."""
    try:
        return await ask()
    except (ApiError, UnreachableError) as error:
        if isinstance(error, ApiError) and not error.passing:
            return _refused(error)
    await asyncio.sleep(_AGAIN_SECONDS)
    try:
        return await ask()
    except (ApiError, UnreachableError) as error:
        return _refused(error)


def external_service_name(run: Json) -> str | None:
    """Return the name of the Service that a run's External server is behind, if it names one."""
    found: object = run
    for name in ("spec", "server", "external", "service", "name"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None


def _refused(error: ApiError | UnreachableError) -> EndpointList:
    _log.warning("endpoints_not_listed", error=str(error))
    return EndpointList(refusal=error.message if isinstance(error, ApiError) else str(error))
