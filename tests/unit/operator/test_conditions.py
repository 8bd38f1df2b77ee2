"""Each reason of each condition comes from its course of events."""

import pytest

from inferometer_api.status.condition_reasons import REASONS
from support.cluster_objects import EPOCH
from support.condition_rows import PROGRESS_ROWS, Row
from support.fault_rows import FAULT_ROWS

ROWS = [*PROGRESS_ROWS, *FAULT_ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_course_of_events_gives_its_reason(row: Row) -> None:
    """The condition has the value, the reason and a message of full sentences."""
    cluster = row.course()
    kind, value = row.place
    assert cluster.says(kind) == (value, row.reason), cluster.status()
    message = cluster.message(kind)
    assert message.rstrip().endswith((".", "?")), message
    for words in row.says:
        assert words in message


@pytest.mark.parametrize("row", FAULT_ROWS, ids=lambda row: row.name)
def test_a_fault_says_what_to_do(row: Row) -> None:
    """The message of a fault holds the catalogue's remedy or its own, and a time-out says so."""
    cluster = row.course()
    kind, _ = row.place
    remedy = REASONS[row.reason].remedy
    message = cluster.message(kind)
    assert remedy in message
    if kind == "Failed" and REASONS[row.reason].heals and cluster.now > EPOCH:
        assert "spec.server.readyDeadlineSeconds" in message or row.reason == "NodeLost"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_course_comes_to_its_end(row: Row) -> None:
    """Whatever happened, as time passes the run is Finished, and in the end it is deleted."""
    cluster = row.course()
    cluster.turn = type(cluster.turn)(admitted=True)
    cluster.run["spec"]["suspend"] = False
    cluster.pass_time()
    assert cluster.finished, cluster.status()
    assert cluster.later(90_000).gone
    assert cluster.jobs_made <= 1
