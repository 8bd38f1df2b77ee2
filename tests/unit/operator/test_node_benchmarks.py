"""The decision for a NodeBenchmark: turns, Jobs, documents, and how it ends."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inferometer_api.nodes.benchmark import (
    BenchmarkedNode,
    NodeBenchmarkCondition,
    NodeBenchmarkSpec,
    NodeBenchmarkStatus,
)
from inferometer_api.plan.cluster_objects import node_benchmark_child
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.manifests.node_job import node_job
from inferometer_operator.manifests.owner import Owner
from inferometer_operator.reconcile.nodes.decide import NodesDecision, decide
from inferometer_operator.reconcile.nodes.draft import NodeBenchmarkDraft, read_node_status
from inferometer_operator.reconcile.nodes.observed import NodeRefusal, NodesObserved
from inferometer_operator.reconcile.queue_position import QueuedRun
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.nodes.queue import NodeQueue
from inferometer_operator.wiring.nodes.reconciler import NodeReconciler
from inferometer_operator.wiring.run_queue import RunQueue
from support.node_documents import a_figure, a_node_document
from support.operator_process import SETTINGS
from support.runs import a_run

NOW = datetime(2026, 6, 1, 3, tzinfo=UTC)
_JOB = {"metadata": {"name": "a-job", "uid": "job-1"}}


def _status(*states: str) -> NodeBenchmarkStatus:
    rows = [
        BenchmarkedNode.model_validate(
            {
                "node": f"node-{number}",
                "state": state,
                "startTime": None if state == "Waiting" else "2026-06-01T03:00:00.000Z",
            }
        )
        for number, state in enumerate(states, start=1)
    ]
    return NodeBenchmarkStatus(nodes=rows)


def _decided(
    status: NodeBenchmarkStatus, *, after_seconds: float = 0.0, spec: Any = None, **observed: Any
) -> NodesDecision:
    now = NOW + timedelta(seconds=after_seconds)
    draft = NodeBenchmarkDraft(status, now, 1)
    return decide(NodeBenchmarkSpec.model_validate(spec or {}), draft, NodesObserved(**observed))


def _states(found: NodesDecision) -> list[str]:
    return [row.state for row in found.status.nodes]


def _condition(status: NodeBenchmarkStatus, kind: str) -> NodeBenchmarkCondition:
    return next(each for each in status.conditions if each.type == kind)


def _pod(phase: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a-pod", "uid": "pod-1"}, "status": {"phase": phase, **status}}


def _ended(code: int, message: str = "") -> dict[str, Any]:
    end = {"exitCode": code, "reason": "Error", "message": message}
    return {"containerStatuses": [{"name": "probe", "state": {"terminated": end}}]}


def test_a_node_waits_for_its_turn_and_then_gets_one_job() -> None:
    """The status has the turn before the Job exists; a Job that exists is not created again."""
    first = _decided(_status("Waiting", "Waiting"), admitted=frozenset({"node-2"}))
    assert _states(first) == ["Waiting", "Running"]
    assert first.create == ("node-2",)
    assert first.status.phase == "Running"
    again = _decided(first.status, jobs={"node-2": _JOB})
    assert again.create == ()
    assert _decided(_status("Waiting")).status.phase == "Queued"


def test_the_document_of_a_pod_that_has_ended_well_is_read_and_summed_up() -> None:
    """The node is measured once the document is kept; then its Job goes."""
    status, jobs = _status("Running"), {"node-1": _JOB}
    ended = _decided(status, jobs=jobs, pods={"node-1": _pod("Succeeded")})
    assert (ended.read, ended.create, _states(ended)) == (("node-1",), (), ["Running"])
    document = a_node_document(cautions=["It was busy."], unavailable={"storage": "no disk"})
    document.figures.append(a_figure("jitter/share", "share", 0.12))
    found = _decided(ended.status, jobs=jobs, kept={"node-1": ("a-map", document)})
    (row,) = found.status.nodes
    assert (row.state, row.config_map) == ("Measured", "a-map")
    assert (row.cautions, row.unavailable) == (["It was busy."], ["storage"])
    assert row.summary is not None
    assert row.summary.model_dump(exclude_none=True) == {
        "machine": "A CPU, 2 CPUs, 32 MiB cache",
        "memoryBytesPerSecond": 20_000_000_000,
        "loadLatencyPicoseconds": 95_250,
        "fp32Flops": 120_000_000_000,
        "wakeUpLagNanoseconds": 90_000,
        "stolenPartsPerMillion": 500,
        "standstillPartsPerMillion": 120_000,
    }
    assert [each.name for each in found.delete] == ["a-job"]
    assert found.status.phase == "Complete"
    assert found.status.display is not None
    assert found.status.display.model_dump() == {
        "nodes": "1/1",
        "problems": "1 with cautions",
        "memory": "20.0 GB/s",
    }


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (
            {"pods": {"node-1": _pod("Failed", **_ended(137, "a\nKilled."))}},
            "exit code 137 (Error): Killed.",
        ),
        (
            {"pods": {"node-1": _pod("Failed", reason="Evicted", message="Low on memory.")}},
            "The pod failed: Evicted: Low on memory.",
        ),
        ({"refused": {"node-1": NodeRefusal("spec: no", is_final=True)}}, "spec: no"),
        ({"faults": {"node-1": "The log of the pod holds no whole document."}}, "no whole"),
    ],
    ids=["killed", "evicted", "refused", "no document"],
)
def test_a_failed_node_says_why_and_others_go_on(observed: dict[str, Any], words: str) -> None:
    """The NodeBenchmark has failed once all nodes are over."""
    found = _decided(_status("Running", "Waiting"), **observed)
    assert _states(found) == ["Failed", "Waiting"]
    assert words in found.status.nodes[0].message
    document = a_node_document()
    rows = [found.status.nodes[0], BenchmarkedNode(node="node-2", state="Running")]
    kept = {"node-2": ("a-map", document)}
    over = _decided(NodeBenchmarkStatus(nodes=rows), kept=kept)
    failed = _condition(over.status, "Failed")
    assert (failed.status, failed.reason) == ("True", "SomeFailed")
    assert failed.message.startswith("1 of 2 nodes failed: node-1. ")
    assert _condition(over.status, "Current").status == "True"


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (
            {
                "pods": {
                    "node-1": _pod(
                        "Pending",
                        conditions=[
                            {"type": "PodScheduled", "status": "False", "message": "1 is taken."}
                        ],
                    )
                }
            },
            "The pod waits for the node: 1 is taken.",
        ),
        (
            {
                "pods": {
                    "node-1": _pod(
                        "Pending",
                        containerStatuses=[
                            {
                                "name": "probe",
                                "state": {"waiting": {"reason": "ErrImagePull", "message": "gone"}},
                            }
                        ],
                    )
                }
            },
            "The container waits: ErrImagePull: gone.",
        ),
        (
            {"refused": {"node-1": NodeRefusal("quota.", is_final=False)}},
            "The API server does not take the Job: quota.",
        ),
    ],
    ids=["taken", "image", "quota"],
)
def test_a_node_that_cannot_be_measured_says_why_and_fails_at_its_deadline(
    observed: dict[str, Any], words: str
) -> None:
    """Until then it waits: another measurement may end, or a quota be free."""
    status, jobs = _status("Running"), {"node-1": _JOB}
    waiting = _decided(status, after_seconds=1799, jobs=jobs, **observed)
    assert (_states(waiting), waiting.status.nodes[0].message) == (["Running"], words)
    assert waiting.look_again_seconds == pytest.approx(1.0)
    late = _decided(waiting.status, after_seconds=1800, jobs=jobs, **observed)
    assert _states(late) == ["Failed"]
    assert late.status.nodes[0].message == f"Not measured within 1800 s. {words}"
    assert [each.name for each in late.delete] == ["a-job"]


def test_a_cancelled_benchmark_keeps_what_was_measured() -> None:
    """Nodes that wait or run are Cancelled, and their Jobs go."""
    status = NodeBenchmarkStatus(
        nodes=[
            BenchmarkedNode(node="node-1", state="Measured"),
            BenchmarkedNode(node="node-2", state="Running"),
            BenchmarkedNode(node="node-3", state="Waiting"),
        ]
    )
    found = _decided(status, spec={"cancel": True}, jobs={"node-2": _JOB})
    assert _states(found) == ["Measured", "Cancelled", "Cancelled"]
    assert [each.name for each in found.delete] == ["a-job"]
    failed = _condition(found.status, "Failed")
    assert (failed.reason, failed.message) == (
        "Cancelled",
        "spec.cancel is true: 1 of 3 nodes were measured.",
    )


def test_figures_expire_and_the_object_goes_after_its_ttl() -> None:
    """First Current turns False, then the NodeBenchmark is to be deleted."""
    spec = {"expirySeconds": 100, "ttlSecondsAfterFinished": 300}
    kept = {"node-1": ("a-map", a_node_document())}
    done = _decided(_status("Running"), spec=spec, kept=kept)
    assert done.look_again_seconds == pytest.approx(100.0)
    assert done.status.expiry_time == "2026-06-01T03:01:40.000Z"
    still = _decided(done.status, after_seconds=99, spec=spec)
    assert _condition(still.status, "Current").status == "True"
    expired = _decided(done.status, after_seconds=100, spec=spec)
    current = _condition(expired.status, "Current")
    assert (current.status, current.reason) == ("False", "Expired")
    assert not expired.is_expired
    assert expired.look_again_seconds == pytest.approx(200.0)
    assert _decided(expired.status, after_seconds=300, spec=spec).is_expired


def test_a_finished_benchmark_is_left_as_it_is() -> None:
    """The same status, and nothing to create."""
    kept = {"node-1": ("a-map", a_node_document())}
    done = _decided(_status("Running"), kept=kept).status
    again = _decided(done, after_seconds=60)
    assert (again.status, again.create, again.read) == (done, (), ())


@pytest.mark.parametrize("begin", ["UM_Demand", "gemm (openvino, FP32)", "latency/4096", *"ab"])
def test_a_spec_takes_the_begin_of_any_primitives_name(begin: str) -> None:
    """Comm|Scope's names have an underscore."""
    assert NodeBenchmarkSpec.model_validate({"only": [begin]}).only == [begin]


