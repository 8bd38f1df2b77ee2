"""The server of a run is replaced between its repeats, whatever happens to the operator."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from inferometer_api.plan.cluster_objects import REPEAT_LABEL, SERVER
from support.cluster_objects import Object, being_deleted, bound, ended, server_pod, unschedulable
from support.condition_rows import VALID, changed, external, serving
from support.pretend_cluster import PretendCluster

THREE: dict[str, Any] = {"validity": {"repeats": 3}}
SERVER_JOB = "Job/a-run-server"


def awaits(cluster: PretendCluster, repeat: int = 2) -> PretendCluster:
    """Let the load generator report that the repeat before this one is over."""
    return cluster.measure(stage="WaitingForRestart", repeat=repeat)


def pods_gone(cluster: PretendCluster) -> PretendCluster:
    """Let the pods of deleted servers disappear."""
    cluster.collect_garbage()
    return cluster.settle()


def make_pods(cluster: PretendCluster, node: str = "node1") -> Object:
    """Let the Job of the server make its pod, and a node take it."""
    made = cluster.made[cluster.server]
    pod = bound(server_pod(cluster.run, 1, made=made), node, f"10.88.1.{made}")
    pod["metadata"] |= {"name": f"a-run-server-{made}", "uid": f"uid-of-pod-{made}"}
    cluster.pods[pod["metadata"]["name"]] = pod
    cluster.settle()
    return pod


def measures(cluster: PretendCluster, repeat: int, **more: Any) -> PretendCluster:
    """Let the load generator report that it measures the server of a repeat."""
    made = cluster.made[cluster.server]
    return cluster.measure(repeat=repeat, server_pods=[f"uid-of-pod-{made}"], **more)


def replaced(cluster: PretendCluster, repeat: int = 2) -> PretendCluster:
    """Go from one repeat to the next."""
    pods_gone(awaits(cluster, repeat))
    make_pods(cluster)
    return measures(cluster.start_server(), repeat)


def first_measured(spec: dict[str, Any] | None = None) -> PretendCluster:
    """Return a cluster that measures the first repeat of three."""
    return serving({**THREE, **(spec or {})}).measure()


def test_the_server_is_replaced_once_its_repeat_is_over() -> None:
    """Its Job goes, then its pods; then comes the next Job, preferably on the same node."""
    cluster = first_measured()
    before = len(cluster.writes)
    awaits(cluster)
    assert SERVER_JOB not in cluster.children
    assert cluster.made[SERVER_JOB] == 1, "The next server waits until the pods are gone."
    pods_gone(cluster)
    job = cluster.children[SERVER_JOB]
    assert job["metadata"]["labels"][REPEAT_LABEL] == "2"
    template = job["spec"]["template"]
    assert template["metadata"]["labels"][REPEAT_LABEL] == "2"
    (wish,) = template["spec"]["affinity"]["nodeAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert wish["preference"]["matchFields"][0]["values"] == ["node1"]
    assert cluster.handovers == []
    assert cluster.says("ServerReady") == ("False", "ServerStarting")
    assert "repeat 2 of 3" in cluster.message("ServerReady")
    assert cluster.says("Failed") is None
    assert cluster.writes[before:] == [
        "status Measuring",
        f"delete {SERVER_JOB}",
        f"make {SERVER_JOB}",
    ]


def test_a_server_stays_while_another_run_would_take_its_node() -> None:
    """Pods that were admitted before wait for nodes; once none does, the server is replaced."""
    cluster = first_measured()
    cluster.turn = replace(cluster.turn, others_await_nodes=True)
    awaits(cluster).later(30)
    assert SERVER_JOB in cluster.children
    assert cluster.says("Failed") is None
    cluster.turn = replace(cluster.turn, others_await_nodes=False)
    cluster.later(2)
    assert SERVER_JOB not in cluster.children
    pods_gone(cluster)
    assert cluster.made[SERVER_JOB] == 2


def test_the_new_server_is_handed_over_until_the_load_generator_has_it() -> None:
    """As soon as it has an address: the load generator waits until it is ready."""
    cluster = pods_gone(awaits(first_measured()))
    pod = make_pods(cluster)
    (targets,) = {each.model_dump_json(): each for each in cluster.handovers}.values()
    assert targets.repeat == 2
    (server,) = targets.servers
    assert (server.pod_uid, server.url) == (pod["metadata"]["uid"], "http://10.88.1.2:8000")
    asked = len(cluster.handovers)
    cluster.later(2)
    assert len(cluster.handovers) == asked + 1, "The answer may have been lost."
    measures(cluster, 2, stage="WaitingForServer")
    assert len(cluster.handovers) == asked + 1
    assert cluster.start_server().says("ServerReady") == ("True", "Ready")


def test_a_run_of_three_repeats_costs_few_writes() -> None:
    """A restart costs a Job deleted, a Job made, and two statuses; the load's Job is made once."""
    cluster = first_measured()
    before = len(cluster.writes)
    replaced(replaced(cluster), 3)
    restart = ["status Measuring", f"delete {SERVER_JOB}", f"make {SERVER_JOB}", "status Measuring"]
    quiet = [write for write in cluster.writes[before:] if not write.startswith("event")]
    scenario = ["status Measuring"]  # which repeat is measured
    assert quiet == [*restart, *scenario, *restart, *scenario]
    cluster.end_load(document=VALID)
    assert cluster.says("Complete") == ("True", "Measured")
    assert cluster.jobs_made == 1
    pods_gone(cluster)
    assert cluster.finished
    assert SERVER_JOB not in cluster.children


