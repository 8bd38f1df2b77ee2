"""Each reason of each condition comes from its course of events."""

from collections.abc import Iterator

from inferometer_api.status.condition_reasons import REASONS
from support.cluster_objects import EPOCH
from support.condition_rows import PROGRESS_ROWS, Row
from support.fault_rows import FAULT_ROWS
from support.pretend_cluster import PretendCluster


def test_every_course_of_events_gives_its_condition_and_its_end() -> None:
    """The condition has the value, the reason and full sentences; later the run is Finished."""
    wrong = [
        f"{row.name}: {problem}"
        for row in (*PROGRESS_ROWS, *FAULT_ROWS)
        for problem in _problems(row, row.course())
    ]
    assert not wrong, "\n".join(wrong)


def _problems(row: Row, cluster: PretendCluster) -> Iterator[str]:
    """Yield each way in which a course differs from its row."""
    kind, value = row.place
    if cluster.says(kind) != (value, row.reason):
        yield f"{kind} is {cluster.says(kind)}: {cluster.status()}"
        return
    message = cluster.message(kind)
    if not message.rstrip().endswith((".", "?")):
        yield f"no sentence: {message}"
    yield from (f"{words!r} is missing: {message}" for words in row.says if words not in message)
    if row in FAULT_ROWS:
        yield from _remedy_problems(row, cluster, message)
    # Whatever happened, as time passes the run is Finished, and after its TTL it is deleted.
    cluster.turn = type(cluster.turn)(admitted=True)
    cluster.run["spec"]["suspend"] = False
    cluster.kueue = None
    cluster.store = "takes"
    cluster.pass_time()
    if not cluster.finished:
        yield f"never finished: {cluster.status()}"
    elif not cluster.later(700_000).gone:
        yield "not deleted after its TTL"
    if cluster.jobs_made > 1:
        yield f"{cluster.jobs_made} Jobs"


def _remedy_problems(row: Row, cluster: PretendCluster, message: str) -> Iterator[str]:
    """Yield what a fault's message lacks: the remedy, and the deadline that was waited for."""
    reason = REASONS[row.reason]
    if reason.remedy not in message:
        yield f"no remedy: {message}"
    waited = row.place[0] == "Failed" and reason.is_transient and cluster.now > EPOCH
    names_deadline = "spec.server.readyDeadlineSeconds" in message or row.reason == "NodeLost"
    if waited and not names_deadline:
        yield f"no deadline: {message}"