def test_the_job_of_a_node_needs_the_node_for_itself() -> None:
    """Its pod goes to that node alone, and not while a pod of a run or another node is there."""
    owner = Owner("workers", "bench", "uid-1", "NodeBenchmark")
    spec = NodeBenchmarkSpec.model_validate({"only": ["stream"], "maxSeconds": 60})
    job = node_job(spec, owner, "node-1", Settings.model_validate(SETTINGS))
    pod = job["spec"]["template"]["spec"]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchFields"][0]["values"] == ["node-1"]
    (apart,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    component, _, other = apart["labelSelector"]["matchExpressions"]
    assert component["values"] == ["server", "loadgen", "nodebenchmark"]
    assert (other["operator"], other["values"]) == ("NotIn", ["uid-1"])
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] in component["values"]
    (probe,) = pod["containers"]
    assert "limits" not in probe["resources"]
    assert probe["command"][-4:] == ["--most-seconds", "60", "--only", "stream"]
    assert job["metadata"]["ownerReferences"][0]["kind"] == "NodeBenchmark"


def test_names_of_children_differ_by_node_and_are_short() -> None:
    """A Job's pods have six characters more, and a name has 63."""
    names = {node_benchmark_child("w" * 200, "uid", f"{'n' * 200}-{n}") for n in range(10)}
    assert len(names) == 10
    assert max(map(len, names)) <= 57


