"""Endpoints that a plan needs: of node agents, and of an External server's Service.

If the operator may not list them, the run continues without them and reports why.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog

from inferometer_api.plan.cluster_objects import SERVER
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.agent_assignment import slice_nodes
from inferometer_operator.reconcile.observed import EndpointList, Json
from inferometer_operator.reconcile.pods import address, component
from inferometer_operator.settings import Settings

_AGAIN_SECONDS = 1.0
_MAX_NODES = 64
"""Any author can write slices: the pods of no more nodes are listed."""
_log = structlog.get_logger()


async def list_agents(
    reader: Reader, settings: Settings, run: Json, pods: Iterable[Json]
) -> EndpointList | None:
    """Return the endpoints of the node agents, or None if there is nothing to measure yet."""
    settled = settings.agent
    placed = any(component(pod) == SERVER and address(pod) for pod in pods)
    if settled is None or not (placed or external_service_name(run)):
        return None

    async def fetch() -> EndpointList:
        return EndpointList(await reader.list_endpoint_slices(settled.namespace, settled.service))

    return await _list_with_retry(fetch)


async def list_backends(reader: Reader, run: Json) -> EndpointList | None:
    """Return the endpoints of an External server's Service, or None without one."""
    name, namespace = external_service_name(run), str(run["metadata"]["namespace"])
    if name is None:
        return None

    async def fetch() -> EndpointList:
        slices = await reader.list_endpoint_slices(namespace, name)
        nodes = slice_nodes(slices)[:_MAX_NODES]
        found = await asyncio.gather(*(reader.list_pod_uids(namespace, node) for node in nodes))
        pairs = zip(nodes, found, strict=True)
        return EndpointList(
            slices, pods=frozenset((node, uid) for node, uids in pairs for uid in uids)
        )

    return await _list_with_retry(fetch)


async def _list_with_retry(fetch: Callable[[], Awaitable[EndpointList]]) -> EndpointList:
    """Return the list, or the refusal; retry once after an error that may pass.

    Raises the second one: a refusal would end a run that only its EndpointSlices allow.
    """
    try:
        return await fetch()
    except ApiUnreachableError:
        pass
    except ApiError as error:
        if not error.passing:
            return _log_refusal(error)
    await asyncio.sleep(_AGAIN_SECONDS)
    try:
        return await fetch()
    except ApiError as error:
        if error.passing:
            raise
        return _log_refusal(error)


def external_service_name(run: Json) -> str | None:
    """Return the name of the Service of the run's External server, or None."""
    found: object = run
    for name in ("spec", "server", "external", "service", "name"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None


def _log_refusal(error: ApiError) -> EndpointList:
    _log.warning("endpoints_not_listed", error=str(error))
    return EndpointList(refusal=error.message)
