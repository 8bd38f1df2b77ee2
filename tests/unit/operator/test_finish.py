"""An end is reported at once, measurements are kept, and only own children are deleted."""

from base64 import b64decode
from typing import Any

import pytest

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from inferometer_api.results.gzip_members import compress, decompress
from inferometer_api.results.result import Outcome, ResultDocument
from inferometer_api.results.scenario_summary import scenario_summary
from inferometer_operator.reconcile import result_packer
from inferometer_operator.reconcile.observed import DownloadedResult
from support.cluster_objects import (
    being_deleted,
    bound,
    container,
    terminated,
    with_init,
)
from support.condition_rows import (
    VALID,
    a_cluster,
    changed,
    complete,
    measuring,
    over,
    serving,
)
from support.fault_courses import ChildChange, changed_pod, crashed, waits, with_load
from support.pretend_cluster import PretendCluster

CHILDREN = {"Job/a-run-server", "Job/a-run-load", "ConfigMap/a-run-load"}


def retaining(cluster: PretendCluster, **retention: Any) -> PretendCluster:
    """Let a person change what is kept."""
    return changed(cluster, retention=retention)


def document_of(cluster: PretendCluster) -> ResultDocument:
    """Return the result that the ConfigMaps of a run hold."""
    names = cluster.status()["result"]["configMaps"]
    found = [
        cluster.children[f"ConfigMap/{name}"]["binaryData"]["result.json.gz"] for name in names
    ]
    whole = decompress(b"".join(b64decode(each) for each in found))
    assert len(whole) == cluster.status()["result"]["bytes"]
    return ResultDocument.model_validate_json(whole)


def test_a_cancelled_run_keeps_what_was_measured() -> None:
    """The run is Failed at once, its load generator is stopped, and its result is kept."""
    cluster = changed(measuring(), cancel=True)
    assert cluster.says("Failed") == ("True", "Cancelled")
    assert cluster.says("Measuring") == ("True", "Stopping")
    assert cluster.says("Finished") is None
    assert cluster.stops > 0
    assert set(cluster.children) >= CHILDREN
    stopped = Outcome(state="Terminated", reason="Terminated")
    cluster.end_load(143, stopped, VALID).collect_garbage()
    assert cluster.says("Finished") == ("True", "Failed")
    assert [each["name"] for each in cluster.status()["scenarios"]] == ["latency"]
    assert document_of(cluster).outcome.reason == "Cancelled"
    assert document_of(cluster).outcome.state == "Interrupted"
    assert CHILDREN & set(cluster.children) == set()


def test_a_load_generator_that_does_not_stop_is_not_waited_for() -> None:
    """After 30 s the run continues without it; what it had reported stays."""
    cluster = measuring().measure(0.7, scenarios=[scenario_summary(VALID.scenarios[0])])
    changed(cluster, cancel=True).later(29)
    assert set(cluster.children) >= CHILDREN
    cluster.later(1)
    assert CHILDREN & set(cluster.children) == set()
    assert [each["name"] for each in cluster.status()["scenarios"]] == ["latency"]
    assert cluster.later(60).says("Finished") == ("True", "Failed")


def test_a_server_that_dies_while_it_is_measured_ends_the_run_with_its_last_words() -> None:
    """The load generator is stopped, and the document says what the cluster knows."""
    cluster = changed_pod(measuring(), SERVER, crashed(139, "Segmentation fault"))
    assert cluster.says("Failed") == ("True", "ServerEnded")
    assert cluster.stops > 0
    cluster.end_load(1, Outcome(state="Failed", reason="ServerLost"), VALID)
    assert document_of(cluster).outcome.reason == "ServerEnded"
    assert "Segmentation fault" in document_of(cluster).outcome.message


def test_the_cluster_explains_what_the_load_generator_only_noticed() -> None:
    """A lost server that ran out of memory is reported as such, if the cluster says so in time."""
    cluster = measuring()
    lost = Outcome(state="Failed", reason="ServerLost", message="No connection for 3 s.")
    cluster.end_load(1, lost)
    assert cluster.says("Failed") is None
    changed_pod(cluster, SERVER, crashed(137, "", reason="OOMKilled"))
    assert cluster.says("Failed") == ("True", "OutOfMemory")
    alone = measuring().end_load(1, lost).later(5)
    assert alone.says("Failed") == ("True", "ServerLost")
    assert "No connection for 3 s." in alone.message("Failed")


