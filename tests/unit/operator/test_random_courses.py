"""Whatever happens to a run, it comes to its end, is measured once, and costs few writes."""

from collections.abc import Callable
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from inferometer_api.results.result import Outcome
from inferometer_operator.reconcile.observed import DownloadedResult, QueuePosition
from support.cluster_objects import (
    Object,
    being_deleted,
    bound,
    disruption_fault,
    evicted,
    on_silent_node,
    unschedulable,
    warning,
)
from support.condition_rows import UNREAD, VALID, a_cluster, external
from support.fault_courses import crashed, fetched, waits
from support.pretend_cluster import PretendCluster

Happening = Callable[[PretendCluster], None]


def _server(change: Callable[[Object], Object]) -> Happening:
    """Let something happen to the server's pod, where its Job is."""

    def happens(cluster: PretendCluster) -> None:
        if cluster.server in cluster.children:
            pod = next((pod for _, pod in cluster._of(SERVER)), cluster.pod(SERVER))
            cluster.pods[pod["metadata"]["name"]] = change(pod)

    return happens


def _load(change: Callable[[Object], Object]) -> Happening:
    """Let something happen to the load pod, where its Job is."""

    def happens(cluster: PretendCluster) -> None:
        if _has_job(cluster):
            pod = next((pod for _, pod in cluster._of(LOADGEN)), cluster.pod(LOADGEN))
            ended = "terminated" in str(pod["status"])
            cluster.pods[pod["metadata"]["name"]] = pod if ended else change(pod)

    return happens


def _has_job(cluster: PretendCluster) -> bool:
    job = cluster.children.get(cluster.load)
    return job is not None and "ownerReferences" in job["metadata"]


def _deleted(component: str) -> Happening:
    def happens(cluster: PretendCluster) -> None:
        for name, _ in cluster._of(component):
            del cluster.pods[name]

    return happens


def _child_deleted(which: str) -> Happening:
    def happens(cluster: PretendCluster) -> None:
        for key in [key for key in cluster.children if key.startswith(which)]:
            del cluster.children[key]

    return happens


def _spec(**change: bool) -> Happening:
    def happens(cluster: PretendCluster) -> None:
        if not (cluster.run["spec"].get("cancel") and "cancel" in change):
            cluster.run["spec"].update(change)
            cluster.run["metadata"]["generation"] += 1

    return happens


def _end(code: int, outcome: Outcome | None, document: DownloadedResult | None = None) -> Happening:
    def happens(cluster: PretendCluster) -> None:
        cluster.end_load(code, outcome, document or VALID)

    return happens


def _refuse(*keys: str, code: int = 403) -> Happening:
    def happens(cluster: PretendCluster) -> None:
        cluster.refusals = dict.fromkeys(keys, (code, "exceeded quota: small"))

    return happens


def _start_load(cluster: PretendCluster) -> None:
    if _has_job(cluster) and not cluster._of(LOADGEN):
        cluster.start_load()


def _measure(cluster: PretendCluster) -> None:
    if any("running" in str(pod["status"]) for _, pod in cluster._of(LOADGEN)):
        cluster.measure()


def _ready(cluster: PretendCluster) -> None:
    cluster.start_server()


def _schedule(cluster: PretendCluster) -> None:
    if cluster.server in cluster.children and not cluster._of(SERVER):
        cluster.schedule()


def _quota(cluster: PretendCluster) -> None:
    if cluster.server in cluster.children:
        job = cluster.children[cluster.server]
        cluster.events.append(warning(job, "FailedCreate", "exceeded quota: small"))


def _service(cluster: PretendCluster) -> None:
    cluster.service = {"spec": {"selector": {"app": "theirs"}}}


def _unscheduled(pod: Object) -> Object:
    return pod if pod["spec"].get("nodeName") else unschedulable(pod, "no")


def _readable(cluster: PretendCluster) -> None:
    if cluster.document is UNREAD:
        cluster.document = VALID


def _collect(cluster: PretendCluster) -> None:
    cluster.collect_garbage()


def _turn(cluster: PretendCluster) -> None:
    cluster.turn = QueuePosition(admitted=True)


def _foreign(cluster: PretendCluster) -> None:
    metadata = {"name": "a-run-load", "uid": "x"}
    cluster.children.setdefault(cluster.load, {"kind": "Job", "metadata": metadata})


def _time(seconds: float) -> Happening:
    def happens(cluster: PretendCluster) -> None:
        cluster.now += timedelta(seconds=seconds)

    return happens


