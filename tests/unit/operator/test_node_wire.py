"""The wire of nodes: who is measured to whom and when, each step, and what stands for a failure."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inferometer_api.nodes.benchmark import (
    BenchmarkedNode,
    NodeBenchmarkSpec,
    NodeBenchmarkStatus,
)
from inferometer_api.plan.cluster_objects import peer_key, wire_key
from inferometer_operator.manifests.owner import Owner
from inferometer_operator.manifests.wire_jobs import peer_job, wire_job
from inferometer_operator.reconcile.nodes.decide import decide
from inferometer_operator.reconcile.nodes.draft import NodeBenchmarkDraft
from inferometer_operator.reconcile.nodes.observed import NodeRefusal, NodesObserved
from inferometer_operator.reconcile.nodes.wire import (
    PEER_SECONDS,
    WIRE_SECONDS,
    WireStep,
    measures_wire,
    startable,
    wire_step,
)
from inferometer_operator.settings import Settings
from support.node_documents import a_figure, a_node_document
from support.operator_process import SETTINGS

NOW = datetime(2026, 6, 1, 3, tzinfo=UTC)
_NAMES = ["a", "b", "c"]
_OWNER = Owner("workers", "bench", "uid-1", "NodeBenchmark")
_PEER, _WIRE = peer_key("a"), wire_key("a")


def _spec(**spec: Any) -> NodeBenchmarkSpec:
    return NodeBenchmarkSpec.model_validate(spec)


def _rows(*states: str) -> list[BenchmarkedNode]:
    return [
        BenchmarkedNode.model_validate({"node": node, "state": state})
        for node, state in zip("abcdef", states, strict=False)
    ]


def _job(name: str = "a-job") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-06-01T03:00:00Z"},
        "status": {},
    }


def _running(address: str = "10.0.0.2") -> dict[str, Any]:
    return {"metadata": {}, "status": {"phase": "Running", "podIP": address}}


def _client(code: int | None) -> dict[str, Any]:
    """Return a pod whose server runs, and whose client has ended with this code."""
    end = {"exitCode": code, "reason": "Error", "message": "a\nIt broke."}
    state = {"running": {}} if code is None else {"terminated": end}
    containers = [
        {"name": "wire", "state": state},
        {"name": "wire-server", "state": {"running": {}}},
    ]
    return {"metadata": {}, "status": {"phase": "Running", "containerStatuses": containers}}


def _step(
    *, names: list[str] | None = None, spec: Any = None, after_seconds: float = 0.0, **observed: Any
) -> WireStep:
    now = NOW + timedelta(seconds=after_seconds)
    return wire_step(_spec(**(spec or {})), "a", names or _NAMES, NodesObserved(**observed), now)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["Waiting"], ["a"]),
        (["Waiting", "Waiting"], ["a"]),
        (["Waiting", "Waiting", "Waiting"], ["a"]),
        (["Waiting", "Waiting", "Waiting", "Waiting"], ["a", "c"]),
        (["Waiting", "Running", "Waiting", "Waiting"], ["d"]),
        (["Measured", "Running", "Waiting", "Waiting", "Waiting"], ["d"]),
        (["Measured", "Measured", "Failed", "Waiting"], ["d"]),
    ],
)
def test_no_node_is_measured_while_another_is_measured_to_it(
    states: list[str], expected: list[str]
) -> None:
    """A node and the next one are busy together; others go on."""
    assert startable(_rows(*states), _spec()) == expected


def test_without_pod_to_pod_nodes_do_not_wait_for_each_other() -> None:
    """Then each needs its own node alone."""
    rows = _rows("Running", "Waiting", "Waiting")
    assert startable(rows, _spec(only=["stream", "loopback"])) == ["b", "c"]


@pytest.mark.parametrize(
    ("only", "expected"),
    [([], True), (["stream"], False), (["loop"], True), (["podToPod/band"], True)],
)
def test_the_wire_is_measured_if_it_is_selected(only: list[str], *, expected: bool) -> None:
    """By the begin of its primitives or figures, as everything else."""
    assert measures_wire(_spec(only=only)) == expected


def test_the_server_on_the_next_node_comes_first_and_the_client_gets_its_address() -> None:
    """Both are waited for, for a while."""
    assert _step() == WireStep("peer")
    waiting = _step(jobs={_PEER: _job()}, after_seconds=20)
    assert waiting == WireStep(look_again_seconds=PEER_SECONDS - 20)
    jobs, pods = {_PEER: _job()}, {_PEER: _running()}
    assert _step(jobs=jobs, pods=pods) == WireStep("wire", peer_address="10.0.0.2")
    jobs[_WIRE] = _job()
    assert _step(jobs=jobs, pods=pods) == WireStep(look_again_seconds=WIRE_SECONDS)
    going_on = _step(jobs=jobs, pods={**pods, _WIRE: _client(None)})
    assert going_on.look_again_seconds == WIRE_SECONDS
    assert _step(jobs=jobs, pods={**pods, _WIRE: _client(0)}) == WireStep(read=True)


def test_without_pod_to_pod_no_other_node_is_used() -> None:
    """The client has only its own server."""
    assert _step(spec={"only": ["loopback"]}) == WireStep("wire")


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ({"names": ["a"]}, "only one node matches"),
        (
            {
                "jobs": {_PEER: _job()},
                "pods": {
                    _PEER: {
                        "metadata": {},
                        "status": {
                            "phase": "Pending",
                            "conditions": [
                                {"type": "PodScheduled", "status": "False", "message": "taken."}
                            ],
                        },
                    }
                },
                "after_seconds": PEER_SECONDS,
            },
            f"no pod ran on b within {PEER_SECONDS} s. The pod waits for the node: taken",
        ),
        (
            {
                "jobs": {_PEER: _job()},
                "pods": {
                    _PEER: {"metadata": {}, "status": {"phase": "Failed", "reason": "Evicted"}}
                },
            },
            "on b: The pod failed: Evicted",
        ),
        (
            {"refused": {_PEER: NodeRefusal("quota.", is_final=False)}},
            "The API server does not take the Job: quota",
        ),
    ],
    ids=["one node", "late", "evicted", "refused"],
)
def test_a_peer_that_is_missing_costs_pod_to_pod_alone(case: dict[str, Any], words: str) -> None:
    """The client measures the loopback, and its document has the reason."""
    step = _step(**case)
    assert (step.create, step.peer_address) == ("wire", "")
    assert words in step.no_peer
    job = wire_job(
        _spec(),
        _OWNER,
        "a",
        Settings.model_validate(SETTINGS),
        peer_address="",
        no_peer=step.no_peer,
    )
    client, _ = job["spec"]["template"]["spec"]["containers"]
    assert client["command"][-3:] == ["--unavailable", "podToPod", step.no_peer]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ({"spec": {"cancel": True}}, "spec.cancel is true"),
        (
            {"refused": {_WIRE: NodeRefusal("quota.", is_final=False)}},
            "The API server does not take the Job: quota",
        ),
        (
            {"jobs": {_WIRE: _job()}, "pods": {_WIRE: _client(1)}},
            "The pod ended with exit code 1 (Error): It broke",
        ),
        (
            {"jobs": {_WIRE: _job()}, "after_seconds": WIRE_SECONDS},
            f"it took more than {WIRE_SECONDS} s",
        ),
    ],
    ids=["cancelled", "refused", "failed", "late"],
)
def test_a_wire_that_cannot_be_measured_says_why(case: dict[str, Any], words: str) -> None:
    """The node's own figures are kept without it."""
    assert _step(**case).failure == words