def test_nodes_take_turns_with_runs() -> None:
    """A node begins when a slot is free, and keeps it until it is over."""
    woken: list[str] = []
    queue = RunQueue(1, lambda uid, _: woken.append(uid))
    nodes = NodeQueue(queue, lambda uid, _: woken.append(f"nodes {uid}"))
    raw = {"metadata": {"uid": "nbm"}}

    def entry(node: str, state: Any) -> QueuedRun:
        created = "2026-06-01T03:00:00Z"
        return QueuedRun(f"nbm/{node}", created, "bench", f"workers on {node}", state)

    waiting = [entry("a", "waiting"), entry("b", "waiting")]
    assert nodes.admit(raw, ["a", "b"], waiting) == {"a"}
    run = {**a_run(), "metadata": {"uid": "run", "name": "a-run", "namespace": "other"}}
    queue.update(run)
    assert not queue.position("run").admitted
    nodes.replace(raw, [entry("a", "admitted"), waiting[1]])
    assert nodes.admit(raw, ["b"], [entry("a", "admitted"), waiting[1]]) == frozenset()
    nodes.replace(raw, [waiting[1]])
    queue.wake_moved()
    # The other namespace was served longest ago.
    assert "run" in woken
    assert queue.position("run").admitted
    nodes.remove("nbm")
    assert "nbm/b" not in queue


def test_a_turn_that_the_status_does_not_show_is_given_back() -> None:
    """The write of the status failed: others go first, and the node tries again after a pause."""
    woken: list[str] = []
    queue = RunQueue(1, lambda uid, _: woken.append(uid))
    nodes = NodeQueue(queue, lambda uid, _: woken.append(f"nodes {uid}"))
    raw, waiting = {"metadata": {"uid": "nbm"}}, QueuedRun("nbm/a", "2026", "bench", "n", "waiting")
    measuring = {**a_run(), "metadata": {"uid": "r", "name": "r"}, "status": {"startTime": "0"}}
    queue.update(measuring)
    assert nodes.admit(raw, ["a"], [waiting]) == frozenset()
    queue.remove("r")
    assert nodes.admit(raw, ["a"], [waiting]) == {"a"}
    nodes.replace(raw, [waiting])
    assert not queue.has_claim("nbm/a")
    queue.wake_moved()
    assert woken == [], "A fault that lasts would be met without a pause."
    assert nodes.admit(raw, ["a"], [waiting]) == {"a"}