HAPPENINGS: dict[str, Happening] = {
    "the turn comes": _turn,
    "a Service appears": _service,
    "the server is scheduled": _schedule,
    "the server is ready": _ready,
    "the load generator starts": _start_load,
    "load is sent": _measure,
    "the load generator completes": _end(0, None),
    "the load generator fails": _end(1, Outcome(state="Failed", reason="ServerLost")),
    "the load generator is terminated": _end(143, Outcome(state="Terminated", reason="Terminated")),
    "the log cannot be read": _end(0, None, UNREAD),
    "the log can be read": _readable,
    "the load generator dies": _end(139, None, DownloadedResult(None, "No result.")),
    "no node": _server(_unscheduled),
    "no node for the load generator": _load(_unscheduled),
    "no image": _server(waits("ErrImagePull", "not found")),
    "no image of the load generator": _load(waits("ImagePullBackOff", "Back-off")),
    "no model": _server(fetched(2, "no such model")),
    "the server crashes": _server(crashed(1, "oh")),
    "the server is out of memory": _server(crashed(137, "", reason="OOMKilled")),
    "the server is evicted": _server(lambda pod: evicted(bound(pod), "disk")),
    "the load pod is evicted": _load(lambda pod: evicted(bound(pod), "disk")),
    "the load pod is preempted": _load(
        lambda pod: disruption_fault(pod, "PreemptionByScheduler", "preempted")
    ),
    "the load pod is being deleted": _load(lambda pod: being_deleted(pod, PretendCluster().now)),
    "the server's node is silent": _server(lambda pod: on_silent_node(pod, PretendCluster().now)),
    "the server's pods are gone": _deleted(SERVER),
    "the load pod is gone": _deleted(LOADGEN),
    "the server's Job is gone": _child_deleted("Job/a-run-server"),
    "the load's Job is gone": _child_deleted("Job/a-run-load"),
    "ConfigMaps are gone": _child_deleted("ConfigMap/"),
    "the pods of deleted Jobs are gone": _collect,
    "a foreign Job": _foreign,
    "quota": _quota,
    "all is refused": _refuse(
        "Job/a-run-server",
        "Job/a-run-load",
        "ConfigMap/a-run-load",
        "ConfigMap/a-run-result-0c9e8f3a-0",
    ),
    "nothing is refused": _refuse(),
    "cancel": _spec(cancel=True),
    "suspend": _spec(suspend=True),
    "resume": _spec(suspend=False),
    "the operator is restarted": lambda cluster: cluster.restart_operator(),
    "a second passes": _time(1),
    "half a minute passes": _time(31),
    "five minutes pass": _time(300),
}
USUAL = [
    "the server is scheduled",
    "the server is ready",
    "the load generator starts",
    "load is sent",
    "the load generator completes",
]
NEXT = "next"
"""What usually comes next."""
_A_COURSE = st.lists(
    st.sampled_from([*HAPPENINGS, *[NEXT] * len(HAPPENINGS)]), min_size=4, max_size=14
)


@given(
    names=_A_COURSE,
    service=st.booleans(),
    queued=st.booleans(),
    cleanup=st.sampled_from(["Always", "OnSuccess", "Never"]),
)
@settings(max_examples=120)
def test_every_run_ends_whatever_happens(
    names: list[str], *, service: bool, queued: bool, cleanup: str
) -> None:
    """It is Finished as time passes; no decision raises; a decision carried out holds no write.

    A Job is made again only where its run was held, or found no nodes, before it measured.
    """
    cluster = external() if service else a_cluster()
    cluster.run["spec"]["retention"] = {"cleanup": cleanup}
    cluster.turn = QueuePosition(admitted=not queued, position=1)
    cluster.settle()
    usual = iter(USUAL)
    jobs_when_measured = 0
    for name in names:
        HAPPENINGS[next(usual, "a second passes") if name == NEXT else name](cluster)
        cluster.settle()
        jobs_when_measured = jobs_when_measured or (cluster.jobs_made if cluster.measures else 0)
    cluster.turn = QueuePosition(admitted=True)
    cluster.run["spec"]["suspend"] = False
    statuses = sum(write.startswith("status") for write in cluster.writes)
    assert statuses <= 12 + 3 * len(names)
    cluster.pass_time()
    assert cluster.finished, cluster.status()
    attempts = cluster.status().get("waitingForNodes", {}).get("attempts", 0)
    assert cluster.jobs_made <= 1 + names.count("suspend") + attempts
    assert not jobs_when_measured or cluster.jobs_made == jobs_when_measured
    if not cluster.gone:
        kinds = {condition["type"] for condition in cluster.status()["conditions"]}
        assert ("Complete" in kinds) != ("Failed" in kinds)
        assert {"Valid", "Finished", "Accepted"} <= kinds
        assert cluster.status()["phase"] in {"Complete", "Failed"}
        assert cluster.status()["completionTime"]
    assert cluster.later(700_000).gone
