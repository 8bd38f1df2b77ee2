"""The watch of BenchmarkRuns, by kopf: the only module that imports kopf.

kopf runs standalone, without peers, finalizers, annotations or events of its own. It only delivers
events to the callables that `watch_runs` is given.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import kopf

from inferometer_api.plan.cluster_objects import GROUP, MANAGER
from inferometer_operator.cluster.child_watch import SILENCE_SECONDS, WATCH_SECONDS
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.reconcile.observed import Json

_PLURAL = "benchmarkruns"
OnChange = Callable[[str | None, Json], None]


async def watch_runs(
    connection: ApiConnection,
    namespace: str | None,
    *,
    changed: OnChange,
    on_event: Callable[[], None],
    listed: Callable[[], None],
    started: Callable[[], None],
) -> None:
    """Watch until cancelled; return only if kopf fails.

    `changed` gets the type of each event (None for the initial list) and the run. `on_event` is
    called at each sign of the watch, `listed` before all runs are listed again, and `started` once,
    when kopf has taken over the process's signals, so that the caller can take them back.
    """
    existing = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    # Without an identity kopf looks up the process's user, which in a pod has no name.
    identity: Any = MANAGER
    tasks = await kopf.spawn_tasks(
        identity=identity,
        registry=_registry(connection, changed=changed, on_event=on_event, listed=listed),
        settings=_settings(),
        standalone=True,
        clusterwide=namespace is None,
        namespaces=[] if namespace is None else [namespace],
    )
    started()
    await kopf.run_tasks(tasks, ignored=existing)


def _registry(
    connection: ApiConnection,
    *,
    changed: OnChange,
    on_event: Callable[[], None],
    listed: Callable[[], None],
) -> kopf.OperatorRegistry:
    """Return the callbacks of kopf: to log in, and for each event."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(
            server=connection.server,
            aiohttp_session=connection.session(watch_trace(on_event, listed)),
        )

    @kopf.on.event(GROUP, "v1alpha1", _PLURAL, registry=registry)
    async def event(event: kopf.RawEvent, **_: Any) -> None:
        on_event()
        changed(event["type"], event["object"])

    return registry


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    # No watch of CustomResourceDefinitions or Namespaces: the operator needs no right to them.
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.inactivity_timeout = SILENCE_SECONDS
    settings.watching.connect_timeout = 15.0
    settings.networking.request_timeout = 30.0
    settings.process.ultimate_exiting_timeout = None
    return settings


def watch_trace(on_event: Callable[[], None], listed: Callable[[], None]) -> aiohttp.TraceConfig:
    """Return a trace that calls `on_event` when a watch opens and `listed` before a list."""
    trace = aiohttp.TraceConfig()

    async def ended(
        _session: aiohttp.ClientSession, _context: Any, request: aiohttp.TraceRequestEndParams
    ) -> None:
        query = request.url.query
        if request.response.ok and request.url.name == _PLURAL and "continue" not in query:
            (on_event if "watch" in query else listed)()

    trace.on_request_end.append(ended)
    return trace
