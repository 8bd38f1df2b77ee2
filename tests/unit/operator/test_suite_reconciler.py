"""The reconciliation of one suite: what it waits for, and where it decides."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inferometer_api.ranking import Computation
from inferometer_api.suite.plan_suite import MOST_SYSTEMS, PlannedRun, System
from inferometer_api.suite.status import SuiteStatus
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.suite.cells import SuiteDecision, decide
from inferometer_operator.reconcile.suite.draft import read_suite_status
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.suite import reconciler as suite_reconciler
from inferometer_operator.wiring.suite.reconciler import SuiteReconciler
from inferometer_operator.wiring.suite.store import SuiteRunFacts, SuiteStore
from support.suite_gates import AXIS
from support.suites import a_suite, an_outcome, planned
from support.waiting import wait_for_event

_UID = "suite-1"
_IMAGE = f"registry.test/image@sha256:{'a' * 64}"
_IMAGES = {"serving": _IMAGE, "servingGpu": _IMAGE, "loadgen": _IMAGE}
_READY = {"conditions": [{"type": "Ready", "status": "True"}]}


@dataclass
class Cluster:
    """An API server with nodes and suites, which may forbid to list the nodes."""

    nodes: Sequence[str] = ("node-a",)
    may_list_nodes: bool = True
    store: SuiteStore = field(default_factory=SuiteStore)
    writes: int = 0

    async def request(self, method: str, path: str, **_: Any) -> Any:
        """Answer a list of nodes."""
        assert (method, path) == ("GET", "/api/v1/nodes")
        if not self.may_list_nodes:
            raise ApiError(403, "Forbidden", 'nodes is forbidden: User "op" cannot list "nodes"')
        return {"items": [{"metadata": {"name": name}, "status": _READY} for name in self.nodes]}

    async def apply_status(self, suite: dict[str, Any], status: SuiteStatus) -> dict[str, Any]:
        """Return the suite with the status, in the next version."""
        self.writes += 1
        version = int(suite["metadata"]["resourceVersion"]) + 1
        metadata = {**suite["metadata"], "resourceVersion": str(version)}
        written = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {**suite, "metadata": metadata, "status": written}

    async def create_event(self, *_: Any) -> None:
        """Take an event."""

    async def other_operator(self, _: Any) -> str:
        """Return that no other operator works on a suite."""
        return ""

    def add_suite(self, suite: dict[str, Any], uid: str = _UID, **metadata: Any) -> SuiteReconciler:
        """Take in a suite; return its reconciler."""
        known = {"uid": uid, "namespace": "bench", "generation": 1, "resourceVersion": "1"}
        self.store.put_suite({**suite, "metadata": {**suite["metadata"], **known, **metadata}})
        dependencies = SimpleNamespace(
            settings=Settings.model_validate({"images": _IMAGES, "readNodes": True}),
            reader=Reader(cast("ApiConnection", self)),
            writer=self,
            ownership=SimpleNamespace(own="", other_operator=self.other_operator),
            results=None,
            now=lambda: datetime(2026, 6, 1, 3, tzinfo=UTC),
        )
        return SuiteReconciler(cast("Dependencies", dependencies), self.store, uid)

    def status(self, uid: str = _UID) -> SuiteStatus:
        """Return the status of a suite."""
        return read_suite_status(self.store.suites[uid])


def _condition(status: SuiteStatus, name: str) -> tuple[str, str, str]:
    found = next(each for each in status.conditions if each.type == name)
    return found.status, found.reason, found.message


def test_a_suite_waits_until_the_operator_may_list_nodes() -> None:
    """Accepted is False and names the right; once it is granted, the suite is accepted."""
    cluster = Cluster(may_list_nodes=False)
    reconciler = cluster.add_suite(a_suite(systems={}, suspend=True))
    assert asyncio.run(reconciler.reconcile()) is not None
    status, reason, message = _condition(cluster.status(), "Accepted")
    assert (status, reason) == ("False", "NotAvailable")
    assert message.startswith("The operator may not list nodes, although its setting readNodes")
    assert 'User "op" cannot list "nodes". Grant its ServiceAccount the verb list' in message
    assert _condition(cluster.status(), "Finished")[:2] == ("False", "NotAvailable")
    assert asyncio.run(reconciler.reconcile()) is not None
    assert cluster.writes == 1
    cluster.may_list_nodes = True
    asyncio.run(reconciler.reconcile())
    assert _condition(cluster.status(), "Accepted") == ("True", "Accepted", "2 cells, 2 runs.")
    assert _condition(cluster.status(), "Finished")[:2] == ("False", "Suspended")
    assert cluster.status().systems == ["node-a"]


def test_a_suite_that_has_begun_stays_accepted_without_the_right_to_list_nodes() -> None:
    """An operator that takes over says what it lacks, and ends nothing."""
    cluster = Cluster()
    suite = a_suite(systems={}, suspend=True)
    asyncio.run(cluster.add_suite(suite).reconcile())
    begun = cluster.status().model_copy(update={"states": "V."})
    cluster.may_list_nodes = False
    raw = {**suite, "status": begun.model_dump(mode="json", by_alias=True, exclude_none=True)}
    heir = cluster.add_suite(raw, resourceVersion="200")
    assert asyncio.run(heir.reconcile()) is not None
    assert _condition(cluster.status(), "Accepted")[0] == "True"
    assert _condition(cluster.status(), "Finished")[:2] == ("False", "NotAvailable")
    assert cluster.status().states == "V."


def test_a_suite_that_a_newer_operator_has_accepted_stays_accepted() -> None:
    """After a downgrade, fields of its spec are not known here: nothing ends."""
    cluster = Cluster()
    suite = a_suite(systems={}, suspend=True)
    asyncio.run(cluster.add_suite(suite).reconcile())
    status = cluster.status().model_dump(mode="json", by_alias=True, exclude_none=True)
    newer = {**suite, "spec": {**suite["spec"], "fieldOfTheFuture": 1}, "status": status}
    asyncio.run(cluster.add_suite(newer, resourceVersion="200").reconcile())
    assert _condition(cluster.status(), "Accepted")[0] == "True"
    assert _condition(cluster.status(), "Finished")[:2] == ("False", "Suspended")


def test_the_event_loop_goes_on_while_a_suite_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of a thousand runs take seconds, in which the Lease must be renewed."""
    begun, renewed = threading.Event(), threading.Event()

    def decide_slowly(*arguments: Any) -> SuiteDecision:
        begun.set()
        wait_for_event(renewed, "The event loop")
        return decide(*arguments)

    async def renew() -> None:
        await asyncio.to_thread(wait_for_event, begun, "The decision")
        renewed.set()

    async def both(reconciler: SuiteReconciler) -> None:
        await asyncio.gather(reconciler.reconcile(), renew())

    monkeypatch.setattr(suite_reconciler, "decide", decide_slowly)
    cluster = Cluster()
    asyncio.run(both(cluster.add_suite(a_suite(cancel=True))))
    assert _condition(cluster.status(), "Finished")[:2] == ("True", "Cancelled")