def test_the_document_gets_what_the_operator_alone_knows() -> None:
    """Image digests of both pods, and the checksum that the fetcher reported."""
    cluster = serving()
    fetch_container = container(
        "fetch", terminated(0, '{"path": "/m", "sha256": "' + "d" * 64 + '"}')
    )
    name = "a-run-server-1"
    pod = cluster.pods[name]
    fetched = with_init(pod, fetch_container)["status"]["initContainerStatuses"]
    cluster.pods[name] = {**pod, "status": {**pod["status"], "initContainerStatuses": fetched}}
    assert VALID.environment is not None
    model = VALID.environment.model.model_copy(update={"sha256": None})
    environment = VALID.environment.model_copy(update={"model": model})
    cluster.document = VALID.model_copy(update={"environment": environment})
    found = document_of(over(cluster.measure())).environment
    assert found is not None
    digest = f"r/serving:1@sha256:{'c' * 64}"
    assert found.images == {**VALID.environment.images, "server": digest, "loadgen": digest}
    assert found.model.sha256 == "d" * 64


def test_parts_of_another_attempt_are_no_part_of_the_result() -> None:
    """What lies there from an operator that died on its way is deleted and made anew."""
    cluster = measuring()
    over_again = complete()
    stale = over_again.children["ConfigMap/a-run-result-0c9e8f3a-0"]
    annotations = stale["metadata"]["annotations"] | {"inferometer.dev/result-sha256": "0" * 64}
    stale = {**stale, "metadata": stale["metadata"] | {"annotations": annotations}}
    cluster.children["ConfigMap/a-run-result-0c9e8f3a-0"] = stale
    over(cluster)
    assert "delete ConfigMap/a-run-result-0c9e8f3a-0" in cluster.writes
    assert document_of(cluster).outcome.state == "Complete"


def test_a_large_result_is_kept_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each plan creates one ConfigMap, so that the operator holds one of them at a time."""
    monkeypatch.setattr(result_packer, "PART_BYTES", 1000)
    cluster = measuring()
    cluster.refusals["ConfigMap/a-run-result-0c9e8f3a-0"] = (403, "exceeded quota: small")
    over(cluster)
    (part,) = cluster.decided().create
    assert part["metadata"]["name"] == "a-run-result-0c9e8f3a-0"
    cluster.refusals.clear()
    cluster.refused.clear()
    cluster.settle()
    names = cluster.status()["result"]["configMaps"]
    assert len(names) > 2
    made = [each for each in cluster.writes if "-result-" in each and each.startswith("make")]
    assert made == [f"make ConfigMap/{name}" for name in names]
    assert document_of(cluster).scenarios == VALID.scenarios


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_a_result_is_packed_once(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a run looks at it until it is kept; and that is soon."""
    calls: list[int] = []

    def counted(document: bytes) -> bytes:
        calls.append(len(document))
        return compress(document)

    monkeypatch.setattr(result_packer, "compress", counted)
    cluster = measuring()
    cluster.refusals["ConfigMap/a-run-result-0c9e8f3a-0"] = (403, "exceeded quota: small")
    if ends == "badly":
        changed(cluster, cancel=True)
    over(cluster).later(5).later(5)
    assert cluster.decided().look_again_seconds == 10
    cluster.refusals.clear()
    cluster.refused.clear()
    assert cluster.decided().look_again_seconds == 0.2
    cluster.settle()
    assert document_of(cluster).outcome.state == ("Complete" if ends == "well" else "Interrupted")
    assert len(calls) == 1


def test_a_failed_run_whose_result_is_lost_says_so_once() -> None:
    """The note stands behind the reason, however often the run is looked at."""
    cluster = changed(measuring(), cancel=True)
    cluster.end_load(143, document=DownloadedResult(None, "A line is missing."))
    cluster.later(1).later(1)
    assert cluster.message("Failed").count("A line is missing.") == 1


@pytest.mark.parametrize(
    ("cleanup", "ends", "remaining"),
    [
        ("Always", "well", set()),
        ("Always", "badly", set()),
        ("OnSuccess", "well", set()),
        ("OnSuccess", "badly", CHILDREN),
        ("Never", "well", CHILDREN),
        ("Never", "badly", CHILDREN),
    ],
)
def test_children_are_deleted_by_the_policy(cleanup: str, ends: str, remaining: set[str]) -> None:
    """Always at the end, OnSuccess where the run is complete, Never: the result always stays."""
    cluster = retaining(measuring(), cleanup=cleanup)
    failure = Outcome(state="Failed", reason="NoAnswer")
    cluster.end_load(0 if ends == "well" else 1, None if ends == "well" else failure).later(6)
    cluster.collect_garbage()
    assert cluster.finished
    assert set(cluster.children) & CHILDREN == remaining
    assert "ConfigMap/a-run-result-0c9e8f3a-0" in cluster.children


def test_a_load_generator_that_still_sends_load_is_never_kept() -> None:
    """With cleanup Never too, the Job of one that did not stop is deleted."""
    cluster = changed(retaining(measuring(), cleanup="Never"), cancel=True).later(31)
    assert set(cluster.children) & CHILDREN == CHILDREN - {"Job/a-run-load"}


