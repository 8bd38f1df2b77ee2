"""The pool that works on suites: a task or two for any number of suites."""

import asyncio
from collections.abc import Iterator

from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.suite.draft import read_suite_status
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.operator_stats import SuiteGateOutcome
from inferometer_operator.wiring.reconcile_loop import keep_reconciling
from inferometer_operator.wiring.suite.reconciler import SuiteReconciler
from inferometer_operator.wiring.suite.store import SuiteStore, family_of, suite_of
from inferometer_operator.wiring.work_queue import WorkQueue

_TASKS = 4
_GATHER_SECONDS = 0.05


class SuitePool:
    """Reconciles each suite when it or one of its children has changed, or its time has come."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._store = SuiteStore()
        self._reconcilers: dict[str, SuiteReconciler] = {}
        self._work = WorkQueue(clock=dependencies.clock)
        self._suites_listed = asyncio.Event()
        self._runs_listed = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled, once every suite and every run is known."""
        await self._suites_listed.wait()
        await self._runs_listed.wait()
        await keep_reconciling(
            self._work, self._reconcile, tasks=_TASKS, failed_event="suite_failed"
        )

    def suite_changed(self, kind: str | None, suite: Json) -> None:
        """Handle an event of a suite; `kind` is the watch's type, None while all are listed."""
        uid = suite["metadata"]["uid"]
        if kind == "DELETED":
            self._suite_gone(uid)
        elif self._store.put_suite(suite):
            self._report_gate(suite)
            self._wake(uid)
            self._wake(suite_of(suite))

    def suites_listed(self, uids: frozenset[str]) -> None:
        """Handle the end of a list of all suites: those that it lacks are gone."""
        for uid in self._store.suites.keys() - uids:
            self._suite_gone(uid)
        self._suites_listed.set()

    def run_changed(self, kind: str | None, run: Json) -> None:
        """Handle an event of a run."""
        if kind == "DELETED":
            self._wake(self._store.remove_run(run))
        else:
            self._wake(self._store.put_run(run))

    def runs_listed(self, uids: frozenset[str]) -> None:
        """Handle the end of a list of all runs."""
        for uid in self._store.retain_runs(uids):
            self._wake(uid)
        self._runs_listed.set()

    def _wake(self, uid: str) -> None:
        if uid:
            self._work.add(uid, _GATHER_SECONDS)

    def _suite_gone(self, uid: str) -> None:
        gone = self._store.remove_suite(uid)
        self._reconcilers.pop(uid, None)
        self._work.discard(uid)
        if gone is not None:
            self._wake(suite_of(gone))
            name = (gone["metadata"]["namespace"], family_of(gone))
            if not any(_names(self._store, name)):
                self._dependencies.stats.suite_gates.pop(name, None)

    def _report_gate(self, suite: Json) -> None:
        if (suite.get("spec") or {}).get("schedule") is not None:
            return
        name = (suite["metadata"]["namespace"], family_of(suite))
        gates = self._dependencies.stats.suite_gates
        newest = newest_gate(gates.pop(name, None), suite)
        if newest is not None:
            gates[name] = newest

    async def _reconcile(self, uid: str) -> float | None:
        if uid not in self._store.suites:
            return None
        reconciler = self._reconcilers.setdefault(
            uid, SuiteReconciler(self._dependencies, self._store, uid)
        )
        return await reconciler.reconcile()


def newest_gate(held: SuiteGateOutcome | None, suite: Json) -> SuiteGateOutcome | None:
    """Return the gate of the last execution that is over, of those so far and this one.

    None if that execution has no gate.
    """
    gate = read_suite_status(suite).gate
    time = str((suite.get("status") or {}).get("completionTime") or "")
    if not time or (held is not None and held.time > time):
        return held
    return None if gate is None else SuiteGateOutcome(gate.outcome, armed=gate.armed, time=time)


def _names(store: SuiteStore, name: tuple[str, str]) -> Iterator[str]:
    """Yield the UIDs of the suites with this namespace and family."""
    for uid, suite in store.suites.items():
        if (suite["metadata"]["namespace"], family_of(suite)) == name:
            yield uid
