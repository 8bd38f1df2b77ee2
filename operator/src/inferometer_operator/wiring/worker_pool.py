"""Which worker cares for which run?"""

import asyncio

import structlog

from inferometer_api.plan.cluster_objects import RUN_UID_LABEL
from inferometer_operator.cluster.child_watch import ChildChange
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.wiring.run_queue import RunQueue
from inferometer_operator.wiring.worker import Dependencies, Worker

_RELIST_SECONDS = 10.0
"""Within which nearly all runs of a list are told; who is not by then is looked at."""
_RUNS_AT_ONCE = 50
"""A run with many scenarios takes some milliseconds to read, and the Lease is renewed meanwhile."""
_log = structlog.get_logger()


class WorkerPool:
    """One worker a run, woken by whatever happens to the run or its children."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._workers: dict[str, Worker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._dismissed = False
        self._unheard: set[str] = set()
        self._queue = RunQueue(dependencies.settings.max_concurrent_runs, self._wake)

    async def start(self) -> None:
        """Take in every run there is, before the first gets a turn."""
        runs = await self._dependencies.reader.list_runs(self._dependencies.settings.namespace)
        for number, run in enumerate(runs):
            if number % _RUNS_AT_ONCE == 0:
                await asyncio.sleep(0)
            self._see(run)
        for run in runs:
            self._employ(run)
        self._dependencies.stats.runs_listed = True
        _log.info("runs_found", count=len(runs))

    def run_changed(self, kind: str | None, run: Json) -> None:
        """Take in that a run came, changed or went; `kind` is the watch's word for it."""
        uid = run["metadata"]["uid"]
        self._unheard.discard(uid)
        if kind == "DELETED":
            self._dependencies.stats.remove_run(uid)
            self._wake(uid)
            return
        self._see(run)
        worker = self._workers.get(uid)
        if worker is not None:
            worker.run_changed(run)
        else:
            self._employ(run)

    def runs_relisted(self) -> None:
        """Take in that every run that there is is about to be told: of others nobody will tell."""
        self._unheard = set(self._workers)
        asyncio.get_running_loop().call_later(_RELIST_SECONDS, self._look_for_unheard)

    def child_changed(self, change: ChildChange) -> None:
        """Take in that a run's child came, changed or went."""
        self._wake((change.metadata.get("labels") or {}).get(RUN_UID_LABEL, ""))

    async def stop(self) -> None:
        """End all work where it stands, and begin none: the cluster knows the rest."""
        self._dismissed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _see(self, run: Json) -> None:
        self._queue.update(run)
        self._dependencies.stats.update_run(run)

    def _look_for_unheard(self) -> None:
        """Let runs be looked at that a list should have told of: they may be gone."""
        for uid in self._unheard:
            self._wake(uid)
        self._unheard = set()

    def _wake(self, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.wake()

    def _employ(self, run: Json) -> None:
        if self._dismissed:
            # The watches end after the workers, and the next leader may be at work by then.
            return
        uid = run["metadata"]["uid"]
        worker = Worker(self._dependencies, self._queue, run)
        task = asyncio.create_task(worker.run(), name=f"run {uid}")
        self._workers[uid], self._tasks[uid] = worker, task
        task.add_done_callback(lambda _: self._let_go(uid))

    def _let_go(self, uid: str) -> None:
        del self._workers[uid], self._tasks[uid]
