"""`inferometer run suite.yaml` with real processes: interrupted and resumed, and judged."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.suite.plan_suite import plan_suite
from support.inferometer_process import SHORT, ran, result_in, started
from support.oracle_process import oracle_process
from support.quiet import INCONCLUSIVE
from support.suites import a_suite, an_axis, parsed

_MODELS = ("squeezenet1_1", "shufflenet_v2_x0_5")
_MILLISECOND = 1_000_000


def written(folder: Path, suite: dict[str, Any]) -> str:
    """Write a suite to a file, and return its name."""
    (folder / "suite.yaml").write_text(json.dumps(suite))
    return "suite.yaml"


def environment(folder: Path) -> dict[str, str]:
    """Return variables by which the test has a database of its own."""
    return {"XDG_DATA_HOME": str(folder / "data")}


def two_by_two() -> dict[str, Any]:
    """Return a suite of two models and two protocols."""
    models = [
        {"name": name.partition("_")[0], "set": {"spec.model.uri": f"zoo://classification/{name}"}}
        for name in _MODELS
    ]
    protocols = [
        {"name": name.lower(), "set": {"spec.load.protocol": name}} for name in ("HTTP", "GRPC")
    ]
    suite = a_suite(
        "two-by-two",
        axes=[{"name": "model", "values": models}, {"name": "protocol", "values": protocols}],
    )
    suite["spec"]["template"]["spec"] |= {"validity": SHORT}
    return suite


def test_a_suite_goes_on_after_ctrl_c_and_measures_no_run_twice(tmp_path: Path) -> None:
    """Results stay as they were; the page and the database have all four."""
    suite = two_by_two()
    names = [run.name for run in plan_suite(parsed(suite), place="Local").runs]
    words = ("run", written(tmp_path, suite), "--output", "out")
    with started(tmp_path, *words, env=environment(tmp_path)) as process:
        process.wait_for("run 3/4: ")
        process.child("load generator")
        ended = process.press_ctrl_c().ended()
        assert process.left_behind() == []
    assert ended.code == 130
    assert "2 of 4 runs are over. To continue after them, repeat the command with" in ended.stderr
    first = [result_in(tmp_path / "out" / name).run_id for name in names[:2]]
    resumed = ran(tmp_path, *words, env=environment(tmp_path))
    assert resumed.code in {0, 3}, resumed.stderr
    assert "run 3/4: " in resumed.stderr
    assert "run 2/4: " not in resumed.stderr
    ids = [result_in(tmp_path / "out" / name).run_id for name in names]
    assert ids[:2] == first
    assert len(set(ids)) == 4
    page = (tmp_path / "out" / "suite.html").read_text()
    assert all(f"{name}/report.html" in page for name in names) or "INVALID" in page
    listed = ran(
        tmp_path,
        *("results", "list", "--where", "suite=two-by-two", "--json"),
        env=environment(tmp_path),
    )
    assert sorted(each["name"] for each in json.loads(listed.stdout)) == sorted(names)


def test_the_results_of_another_suite_are_not_continued(tmp_path: Path) -> None:
    """The directory has the checksum of its plan."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "suite.json").write_text('{"planSha256": "other", "failures": {}}')
    ended = ran(tmp_path, "run", written(tmp_path, two_by_two()), "--output", "out")
    assert ended.code == 2
    assert "out has results of another suite" in ended.sentence


def test_a_failed_cell_is_named_and_not_measured_again(tmp_path: Path) -> None:
    """The others are measured; the page has the reason; the exit code is 1."""
    suite = two_by_two()
    suite["spec"]["axes"] = [an_axis("stack", "old")]
    missing = {"name": "gone", "set": {"spec.model.uri": "file:gone.onnx"}}
    suite["spec"]["axes"][0]["values"].append(missing)
    words = ("run", written(tmp_path, suite), "--output", "out", "--no-save")
    ended = ran(tmp_path, *words)
    assert ended.code == 1
    assert "1 failed" in ended.stderr
    assert "gone.onnx" in (tmp_path / "out" / "suite.html").read_text()
    again = ran(tmp_path, *words)
    assert again.code == 1
    assert "run 1/2" not in again.stderr


def test_a_planted_regression_of_ten_percent_fails_an_armed_gate(tmp_path: Path) -> None:
    """One server answers after 20 ms, the other after 22 ms; 24 blocks arm the gate."""
    with oracle_process() as old, oracle_process() as new:
        old.obey((20 * _MILLISECOND,))
        new.obey((22 * _MILLISECOND,))
        values = [
            {"name": name, "set": {"spec.server.external.url": oracle.url("HTTP")}}
            for name, oracle in (("old", old), ("new", new))
        ]
        suite = a_suite(
            axes=[{"name": "stack", "values": values}],
            repeats=24,
            baseline={"axis": "stack", "value": "old"},
            gate={"failIfSlowerPercent": 5},
        )
        suite["spec"]["template"]["spec"] |= {
            "model": {"name": "oracle"},
            "server": {"runtime": "External", "external": {"url": old.url("HTTP")}},
            "load": {"protocol": "HTTP", "connections": 1},
            "validity": {**SHORT, "minQueries": 64},
            "telemetry": {"power": "Disabled"},
        }
        words = ("run", written(tmp_path, suite), "--output", "out")
        with started(tmp_path, *words, env=environment(tmp_path)) as process:
            ended = process.ended(within_seconds=1500)
    if "INVALID" in ended.stderr.rpartition("\nsuite ")[2].partition("\n")[0]:
        pytest.skip(f"{INCONCLUSIVE}: runs are INVALID on this machine: {ended.stderr[-600:]}")
    assert ended.code == 4, ended.stderr[-2000:]
    assert "gate    FAIL: " in ended.stderr
    assert "new, latency: the median latency changed by +" in ended.stderr