def test_a_node_is_measured_with_its_wire_and_then_all_its_jobs_go() -> None:
    """It keeps its turn meanwhile, past its deadline and if cancelled; its status has the peer."""
    status = NodeBenchmarkStatus(
        nodes=[
            BenchmarkedNode(node="a", state="Running", start_time="2026-06-01T03:00:00.000Z"),
            BenchmarkedNode(node="b", state="Measured"),
        ]
    )
    jobs = {key: _job(key) for key in ("a", _WIRE, _PEER)}

    def decided(**observed: Any) -> Any:
        draft = NodeBenchmarkDraft(status, NOW + timedelta(seconds=1800), 1)
        return decide(_spec(cancel=True), draft, NodesObserved(jobs=jobs, **observed))

    going_on = decided(measured=frozenset({"a"}))
    assert going_on.status.nodes[0].state == "Running"
    assert "wire" in going_on.status.nodes[0].message
    assert (going_on.wire, going_on.read, going_on.create) == (("a",), (), ())
    figure = a_figure("podToPod/roundTrip", "ns", 1e5, protocol="HTTP", bytes=64)
    document = a_node_document("a", figures=[figure])
    over = decided(measured=frozenset({"a"}), kept={"a": ("a-map", document)})
    assert (over.status.nodes[0].state, over.status.nodes[0].peer) == ("Measured", "b")
    assert {each.name for each in over.delete} == {"a", _WIRE, _PEER}
    without = decided(kept={"a": ("a-map", a_node_document("a"))})
    assert without.status.nodes[0].peer is None


def test_the_server_is_on_the_other_node_and_the_client_on_its_own() -> None:
    """Each pod is where no run is; only the other node's server can be reached from outside."""
    settings = Settings.model_validate(SETTINGS)
    server = peer_job(_spec(), _OWNER, "a", "b", settings)
    client = wire_job(_spec(), _OWNER, "a", settings, peer_address="10.0.0.2", no_peer="")
    assert server["metadata"]["name"] != client["metadata"]["name"]
    places = []
    for job in (server, client):
        pod = job["spec"]["template"]["spec"]
        affinity = pod["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        places.append(term["matchFields"][0]["values"])
        (apart,) = pod["affinity"]["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        assert apart["labelSelector"]["matchExpressions"][2]["values"] == ["uid-1"]
    assert places == [["b"], ["a"]]
    (peer,) = server["spec"]["template"]["spec"]["containers"]
    probe, own = client["spec"]["template"]["spec"]["containers"]
    hosts = [each["command"][each["command"].index("--host") + 1] for each in (peer, own)]
    assert hosts == ["0.0.0.0", "127.0.0.1"]  # noqa: S104 - the pod's own addresses
    assert probe["image"] == settings.images.loadgen
    assert peer["image"] == own["image"] == settings.images.serving
    assert probe["command"][3:] == [
        *("--target", "loopback", "127.0.0.1", "8000", "8001"),
        *("--target", "podToPod", "10.0.0.2", "8000", "8001"),
    ]
    only = wire_job(
        _spec(only=["podToPod"]), _OWNER, "a", settings, peer_address="10.0.0.2", no_peer=""
    )
    assert len(only["spec"]["template"]["spec"]["containers"]) == 1
