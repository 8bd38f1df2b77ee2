"""The log of requests has the times and the fate of every measured query, in virtual time."""

import csv
import io
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from inferometer_loadgen.record.request_log import UNKNOWN, RequestLog, open_request_log
from support.drills import A_STEP, BAD, CUT, Drill, after
from support.simulated import MILLISECOND, SECOND, Answer


def logged(
    drill: Drill, at: dict[int, Callable[[Drill], None]] | None = None
) -> list[dict[str, str]]:
    """Run a drill; return the rows of its log."""
    file = io.StringIO()
    drill.log = RequestLog(file)
    drill.run(at)
    drill.log.write("s0", 2, drill.step.label)
    return list(csv.DictReader(io.StringIO(file.getvalue())))


def mixed(index: int, _now: int) -> Answer:
    """Answer some queries with errors, and some too late."""
    if index % 10 == 3:
        return Answer(MILLISECOND, BAD)
    if index % 10 == 5:
        return Answer(MILLISECOND, CUT)
    return Answer(None if index % 100 == 7 else (1 + index % 4) * MILLISECOND)


@pytest.mark.parametrize("milli_qps", [100_000, None], ids=["open loop", "closed loop"])
def test_every_measured_query_has_a_row(milli_qps: int | None) -> None:
    """Rows agree with the counts and with the exact sum of latencies, whatever became of it."""
    drill = Drill(
        mixed,
        replace(A_STEP, warm_up_ns=SECOND),
        milli_qps=milli_qps,
        capacity=4,
        timeout_ns=SECOND // 2,
        check=lambda _: "It is wrong.",
    )
    rows = logged(drill)
    statistics = drill.recorder.statistics
    fates = Counter(row["status"] for row in rows)
    assert fates.pop("ok") == statistics.latency.count
    assert fates == statistics.errors
    assert set(fates) == {"status", "connection", "timeout", "content"}
    spans = [
        int(row["answeredNanoseconds"]) - int(row["dueNanoseconds"])
        for row in rows
        if row["status"] == "ok"
    ]
    assert sum(spans) == statistics.latency.sum_ns
    assert all(row["answeredNanoseconds"] == "" for row in rows if row["status"] == "timeout")
    assert {row["scenario"] for row in rows} == {"s0"}
    assert {row["repeat"] for row in rows} == {"2"}
    assert min(int(row["dueNanoseconds"]) for row in rows) >= 0
    assert {row["model"] for row in rows} == {""}


def test_a_query_that_no_connection_took_was_never_sent() -> None:
    """It has its due time, no time of sending, and no connection."""
    drill = Drill(after(MILLISECOND), timeout_ns=SECOND)
    lost, back = 2005 * MILLISECOND, 4005 * MILLISECOND
    found = logged(
        drill,
        {lost: lambda drill: drill.server.lose(CUT), back: lambda drill: drill.server.come_back()},
    )
    rows = [row for row in found if not row["sentNanoseconds"]]
    assert len(rows) == 100
    assert len(found) == 1000
    assert {row["status"] for row in rows} == {"timeout"}
    assert {row["connection"] for row in rows} == {""}


def test_a_log_is_whole_only_if_the_run_ended_well(tmp_path: Path) -> None:
    """Until then, and if it cannot be written, its name ends with .partial."""
    path = tmp_path / "log.csv"
    with open_request_log(str(path)) as log:
        assert log is not None
        log.add((0, 1, 2, 0, 0, UNKNOWN))
        log.write("s0", 1, "")
        assert not path.exists()
    assert path.read_text().splitlines()[1:] == ["s0,1,,0,1,2,ok,0,"]
    full = tmp_path / "full.csv"
    Path(f"{full}.partial").symlink_to("/dev/full")
    with open_request_log(str(full)) as log:
        assert log is not None
        log.add((0, 1, 2, 0, 0, UNKNOWN))
        log.write("s0", 1, "")
        assert not log.is_complete
    assert not full.exists()


@pytest.mark.parametrize("milli_qps", [100_000, None], ids=["open loop", "closed loop"])
def test_a_row_of_a_mix_names_its_model(milli_qps: int | None) -> None:
    """Each model has as many rows as queries, answered, failed and unsent ones alike."""
    step = replace(A_STEP, min_duration_ns=10 * SECOND)
    drill = Drill(mixed, step, milli_qps, capacity=4, timeout_ns=SECOND // 2, shares=(0.7, 0.3))
    lost, back = 2005 * MILLISECOND, 4005 * MILLISECOND
    rows = logged(
        drill,
        {lost: lambda drill: drill.server.lose(CUT), back: lambda drill: drill.server.come_back()},
    )
    for each in drill.recorder.statistics.models:
        found = Counter(row["status"] for row in rows if row["model"] == each.model)
        assert found.pop("ok") == each.latency.count
        assert found == each.errors
    assert {row["model"] for row in rows} == {"m0", "m1"}