class _NoRight:
    """An API server that forbids to list nodes."""

    async def request(self, method: str, path: str, **_: Any) -> Any:
        """Refuse a list of nodes."""
        assert (method, path) == ("GET", "/api/v1/nodes")
        raise ApiError(403, "Forbidden", 'nodes is forbidden: User "op" cannot list "nodes"')

    async def apply_status(self, raw: dict[str, Any], status: NodeBenchmarkStatus) -> Any:
        """Return the object with the status."""
        written = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {**raw, "status": written}

    async def other_operator(self, _: Any) -> str:
        """Return that no other operator works on it."""
        return ""


def test_a_benchmark_waits_until_the_operator_may_list_nodes() -> None:
    """Accepted is False and names the right; it is tried again."""
    cluster = _NoRight()
    dependencies = SimpleNamespace(
        settings=Settings.model_validate({**SETTINGS, "readNodes": True}),
        reader=Reader(cast("ApiConnection", cluster)),
        writer=cluster,
        ownership=SimpleNamespace(own="", other_operator=cluster.other_operator),
        now=lambda: NOW,
    )
    queue = NodeQueue(RunQueue(1, lambda *_: None), lambda *_: None)
    reconciler = NodeReconciler(cast("Dependencies", dependencies), queue)
    raw = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "NodeBenchmark",
        "metadata": {"name": "workers", "namespace": "bench", "uid": "uid-1", "generation": 1},
        "spec": {},
    }
    written, pause = asyncio.run(reconciler.reconcile(raw))
    assert pause is not None
    accepted, finished = read_node_status(written).conditions
    assert (accepted.type, accepted.status) == ("Accepted", "False")
    assert accepted.reason == "NotAvailable"
    assert 'User "op" cannot list "nodes". Grant its ServiceAccount the verb list' in (
        accepted.message
    )
    assert (finished.type, finished.status) == ("Finished", "False")


class _LateWatch(_NoRight):
    """An API server that has the Job of a node, which the watch shows only later."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []

    async def create(self, _: Any) -> ApiError:
        """Refuse the Job: it is there."""
        return ApiError(409, "AlreadyExists", "the Job exists")

    def of_run(self, *_: str) -> list[dict[str, Any]]:
        """Return what the watch has shown."""
        return self.jobs

    def list_pods(self, *_: str) -> tuple[dict[str, Any], ...]:
        """Return no pod."""
        return ()


def test_a_job_that_is_its_own_is_not_another_object() -> None:
    """The node's message has it only as long as the watch does not show the Job."""
    cluster = _LateWatch()
    dependencies = SimpleNamespace(
        settings=Settings.model_validate(SETTINGS),
        reader=SimpleNamespace(children=cluster, list_pods=cluster.list_pods),
        writer=cluster,
        results=None,
        ownership=SimpleNamespace(own="", other_operator=cluster.other_operator),
        now=lambda: NOW,
        clock=lambda: 0.0,
    )
    queue = NodeQueue(RunQueue(1, lambda *_: None), lambda *_: None)
    reconciler = NodeReconciler(cast("Dependencies", dependencies), queue)
    status = _status("Running").model_dump(mode="json", by_alias=True, exclude_none=True)
    metadata = {"name": "workers", "namespace": "bench", "uid": "uid-1", "resourceVersion": "1"}
    raw: Mapping[str, Any] = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "NodeBenchmark",
        "metadata": metadata,
        "spec": {"only": ["stream"]},
        "status": status,
    }
    raw, _ = asyncio.run(reconciler.reconcile(raw))
    raw, pause = asyncio.run(reconciler.reconcile(raw))
    assert "another object has the Job's name" in read_node_status(raw).nodes[0].message
    assert pause is not None
    name = node_benchmark_child("workers", "uid-1", "node-1")
    owner = {"uid": "uid-1", "kind": "NodeBenchmark", "name": "workers", "controller": True}
    cluster.jobs = [{"metadata": {"name": name, "uid": "job-1", "ownerReferences": [owner]}}]
    raw, _ = asyncio.run(reconciler.reconcile(raw))
    raw, _ = asyncio.run(reconciler.reconcile(raw))
    assert "another object" not in read_node_status(raw).nodes[0].message
