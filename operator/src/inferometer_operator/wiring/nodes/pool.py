"""The pool that works on NodeBenchmarks."""

import asyncio

from inferometer_operator.cluster.child_watch import ChildChange
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.nodes.queue import NodeQueue
from inferometer_operator.wiring.nodes.reconciler import NodeReconciler
from inferometer_operator.wiring.reconcile_loop import keep_reconciling
from inferometer_operator.wiring.run_queue import RunQueue
from inferometer_operator.wiring.suite.store import version
from inferometer_operator.wiring.work_queue import WorkQueue

_TASKS = 2
_GATHER_SECONDS = 0.05


class NodePool:
    """Reconciles each NodeBenchmark when it or a child has changed, or its time has come."""

    def __init__(self, dependencies: Dependencies, queue: RunQueue) -> None:
        self._dependencies = dependencies
        self._work = WorkQueue(clock=dependencies.clock)
        self._queue = NodeQueue(queue, self._work.add)
        self._benchmarks: dict[str, Json] = {}
        self._reconcilers: dict[str, NodeReconciler] = {}
        self._listed = asyncio.Event()
        self._runs_listed = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled; to be called once the children are known."""
        await self._listed.wait()
        await self._runs_listed.wait()
        await keep_reconciling(
            self._work, self._reconcile, tasks=_TASKS, failed_event="node_benchmark_failed"
        )

    def benchmark_changed(self, kind: str | None, benchmark: Json) -> None:
        """Handle an event of a NodeBenchmark; `kind` is the watch's type, None in a list."""
        uid = benchmark["metadata"]["uid"]
        if kind == "DELETED":
            self._forget(uid)
        elif self._put(benchmark):
            self._work.add(uid, _GATHER_SECONDS)

    def benchmarks_listed(self, uids: frozenset[str]) -> None:
        """Handle the end of a list of all NodeBenchmarks: those that it lacks are gone."""
        for uid in self._benchmarks.keys() - uids:
            self._forget(uid)
        self._listed.set()

    def runs_listed(self) -> None:
        """Handle the end of a list of all runs: the queue knows who holds a slot."""
        self._runs_listed.set()

    def child_changed(self, change: ChildChange) -> None:
        """Handle an event of a child."""
        if change.run_uid in self._benchmarks:
            self._work.add(change.run_uid, _GATHER_SECONDS)

    def _put(self, benchmark: Json) -> bool:
        """Take in a NodeBenchmark; return whether it is news."""
        metadata = benchmark["metadata"]
        held = self._benchmarks.get(metadata["uid"])
        if held is not None and version(benchmark) <= version(held):
            return False
        self._benchmarks[metadata["uid"]] = {
            **benchmark,
            "metadata": {k: each for k, each in metadata.items() if k != "managedFields"},
        }
        self._dependencies.stats.measured_nodes.update(benchmark)
        return True

    def _forget(self, uid: str) -> None:
        self._benchmarks.pop(uid, None)
        self._dependencies.stats.measured_nodes.remove(uid)
        self._reconcilers.pop(uid, None)
        self._work.discard(uid)
        self._queue.remove(uid)

    async def _reconcile(self, uid: str) -> float | None:
        held = self._benchmarks.get(uid)
        if held is None or held["metadata"].get("deletionTimestamp"):
            return None
        reconciler = self._reconcilers.setdefault(
            uid, NodeReconciler(self._dependencies, self._queue)
        )
        written, pause = await reconciler.reconcile(held)
        if uid not in self._benchmarks:
            self._queue.remove(uid)
            return None
        self._put(written)
        return pause