def test_every_class_of_nodes_gets_its_pairs_though_no_execution_can_show_them() -> None:
    """A hundred nodes with the longest names: the schedule takes the pairs before they are cut."""
    nodes = [f"{at:03d}{'n' * 250}" for at in range(MOST_SYSTEMS)]
    cluster = Cluster(nodes)
    spec: dict[str, Any] = {**AXIS, "systems": {}, "repeats": 4}
    night: dict[str, Any] = {"schedule": {"cron": "0 3 * * *"}, "suspend": True}
    schedule = cluster.add_suite(a_suite(**spec, **night), "schedule")
    owner = {"kind": "BenchmarkSuite", "name": "nightly", "uid": "schedule", "controller": True}
    for minute in range(3):
        uid = f"execution-{minute}"
        execution = cluster.add_suite(
            a_suite(f"nightly-{minute}", **spec), uid, ownerReferences=[owner]
        )
        plan = planned(a_suite(f"nightly-{minute}", **spec), [System(name) for name in nodes])
        cluster.store.runs[uid] = {run.name: _valid(run) for run in plan.runs}
        asyncio.run(execution.reconcile())
        assert len(cluster.status(uid).anchors) < MOST_SYSTEMS
        asyncio.run(schedule.reconcile())
    pairs = {
        each.node_class: len(each.ratios_parts_per_million)
        for each in cluster.status("schedule").anchors
    }
    assert pairs == dict.fromkeys(nodes, 12)


def _valid(run: PlannedRun) -> SuiteRunFacts:
    """Return a run that is over and VALID."""
    node = run.block.system.name
    return SuiteRunFacts(run.name, 1, ("", ""), run.role, an_outcome(node=node), Computation(), {})
