"""Which BenchmarkRuns come, change and go?

kopf watches them, standalone: without peers, finalizers, annotations or posts of its own, so that
nothing but an event's arrival depends on it.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import kopf

from inferometer_api.plan.cluster_objects import GROUP, MANAGER
from inferometer_operator.cluster.child_watch import SILENCE_SECONDS, WATCH_SECONDS
from inferometer_operator.cluster.connection import Connection
from inferometer_operator.reconcile.observed import Json

_PLURAL = "benchmarkruns"
Changed = Callable[[str | None, Json], None]


async def watch_runs(
    connection: Connection,
    namespace: str | None,
    *,
    changed: Changed,
    heard: Callable[[], None],
    listed: Callable[[], None],
    started: Callable[[], None],
) -> None:
    """Watch until cancelled; it ends by itself only where kopf does, which is a fault.

    `changed` is given the watch's word (None for what was there before) and the run; `listed` is
    called before all that there are are given once more; `started` is called once, when kopf has
    taken the process's signals, which its caller may want back.
    """
    existing = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    # Else kopf asks for the name of the process's user, and in a pod that user has none.
    identity: Any = MANAGER
    tasks = await kopf.spawn_tasks(
        identity=identity,
        registry=_registry(connection, changed=changed, heard=heard, listed=listed),
        settings=_settings(),
        standalone=True,
        clusterwide=namespace is None,
        namespaces=[] if namespace is None else [namespace],
    )
    started()
    await kopf.run_tasks(tasks, ignored=existing)


def _registry(
    connection: Connection,
    *,
    changed: Changed,
    heard: Callable[[], None],
    listed: Callable[[], None],
) -> kopf.OperatorRegistry:
    """Return what kopf is to call: to log in, and with each event."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(
            server=connection.server,
            aiohttp_session=connection.session(watch_trace(heard, listed)),
        )

    @kopf.on.event(GROUP, "v1alpha1", _PLURAL, registry=registry)
    async def event(event: kopf.RawEvent, **_: Any) -> None:
        heard()
        changed(event["type"], event["object"])

    return registry


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    # Neither CustomResourceDefinitions nor Namespaces are watched: no right to is needed.
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.inactivity_timeout = SILENCE_SECONDS
    settings.watching.connect_timeout = 15.0
    settings.networking.request_timeout = 30.0
    settings.process.ultimate_exiting_timeout = None
    return settings


def watch_trace(heard: Callable[[], None], listed: Callable[[], None]) -> aiohttp.TraceConfig:
    """Return what calls `heard` when a watch of runs is open, and `listed` before a list comes."""
    trace = aiohttp.TraceConfig()

    async def ended(
        _session: aiohttp.ClientSession, _context: Any, request: aiohttp.TraceRequestEndParams
    ) -> None:
        query = request.url.query
        if request.response.ok and request.url.name == _PLURAL and "continue" not in query:
            (heard if "watch" in query else listed)()

    trace.on_request_end.append(ended)
    return trace
