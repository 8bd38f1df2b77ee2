"""The sweep: deletes what runs that no longer exist have left behind."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection

import structlog

from inferometer_api.plan.cluster_objects import MANAGED_BY_LABEL, MANAGER, RUN_UID_LABEL
from inferometer_operator.cluster.api_paths import api_path
from inferometer_operator.cluster.connection import METADATA_LIST, ApiConnection
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.reconcile.children import CHILD_KINDS, OPTIONAL_KINDS
from inferometer_operator.reconcile.observed import ChildKind, Json
from inferometer_operator.reconcile.orphans import older_servers, orphans
from inferometer_operator.reconcile.plan import DeletionTarget

_SWEEP_SECONDS = 10.0
_FORBIDDEN = 403
_MAX_RUNS = 50
"""Runs of one sweep: their UIDs stand in the address of a request."""
_log = structlog.get_logger()


async def keep_swept(
    connection: ApiConnection,
    writer: Writer,
    namespace: str | None,
    unknown: Callable[[], Collection[str]],
) -> None:
    """Sweep until cancelled: at once, then every ten seconds in which there is something.

    `unknown` returns the UIDs of runs that have children, but are not known to exist. Those of
    which nothing is to be deleted are swept once: another author has copied their labels. Of many,
    each sweep takes those that follow the last one's: some may fail for good.
    """
    swept: set[str] = set()
    has_older, last = True, ""
    while True:
        there = set(unknown())
        swept &= there
        left = there - swept
        uids = sorted(left, key=lambda uid: (uid <= last, uid))[:_MAX_RUNS]
        if uids:
            last = uids[-1]
            try:
                swept |= set(uids) - await sweep(connection, writer, namespace, uids)
            except (ApiError, ApiUnreachableError) as error:
                _log.warning("sweep_failed", error=str(error))
        if has_older:
            has_older = not await delete_older_servers(connection, writer, namespace)
        await asyncio.sleep(_SWEEP_SECONDS)


async def delete_older_servers(
    connection: ApiConnection, writer: Writer, namespace: str | None
) -> bool:
    """Delete the servers that an operator before server Jobs has left; return whether it is done.

    What is forbidden is not tried again: rights that were granted by hand may lack it.
    """
    done = True
    try:
        labels = f"{MANAGED_BY_LABEL}={MANAGER}"
        for each in await _list(connection, "Deployment", namespace, labels):
            where = each["metadata"]["namespace"]
            for target in older_servers((each,)):
                try:
                    await writer.delete(where, target)
                except ApiError as error:
                    _log.warning("older_servers_not_deleted", error=str(error))
                    done = done and error.code == _FORBIDDEN
                else:
                    _log.info("older_server_deleted", namespace=where, name=target.name)
    except (ApiError, ApiUnreachableError) as error:
        _log.warning("older_servers_not_deleted", error=str(error))
        return isinstance(error, ApiError) and error.code == _FORBIDDEN
    return done


async def sweep(
    connection: ApiConnection, writer: Writer, namespace: str | None, uids: Collection[str]
) -> set[str]:
    """Delete the children of those of the runs that do not exist; return the UIDs of those.

    The runs of a namespace are read after the children: a run exists before its children. What the
    API server refuses is logged and left for a later sweep, and keeps nothing else from going.
    """
    labels = f"{MANAGED_BY_LABEL}={MANAGER},{RUN_UID_LABEL} in ({','.join(uids)})"
    left: dict[str, list[tuple[ChildKind, Json]]] = defaultdict(list)
    for kind in CHILD_KINDS:
        if kind in OPTIONAL_KINDS and not writer.children.run_uids(kind):
            # Kueue may be absent, or the operator may have no rights to its objects.
            continue
        for each in await _list(connection, kind, namespace, labels):
            left[each["metadata"]["namespace"]].append((kind, each))
    gone = set()
    for where, children in left.items():
        runs = await _list(connection, "BenchmarkRun", where)
        existing = {str(run["metadata"]["uid"]) for run in runs}
        for kind, child in children:
            for target in orphans(kind, (child,), existing):
                gone.add(str(child["metadata"]["labels"][RUN_UID_LABEL]))
                await _delete_orphan(writer, where, target)
    return gone


async def _delete_orphan(writer: Writer, where: str, target: DeletionTarget) -> None:
    about = {"namespace": where, "kind": target.kind, "name": target.name}
    try:
        await writer.delete(where, target)
    except ApiError as error:
        _log.warning("orphan_not_deleted", **about, error=str(error))
    else:
        _log.info("orphan_deleted", **about)


async def _list(
    connection: ApiConnection, kind: str, namespace: str | None, labels: str = ""
) -> list[Json]:
    """Return the metadata of all objects of a kind, read in pages."""
    found: list[Json] = []
    query = {"limit": "500", **({"labelSelector": labels} if labels else {})}
    while True:
        answer = await connection.request(
            "GET", api_path(kind, namespace), query=query, accept=METADATA_LIST
        )
        found += answer.get("items") or ()
        following = (answer.get("metadata") or {}).get("continue")
        if not following:
            return found
        query["continue"] = following