STEPS: list[Callable[[PretendCluster], object]] = [
    awaits,
    lambda cluster: cluster.pods.update(
        {
            name: being_deleted(pod, cluster.now)
            for name, pod in cluster.pods.items()
            if "server" in name
        }
    ),
    pods_gone,
    make_pods,
    lambda cluster: cluster.start_server(),
    lambda cluster: measures(cluster, 2, stage="WaitingForServer"),
    lambda cluster: measures(cluster, 2),
]


@pytest.mark.parametrize("step", range(1, len(STEPS) + 1))
def test_an_operator_that_begins_anew_goes_on(step: int) -> None:
    """Before it has reached the load generator it neither fails the run nor touches a server."""
    cluster = first_measured()
    for happens in STEPS[:step]:
        happens(cluster)
    report, cluster.report = cluster.report, None
    before = len(cluster.writes)
    cluster.restart_operator()
    cluster.later(3)
    touched = [write for write in cluster.writes[before:] if "Job" in write]
    assert (touched, cluster.says("Failed")) == ([], None)
    cluster.report = report
    cluster.settle()
    for happens in STEPS[step:]:
        happens(cluster)
    assert cluster.settle().says("ServerReady") == ("True", "Ready")
    assert (cluster.made[SERVER_JOB], cluster.jobs_made) == (2, 1)
    assert {each.servers[0].pod_uid for each in cluster.handovers} == {"uid-of-pod-2"}


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (lambda cluster: cluster.children.pop(SERVER_JOB), "ServerDeleted"),
        (lambda cluster: cluster.pods.pop("a-run-server-2"), "ServerReplaced"),
        (
            lambda cluster: cluster.pods.update(
                {"a-run-server-2": being_deleted(cluster.pods["a-run-server-2"], cluster.now)}
            ),
            "ServerReplaced",
        ),
        (
            lambda cluster: cluster.pods.update(
                {"a-run-server-2": ended(cluster.pods["a-run-server-2"], 139)}
            ),
            "ServerEnded",
        ),
    ],
    ids=["its Job is deleted", "its pod is gone", "its pod is deleted", "it crashes"],
)
def test_any_other_restart_ends_the_run(
    happens: Callable[[PretendCluster], object], reason: str
) -> None:
    """In a later repeat as in the first one: only the end of a repeat replaces a server."""
    cluster = replaced(first_measured())
    happens(cluster)
    cluster.settle()
    assert cluster.says("Failed") == ("True", reason)


def test_a_server_that_dies_before_it_is_measured_ends_the_run() -> None:
    """A new server that crashes is not replaced by another one."""
    cluster = pods_gone(awaits(first_measured()))
    pod = make_pods(cluster)
    cluster.pods["a-run-server-2"] = ended(pod, 1)
    assert cluster.settle().says("Failed") == ("True", "ServerCrashed")
    assert cluster.made[SERVER_JOB] == 2


def test_a_new_server_that_is_late_ends_the_run() -> None:
    """It has the ready deadline of the first one, from its own Job on."""
    cluster = pods_gone(awaits(first_measured()).later(30))
    make_pods(cluster)
    cluster.start_server(ready=False)
    deadline = 300
    assert cluster.later(deadline - 1).says("Failed") is None
    assert cluster.later(2).says("Failed") == ("True", "ServerNotReady")


