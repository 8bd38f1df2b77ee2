"""Which worker cares for which run?"""

import asyncio

import structlog

from inferometer_api.children import RUN_UID_LABEL
from inferometer_operator.cluster.watching import Change
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.wiring.roster import Roster
from inferometer_operator.wiring.worker import Edges, Worker

_log = structlog.get_logger()


class Crew:
    """One worker a run, woken by whatever happens to the run or its children."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self._workers: dict[str, Worker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._dismissed = False
        self._roster = Roster(edges.settings.max_concurrent_runs, self._wake)

    async def begin(self) -> None:
        """Take in every run there is, before the first gets a turn."""
        runs = await self._edges.reader.runs(self._edges.settings.namespace)
        for run in runs:
            # A list's items do not say what they are.
            self._roster.see(run)
        for run in runs:
            self._employ(run)
        _log.info("runs_found", count=len(runs))

    def run_changed(self, kind: str | None, run: Json) -> None:
        """Take in that a run came, changed or went; `kind` is the watch's word for it."""
        uid = run["metadata"]["uid"]
        if kind == "DELETED":
            self._wake(uid)
            return
        self._roster.see(run)
        worker = self._workers.get(uid)
        if worker is not None:
            worker.run_changed(run)
        else:
            self._employ(run)

    def child_changed(self, change: Change) -> None:
        """Take in that a run's child came, changed or went."""
        self._wake((change.metadata.get("labels") or {}).get(RUN_UID_LABEL, ""))

    async def dismiss(self) -> None:
        """End all work where it stands, and begin none: the cluster knows the rest."""
        self._dismissed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _wake(self, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.wake()

    def _employ(self, run: Json) -> None:
        if self._dismissed:
            # The watches end after the workers, and the next leader may be at work by then.
            return
        uid = run["metadata"]["uid"]
        worker = Worker(self._edges, self._roster, run)
        task = asyncio.create_task(worker.run(), name=f"run {uid}")
        self._workers[uid], self._tasks[uid] = worker, task
        task.add_done_callback(lambda _: self._let_go(uid))

    def _let_go(self, uid: str) -> None:
        del self._workers[uid], self._tasks[uid]
