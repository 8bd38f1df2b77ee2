"""`inferometer run suite.yaml` with real processes: interrupted and resumed, and judged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inferometer_api.suite.plan_suite import plan_suite
from inferometer_results.store.store import Store
from inferometer_results.store.suite_outcomes import find_outcomes
from support.inferometer_process import SHORT, Ended, ran, result_in, started
from support.oracle_process import oracle_process
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
    """The others are measured; page and database have the reason; the exit code is 1."""
    suite = two_by_two()
    suite["spec"]["axes"] = [an_axis("stack", "old")]
    missing = {"name": "gone", "set": {"spec.model.uri": "file:gone.onnx"}}
    suite["spec"]["axes"][0]["values"].append(missing)
    words = ("run", written(tmp_path, suite), "--output", "out")
    ended = ran(tmp_path, *words, env=environment(tmp_path))
    assert ended.code == 1
    assert "1 failed" in ended.stderr
    assert "gone.onnx" in (tmp_path / "out" / "suite.html").read_text()
    again = ran(tmp_path, *words, env=environment(tmp_path))
    assert again.code == 1
    assert "run 1/2" not in again.stderr
    with Store(str(tmp_path / "data" / "inferometer" / "results.db")) as store:
        (kept,) = find_outcomes(store, "two-by-two")
    (failed,) = kept.outcome.unmeasured
    assert (failed.values, failed.state) == ({"stack": "gone"}, "F")
    assert "gone.onnx" in failed.reason


def test_a_planted_regression_of_ten_percent_fails_an_armed_gate(
    tmp_path: Path, require_quiet: Callable[[], None]
) -> None:
    """One server answers after 10 ms, the other after 11 ms; two executions arm the gate.

    The first one is advisory. The second one adds its A/A pairs to those in the database, and ends
    with 4; the database keeps its outcome.
    """
    with oracle_process() as old, oracle_process() as new:
        old.obey((10 * _MILLISECOND,))
        new.obey((11 * _MILLISECOND,))
        words = ("run", written(tmp_path, regressed(old.url("HTTP"), new.url("HTTP"))))
        first = measured(tmp_path, *words, "--output", "first")
        second = measured(tmp_path, *words, "--output", "second")
    if "INVALID" in summary(first) + summary(second):
        require_quiet()
    assert first.code in {0, 3}, first.stderr[-2000:]
    assert "gate    FAIL (advisory): " in first.stderr
    assert "The gate is advisory: it decides once 20 A/A pairs" in first.stderr
    assert second.code == 4, second.stderr[-2000:]
    assert "gate    FAIL: " in second.stderr
    assert "new, latency: the median latency changed by +" in second.stderr
    with Store(str(tmp_path / "data" / "inferometer" / "results.db")) as store:
        newest, oldest = (each.outcome for each in find_outcomes(store, "nightly"))
    assert newest.gate is not None
    assert oldest.gate is not None
    assert (newest.gate.outcome, newest.gate.armed, oldest.gate.armed) == ("FAIL", True, False)
    assert newest.unmeasured == []


def test_repeats_are_measured_and_the_next_execution_reuses_each_of_them(
    tmp_path: Path, require_quiet: Callable[[], None]
) -> None:
    """One result never stands for two runs; what is reused is printed, and marked on the page."""
    suite = two_by_two()
    suite["spec"] |= {"axes": suite["spec"]["axes"][:1], "repeats": 2, "reuse": True}
    words = ("run", written(tmp_path, suite), "--output")
    first = measured(tmp_path, *words, "first")
    assert "reused: " not in first.stderr
    valid = _ids(tmp_path / "first", verdict="VALID")
    if not valid:
        require_quiet()
    assert valid, first.stderr[-600:]
    second = measured(tmp_path, *words, "second")
    assert second.stderr.count("reused: ") == len(valid), second.stderr
    assert f"{len(valid)} reused" in summary(second)
    assert _ids(tmp_path / "second") & _ids(tmp_path / "first") == valid
    assert "reused</small>" in (tmp_path / "second" / "suite.html").read_text()
    with Store(str(tmp_path / "data" / "inferometer" / "results.db")) as store:
        newest, _ = (each.outcome for each in find_outcomes(store, "two-by-two"))
    assert len({each.result for each in newest.reused}) == len(valid)


def _ids(folder: Path, verdict: str = "") -> set[str]:
    """Return the IDs of the runs in a suite's folder, with a verdict or with any."""
    documents = [result_in(file.parent) for file in sorted(folder.glob("*/result.json"))]
    return {each.run_id for each in documents if not verdict or each.valid == (verdict == "VALID")}


def regressed(old: str, new: str) -> dict[str, Any]:
    """Return a suite of two servers, with a gate that needs two executions of 12 blocks."""
    values = [
        {"name": name, "set": {"spec.server.external.url": url}}
        for name, url in (("old", old), ("new", new))
    ]
    suite = a_suite(
        axes=[{"name": "stack", "values": values}],
        repeats=12,
        baseline={"axis": "stack", "value": "old"},
        gate={"failIfSlowerPercent": 5},
    )
    suite["spec"]["template"]["spec"] |= {
        "model": {"name": "oracle"},
        "server": {"runtime": "External", "external": {"url": old}},
        "load": {"protocol": "HTTP", "connections": 1},
        "validity": {**SHORT, "minQueries": 64},
        "telemetry": {"power": "Disabled"},
    }
    return suite


def measured(folder: Path, *words: str) -> Ended:
    """Run a suite to its end."""
    with started(folder, *words, env=environment(folder)) as process:
        return process.ended(within_seconds=900)


def summary(ended: Ended) -> str:
    """Return the line with the counts of a suite."""
    return ended.stderr.rpartition("\nsuite ")[2].partition("\n")[0]
