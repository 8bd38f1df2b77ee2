"""What is behind the Services that a plan is made from: node agents, and an External server?

Where that cannot be listed the run goes on without, and is told why.
"""

import asyncio
from collections.abc import Iterable

import structlog

from inferometer_api.children import SERVER
from inferometer_operator.cluster.errors import RefusedError, UnreachableError
from inferometer_operator.cluster.reading import Reader
from inferometer_operator.reconcile.observed import Json, Listed
from inferometer_operator.reconcile.pods import address, component
from inferometer_operator.settings import Settings

_AGAIN_SECONDS = 1.0
_log = structlog.get_logger()


async def of_agents(
    reader: Reader, settings: Settings, run: Json, pods: Iterable[Json]
) -> Listed | None:
    """Return the node agents, None while no server is anywhere, or there are none."""
    settled = settings.agent
    placed = any(component(pod) == SERVER and address(pod) for pod in pods)
    if settled is None or not (placed or service_of(run)):
        return None
    return await _listed(reader, settled.namespace, settled.service)


async def of_service(reader: Reader, run: Json) -> Listed | None:
    """Return what is behind the Service of a run's External server, None without such."""
    name = service_of(run)
    return None if name is None else await _listed(reader, run["metadata"]["namespace"], name)


async def _listed(reader: Reader, namespace: str, service: str) -> Listed:
    try:
        return Listed(await reader.endpoint_slices(namespace, service))
    except (RefusedError, UnreachableError) as error:
        if isinstance(error, RefusedError) and not error.passing:
            return _refused(error)
    await asyncio.sleep(_AGAIN_SECONDS)
    try:
        return Listed(await reader.endpoint_slices(namespace, service))
    except (RefusedError, UnreachableError) as error:
        return _refused(error)


def service_of(run: Json) -> str | None:
    """Return the name of the Service that a run's External server is behind, if it names one."""
    found: object = run
    for name in ("spec", "server", "external", "service", "name"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None


def _refused(error: RefusedError | UnreachableError) -> Listed:
    _log.warning("endpoints_not_listed", error=str(error))
    return Listed(refusal=error.message if isinstance(error, RefusedError) else str(error))
