"""A result that cannot be read or kept is awaited, and nothing that it needs is deleted."""

from collections.abc import Callable

import pytest

from inferometer_api.plan.cluster_objects import LOADGEN
from inferometer_api.results.result import Outcome
from inferometer_operator.reconcile.observed import DownloadedResult
from inferometer_operator.reconcile.queue_position import queued_run
from support.condition_rows import UNREAD, VALID, changed, measuring, over, refused
from support.pretend_cluster import PretendCluster

_HOUR = 3600


def _unread() -> PretendCluster:
    return measuring().end_load(document=UNREAD)


def _cancelled() -> PretendCluster:
    return changed(measuring(), cancel=True).end_load(143, document=UNREAD)


def _readable(cluster: PretendCluster) -> None:
    cluster.document = VALID


def _accepted(cluster: PretendCluster) -> None:
    cluster.refusals.clear()


@pytest.mark.parametrize(
    ("course", "heal", "end"),
    [
        (_unread, _readable, "Complete"),
        (refused, _accepted, "Complete"),
        (_cancelled, _readable, "Failed"),
    ],
    ids=["unread", "refused", "unread of a cancelled run"],
)
def test_a_result_is_awaited_until_it_is_kept(
    course: Callable[[], PretendCluster], heal: Callable[[PretendCluster], None], end: str
) -> None:
    """The load's Job stays, the outcome stands, the queue goes on, and the time to live waits."""
    cluster = course()
    assert cluster.says("Finished") == ("False", "ResultPending")
    assert cluster.says("Measuring") == ("False", "Ended")
    assert (cluster.says(end) or ("",))[0] == "True"
    assert queued_run(cluster.run).state == "collecting"
    assert cluster.server in cluster.children
    for _ in range(3):
        cluster.later(1000)
        assert cluster.load in cluster.children
        assert cluster.server not in cluster.children
    heal(cluster)
    cluster.later(60)
    assert cluster.status()["result"]["configMaps"] == ["a-run-result-0c9e8f3a-0"]
    assert cluster.load not in cluster.children
    assert cluster.collect_garbage().says("Finished") == ("True", end)
    assert [each["name"] for each in cluster.status()["scenarios"]] == ["latency"]
    assert cluster.says("Valid") == (
        ("True", "AllValid") if end == "Complete" else ("False", "NotComplete")
    )
    assert not cluster.later(604_000).gone
    assert cluster.later(1000).gone


@pytest.mark.parametrize("course", [_unread, refused, _cancelled])
def test_a_result_is_given_up_an_hour_after_the_deadline(
    course: Callable[[], PretendCluster],
) -> None:
    """The condition names the reason, and the children go."""
    cluster = course().later(2 * _HOUR - 1)
    assert cluster.says("Finished") == ("False", "ResultPending")
    assert cluster.load in cluster.children
    cluster.later(1)
    reason = "ResultNotKept" if course is refused else "ResultLost"
    told = "Failed" if course is _cancelled else "Complete"
    assert reason in str(cluster.status()["conditions"])
    assert "is not kept" in cluster.message(told)
    assert cluster.load not in cluster.children
    assert cluster.collect_garbage().finished


@pytest.mark.parametrize("course", [_unread, _cancelled])
def test_a_result_is_given_up_at_once_when_its_pod_is_gone(
    course: Callable[[], PretendCluster],
) -> None:
    """Nothing else holds it; what was reported stands."""
    cluster = course().later(100)
    for name, _ in cluster._of(LOADGEN):
        del cluster.pods[name]
    cluster.later(1)
    told = "Failed" if course is _cancelled else "Complete"
    assert cluster.says(told) == (
        "True",
        "Cancelled" if course is _cancelled else "ResultLost",
    )
    assert "ResultLost): The load generator's pod is gone" in cluster.message(told)
    assert cluster.collect_garbage().finished


def test_an_unknown_outcome_is_awaited_with_the_document() -> None:
    """A load generator without a last report may have completed: only its log can say so."""
    cluster = measuring()
    cluster.end_load(137, document=UNREAD)
    assert cluster.says("Complete") is cluster.says("Failed") is None
    assert cluster.says("Finished") == ("False", "ResultPending")
    assert cluster.server in cluster.later(1000).children
    cluster.document = VALID
    assert cluster.later(60).says("Complete") == ("True", "Measured")


@pytest.mark.parametrize("end", ["cancel", "deadline"])
def test_an_unknown_outcome_ends_on_request(end: str) -> None:
    """The run is decided, and its result is awaited all the same."""
    cluster = measuring().end_load(137, document=UNREAD)
    if end == "cancel":
        changed(cluster, cancel=True)
    else:
        cluster.later(_HOUR)
    reason = "Cancelled" if end == "cancel" else "DeadlineExceeded"
    assert cluster.says("Failed") == ("True", reason)
    assert cluster.says("Finished") == ("False", "ResultPending")
    assert cluster.load in cluster.children
    cluster.document = VALID
    assert cluster.later(60).status()["result"]


def test_an_operator_that_starts_awaits_what_the_last_one_did() -> None:
    """The status says so; the log is read again."""
    cluster = _unread()
    cluster.restart_operator()
    assert cluster.later(1).says("Finished") == ("False", "ResultPending")
    cluster.document = VALID
    assert cluster.later(60).status()["result"]


def test_a_log_that_is_not_written_to_its_end_is_no_news() -> None:
    """It happens at the end of many runs, and is over in a moment."""
    cluster = measuring()
    gap = DownloadedResult(None, "A line is missing.", "ResultIncomplete", passing=True)
    cluster.end_load(document=gap)
    assert cluster.says("Finished") is None
    assert cluster.says("Complete") is None
    assert cluster.load in cluster.children
    cluster.document = VALID
    assert cluster.later(1).says("Complete") == ("True", "Measured")


def test_a_failed_load_generator_is_reported_while_its_result_is_awaited() -> None:
    """With its own words."""
    cluster = measuring()
    outcome = Outcome(state="Failed", reason="NoAnswer", message="No answer came.")
    cluster.end_load(1, outcome, UNREAD).later(6)
    assert cluster.says("Failed") == ("True", "NoAnswer")
    assert cluster.says("Finished") == ("False", "ResultPending")
    over(cluster)
    cluster.document = VALID
    assert cluster.later(60).status()["result"]


def test_a_load_generator_that_does_not_stop_loses_its_result() -> None:
    """The run says so before its pod is deleted."""
    cluster = changed(measuring(), cancel=True)
    cluster.later(29)
    assert cluster.load in cluster.children
    cluster.later(1)
    assert cluster.load not in cluster.children
    assert cluster.says("Failed") == ("True", "Cancelled")
    assert "not kept (ResultLost): The load generator did not end within 30 s" in (
        cluster.message("Failed")
    )
    assert cluster.says("Finished") == ("False", "ResultLost")
    assert cluster.collect_garbage().says("Finished") == ("True", "Failed")


@pytest.mark.parametrize(("seconds", "last"), [(60, "Complete"), (2 * _HOUR, "ResultLost")])
def test_the_last_event_says_what_became_of_the_result(seconds: int, last: str) -> None:
    """Not before it is known: until then a run has no verdict."""
    cluster = _unread()
    assert _events(cluster)[-1] == "ResultPending"
    if last == "Complete":
        _readable(cluster)
    cluster.later(seconds).collect_garbage()
    assert _events(cluster)[-1] == last


def _events(cluster: PretendCluster) -> list[str]:
    return [each.removeprefix("event ") for each in cluster.writes if each.startswith("event ")]
