"""Repeats restart the server: each has a process of its own, and no other restart passes."""

import os
import signal
from pathlib import Path
from typing import Any

from inferometer_api.results.result import ResultDocument
from support.inferometer_process import END_SECONDS, Inferometer
from support.local_runs import done

TWO: tuple[dict[str, Any], ...] = ({"singleStream": {}}, {"batch": {"batchSizes": [2]}})


def instances(result: ResultDocument) -> list[str]:
    """Return the identity of the server of each repeat."""
    environment = result.environment
    assert environment is not None
    later = [restart.replicas[0].settings["instance_id"] for restart in environment.restarts]
    return [environment.server.settings["instance_id"], *later]


def test_each_repeat_has_a_server_of_its_own(tmp_path: Path) -> None:
    """The server is restarted before each further repeat, and every repeat is VALID by that rule.

    The summaries say so, and nothing is left behind.
    """
    run = done(tmp_path, *TWO, validity={"repeats": 3})
    assert run.outcome == ("Complete", "Measured"), run.ended.stderr
    assert run.result is not None
    assert len(set(instances(run.result))) == 3
    found = [(each.name, each.repeat) for each in run.result.scenarios]
    assert found == [(name, repeat) for name in ("s0", "s1") for repeat in (1, 2, 3)]
    rules = {reason.rule for each in run.result.scenarios for reason in each.verdict.reasons}
    assert "ServerRestarted" not in rules
    summaries = [(each.repeats, each.scope) for each in run.result.repeat_summaries]
    assert summaries == [(3, "Server")] * 2
    assert "restarting the server (repeat 2/3)" in run.ended.stderr
    assert (run.left_behind, run.temporary) == ([], [])


def test_repeats_of_the_load_keep_the_server(tmp_path: Path) -> None:
    """With repeatScope Load one process answers all repeats."""
    run = done(tmp_path, TWO[0], validity={"repeats": 2, "repeatScope": "Load"})
    assert run.result is not None
    assert len(instances(run.result)) == 1
    assert [each.scope for each in run.result.repeat_summaries] == ["Load"]


def test_a_server_that_dies_in_a_later_repeat_ends_the_run(tmp_path: Path) -> None:
    """Only planned restarts are no fault: the run fails, and keeps the repeats before."""

    def kill(process: Inferometer) -> None:
        process.wait_for("s1 (2/2, repeat 2/3, batch 2): measuring")
        os.kill(process.child("server"), signal.SIGKILL)

    run = done(
        tmp_path,
        {"batch": {"batchSizes": [256]}},
        TWO[1],
        act=kill,
        validity={"repeats": 3, "minDurationSeconds": 2},
        within_seconds=END_SECONDS,
    )
    assert run.outcome == ("Failed", "ServerDied"), run.ended.stderr
    assert run.result is not None
    assert {(each.name, each.repeat) for each in run.result.scenarios} >= {
        ("s0", 1),
        ("s1", 1),
        ("s0", 2),
    }
    assert run.left_behind == []


def test_ctrl_c_during_a_restart_ends_the_run(tmp_path: Path) -> None:
    """What was measured before is kept, and no process stays."""

    def interrupt(process: Inferometer) -> None:
        process.wait_for("restarting the server (repeat 2/2)")
        process.press_ctrl_c()

    run = done(tmp_path, TWO[0], act=interrupt, validity={"repeats": 2}, within_seconds=END_SECONDS)
    assert run.outcome[0] == "Interrupted", run.ended.stderr
    assert run.result is not None
    assert [each.repeat for each in run.result.scenarios] == [1]
    assert (run.left_behind, run.temporary) == ([], [])


def test_a_fleet_measures_each_server(tmp_path: Path) -> None:
    """Its workers stay, and send the next repeat to the new server, over gRPC too."""
    load = {"workers": 2, "protocol": "GRPC"}
    run = done(
        tmp_path,
        {"concurrency": {"clients": [2]}},
        spec={"load": load},
        validity={"repeats": 2},
    )
    assert run.outcome == ("Complete", "Measured"), run.ended.stderr
    assert run.result is not None
    assert len(set(instances(run.result))) == 2
    counts = [each.steps[0].counts for each in run.result.scenarios]
    assert all(each.succeeded > 0 and each.failed == 0 for each in counts)
    assert run.left_behind == []
