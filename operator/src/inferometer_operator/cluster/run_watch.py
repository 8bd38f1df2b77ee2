"""The watches of runs, suites and node benchmarks, by kopf: the only module that imports kopf.

It takes kopf's list and watch, and not what kopf does with their events: kopf keeps a queue, a task
and a memory for each object, and compares its versions, which costs more than the operator may take
when it meets 5,000 runs that are kept. What is taken is not part of kopf's documented interface, so
that this module goes with one version of kopf, and a test says so.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Final

import aiohttp
import structlog
from kopf._cogs.clients import auth, errors, watching
from kopf._cogs.configs.configuration import OperatorSettings
from kopf._cogs.structs.credentials import AiohttpSession
from kopf._cogs.structs.references import Namespace, NamespaceName, Resource

from inferometer_api.plan.cluster_objects import GROUP
from inferometer_operator.cluster.child_watch import PAGE, SILENCE_SECONDS, WATCH_SECONDS
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.reconcile.observed import Json

KOPF_VERSION: Final = "1.45.2"
_RESOURCES = {
    kind: Resource(GROUP, "v1alpha1", plural, kind=kind, namespaced=True, preferred=True)
    for kind, plural in (
        ("BenchmarkRun", "benchmarkruns"),
        ("BenchmarkSuite", "benchmarksuites"),
        ("NodeBenchmark", "nodebenchmarks"),
    )
}
_RUNS_PER_PASS = 20
"""Taking in a run takes up to a millisecond, and the Lease must be renewed meanwhile."""
_PAUSES_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
_log = structlog.get_logger()

OnChange = Callable[[str | None, Json], None]


async def watch_runs(
    connection: ApiConnection,
    namespace: str | None,
    *,
    changed: OnChange,
    listed: Callable[[frozenset[str]], None],
    on_event: Callable[[], None],
    kind: str = "BenchmarkRun",
) -> None:
    """Watch until cancelled; list again after a watch that missed events, and after an error.

    `changed` gets the type of each event (None while objects are listed) and the object. `listed`
    gets the UIDs of all of them after each complete list. `on_event` is called at each sign of the
    watch.
    """
    session = connection.session(_watch_opened(on_event))
    auth.vault_var.set(_Login(connection.server, session))  # type: ignore[arg-type]  # plays kopf's
    failures = 0
    resource = _RESOURCES[kind]
    try:
        while True:
            pause = _PAUSES_SECONDS[0]
            try:
                async for _ in _watch_until_missed(resource, namespace, changed, listed, on_event):
                    failures = 0
            except (
                errors.APIError,
                watching.WatchingError,
                aiohttp.ClientError,
                OSError,
                TimeoutError,
            ) as error:
                missing = isinstance(error, errors.APINotFoundError)
                _log.warning(
                    "run_watch_broken",
                    kind=kind,
                    error=str(error) or type(error).__name__,
                    hint=f"Is the CustomResourceDefinition {resource.plural}.{GROUP} installed?"
                    if missing
                    else "",
                )
                pause = _PAUSES_SECONDS[min(failures, len(_PAUSES_SECONDS) - 1)]
                failures += 1
            await asyncio.sleep(pause)
    finally:
        await session.close()


async def _watch_until_missed(
    resource: Resource,
    namespace: str | None,
    changed: OnChange,
    listed: Callable[[frozenset[str]], None],
    on_event: Callable[[], None],
) -> AsyncIterator[None]:
    """Pass on one list and the events after it, until events are missed."""
    uids: set[str] = set()
    taken: Namespace = None if namespace is None else NamespaceName(namespace)
    async for event in watching.continuous_watch(
        settings=_settings(),
        resource=resource,
        namespace=taken,
        operator_pause_waiter=asyncio.get_running_loop().create_future(),
    ):
        on_event()
        if isinstance(event, watching.Bookmark):
            listed(frozenset(uids))
            uids = set()
        elif event["type"] is None:
            uids.add(event["object"]["metadata"]["uid"])
            changed(None, event["object"])
            if len(uids) % _RUNS_PER_PASS == 0:
                await asyncio.sleep(0)
        elif event["type"] != "BOOKMARK":
            changed(event["type"], event["object"])
        yield


class _Login:
    """Plays kopf's store of credentials: the session logs in by itself at each request."""

    def __init__(self, server: str, session: aiohttp.ClientSession) -> None:
        self._context = auth.APIContext(AiohttpSession(server=server, aiohttp_session=session))

    async def extended(
        self, _factory: object, _purpose: str
    ) -> AsyncIterator[tuple[str, None, auth.APIContext]]:
        """Yield the one login that there is."""
        yield "session", None, self._context

    async def invalidate(self, _key: str, _info: object, *, exc: Exception) -> None:
        """Let a refused request fail: a service account's token is read at each request."""
        raise exc


def _settings() -> OperatorSettings:
    settings = OperatorSettings()
    settings.watching.chunk_size = PAGE
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.inactivity_timeout = SILENCE_SECONDS
    settings.watching.connect_timeout = 15.0
    settings.networking.request_timeout = 30.0
    return settings


def _watch_opened(on_event: Callable[[], None]) -> aiohttp.TraceConfig:
    """Return a trace that calls `on_event` when a watch opens: no event may come for a minute."""
    trace = aiohttp.TraceConfig()

    async def note_answer(_: object, __: object, request: aiohttp.TraceRequestEndParams) -> None:
        if request.response.ok:
            on_event()

    trace.on_request_end.append(note_answer)
    return trace


# kopf reports each failed attempt itself, as well as the error that follows.
logging.getLogger(watching.__name__).setLevel(logging.CRITICAL)