_NOT_YET: list[ChildChange] = [bound, waits("ErrImagePull"), waits("InvalidImageName", "no")]


@pytest.mark.parametrize("cleanup", ["Never", "OnSuccess"])
@pytest.mark.parametrize("change", _NOT_YET)
def test_a_load_pod_that_may_start_yet_is_never_kept(cleanup: str, change: ChildChange) -> None:
    """It would disturb the next run; its server, which sends nothing, is kept."""
    cluster = changed(with_load(change, {"retention": {"cleanup": cleanup}}), cancel=True)
    assert set(cluster.children) == CHILDREN - {cluster.load}
    assert cluster.says("Finished") is None
    assert cluster.collect_garbage().says("Finished") == ("True", "Failed")


def test_a_job_whose_pod_is_still_to_come_is_never_kept() -> None:
    """A controller that is slow makes it later."""
    cluster = retaining(a_cluster().settle().schedule(), cleanup="Never")
    assert cluster.load in cluster.children
    assert set(changed(cluster, cancel=True).children) == CHILDREN - {cluster.load}


def test_a_policy_that_changes_later_counts() -> None:
    """What was kept for a look goes once the policy says so."""
    cluster = retaining(measuring(), cleanup="Never")
    over(cluster)
    assert set(cluster.children) >= CHILDREN
    assert CHILDREN & set(retaining(cluster, cleanup="Always").children) == set()


def test_a_run_is_finished_when_its_pods_are_gone_or_never_go() -> None:
    """Pods of a lost node are waited for 60 s, those that go no longer than they take."""
    cluster = complete()
    assert cluster.says("Complete") == ("True", "Measured")
    assert cluster.says("Finished") is None
    for component in (SERVER, LOADGEN):
        changed_pod(cluster, component, lambda pod: being_deleted(pod, cluster.now))
    assert cluster.decided().look_again_seconds == 60
    assert cluster.later(59).says("Finished") is None
    assert cluster.later(1).says("Finished") == ("True", "Complete")


def test_a_child_that_is_never_deleted_does_not_block_the_end() -> None:
    """After five minutes it is Finished whatever is left, and goes on deleting."""
    cluster = measuring()
    cluster.stubborn.add("Job/a-run-server")
    over(cluster).pods.clear()
    assert cluster.later(299).says("Finished") is None
    assert cluster.later(1).says("Finished") == ("True", "Complete")
    assert [each.name for each in cluster.decided().delete] == ["a-run-server"]


def test_a_finished_run_is_deleted_in_its_time() -> None:
    """After ttlSecondsAfterFinished, by its UID; the plan says when to look again."""
    cluster = retaining(complete().collect_garbage(), ttlSecondsAfterFinished=100)
    assert cluster.decided().look_again_seconds == 100
    assert not cluster.later(99).gone
    assert cluster.later(1).gone


def test_a_run_that_is_being_deleted_is_left_alone() -> None:
    """Its children go by themselves."""
    cluster = measuring()
    cluster.run = being_deleted(cluster.run, cluster.now)
    writes = len(cluster.writes)
    cluster.later(5000)
    assert len(cluster.writes) == writes


def test_a_run_that_is_held_before_it_measures_begins_anew() -> None:
    """Its children go; once it may go on, it starts with a time and a Job of its own."""
    cluster = changed(a_cluster().settle().schedule(), suspend=True)
    assert cluster.status()["phase"] == "Suspended"
    assert CHILDREN & set(cluster.children) == set()
    assert "startTime" in cluster.status()
    cluster.collect_garbage()
    assert "startTime" not in cluster.status()
    assert cluster.says("ServerReady") is None
    cluster.later(7200)
    changed(cluster, suspend=False).schedule().start_server().start_load()
    assert cluster.status()["startTime"] == "2026-03-12T16:00:00.000Z"
    assert over(cluster.measure()).says("Complete") == ("True", "Measured")


def test_a_run_that_may_go_on_again_while_it_is_taken_back_does() -> None:
    """What was begun goes to its end first; nothing but the plan makes the operator look then."""
    cluster = changed(a_cluster().settle().schedule(), suspend=True)
    changed(cluster, suspend=False)
    assert "startTime" in cluster.status()
    cluster.pods.clear()
    cluster.later(1)
    assert cluster.says("Accepted") == ("True", "Accepted")
    assert cluster.status()["phase"] == "Starting"
    assert cluster.server in cluster.children


def test_a_run_that_may_have_begun_to_measure_is_not_held() -> None:
    """A ready server and a working load generator: load may have been sent since the report."""
    cluster = changed(serving(), suspend=True)
    assert cluster.says("Failed") == ("True", "Suspended")
    waits = changed(a_cluster().settle().schedule(), suspend=True)
    assert waits.says("Failed") is None