def test_a_new_server_without_a_node_does_not_go_back_to_the_queue() -> None:
    """Nothing is measured twice: it waits until the ready deadline, and fails by its cause.

    The load generator is stopped, so that what was measured is kept.
    """
    cluster = pods_gone(awaits(first_measured()))
    pod = unschedulable(server_pod(cluster.run, 1, made=2), "0/1 nodes are available.")
    pod["metadata"]["uid"] = "uid-of-pod-2"
    cluster.pods["a-run-server-2"] = pod
    assert cluster.later(60).says("Failed") is None
    assert cluster.status()["phase"] == "Measuring"
    assert cluster.later(300).says("Failed") == ("True", "Unschedulable")
    assert cluster.stops > 0
    assert cluster.says("Finished") != ("True", "Failed")
    cluster.end_load(143, document=VALID)
    pods_gone(cluster)
    assert cluster.finished
    assert cluster.status()["result"]["configMaps"]


def test_a_pod_that_never_goes_holds_the_restart_up_for_a_minute() -> None:
    """The pods of a lost node stay for ever."""
    cluster = first_measured()
    awaits(cluster)
    for name, pod in cluster._of(SERVER):
        cluster.pods[name] = being_deleted(pod, cluster.now)
    assert cluster.later(50).made[SERVER_JOB] == 1
    assert cluster.later(60).made[SERVER_JOB] == 2


@pytest.mark.parametrize(
    ("cluster", "repeat"),
    [
        (first_measured, 1),
        (first_measured, 4),
        (lambda: first_measured({"validity": {"repeats": 3, "repeatScope": "Load"}}), 2),
        (lambda: replaced(first_measured()), 2),
    ],
    ids=["the first", "beyond the last", "of the load", "an old one"],
)
def test_a_load_generator_cannot_have_other_servers_replaced(
    cluster: Callable[[], PretendCluster], repeat: int
) -> None:
    """The pod of the load generator may say anything; the server stays."""
    found = cluster()
    made = found.made[SERVER_JOB]
    awaits(found, repeat)
    assert SERVER_JOB in found.children
    assert found.made[SERVER_JOB] == made


@pytest.mark.parametrize("change", [{"cancel": True}, {"suspend": True}])
def test_a_run_that_is_ended_between_two_servers_leaves_none(change: dict[str, bool]) -> None:
    """The load generator is stopped, and no further server starts."""
    cluster = awaits(first_measured())
    changed(cluster, **change)
    assert cluster.stops > 0
    cluster.end_load(143)
    pods_gone(cluster)
    assert cluster.finished
    assert cluster.made[SERVER_JOB] == 1


def test_the_server_of_an_external_run_is_left_alone() -> None:
    """It has repeats of the load alone, whatever the load generator says."""
    cluster = external()
    cluster.run["spec"]["validity"] = {"repeats": 2}
    cluster.service = {
        "metadata": {"name": "theirs", "namespace": "team"},
        "spec": {"ports": [{"port": 8000}], "selector": {"app": "theirs"}},
    }
    awaits(cluster.settle().start_load().measure())
    assert SERVER_JOB not in cluster.made
    assert cluster.says("Failed") is None


def test_a_quota_that_refuses_the_next_server_ends_the_run_in_time() -> None:
    """The refusal is reported, and counts from its first time."""
    cluster = awaits(first_measured())
    cluster.refusals[SERVER_JOB] = (403, "exceeded quota: small")
    pods_gone(cluster)
    assert cluster.says("ServerReady") == ("False", "QuotaExceeded")
    assert cluster.later(299).says("Failed") is None
    assert cluster.later(2).says("Failed") == ("True", "QuotaExceeded")


def test_the_status_names_the_nodes_of_all_repeats() -> None:
    """A server may find its node taken."""
    cluster = pods_gone(awaits(first_measured()))
    make_pods(cluster, "node2")
    assert cluster.status()["nodes"] == ["node1", "node2"]


def test_progress_counts_whole_repeats() -> None:
    """All scenarios are measured once before the next repeat begins."""
    scenarios: list[dict[str, Any]] = [
        {"name": name, "singleStream": {}} for name in ("one", "two")
    ]
    cluster = serving({**THREE, "scenarios": scenarios}).measure(1.0, scenario_index=1)
    assert cluster.status()["progressPercent"] == 33
    awaits(cluster)
    assert cluster.status()["progressPercent"] == 33
