"""Cold starts of three real servers, side by side: the example about them, with one start each."""

import importlib.util
import json
from pathlib import Path

import pytest
import yaml

from inferometer_api.suite.plan_suite import plan_suite
from support.inferometer_process import SHORT, ran, result_in
from support.requirements import cannot_run
from support.stacks import launchers
from support.suites import parsed

_EXAMPLE = Path(__file__).parents[2] / "examples" / "22-cold-starts.yaml"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a search path with the servers that are programs; the others are packages."""
    if importlib.util.find_spec("openvino") is None:
        cannot_run("OpenVINO, of the extra `openvino`, is not installed.")
    return launchers(tmp_path_factory.mktemp("launchers"))


def test_example_22_compares_the_starts_of_three_servers(tmp_path: Path, path: str) -> None:
    """Each run ends Complete with a start from a proven state, and the page has them all."""
    suite = yaml.safe_load(_EXAMPLE.read_text())
    spec = suite["spec"]["template"]["spec"]
    spec["scenarios"][0]["coldStart"]["repeats"] = 1
    spec["validity"] = SHORT
    runs = plan_suite(parsed(suite), place="Local").runs
    assert [each.run.spec.server.runtime for each in runs] == [
        "OnnxRuntime",
        "OpenVino",
        "MLServer",
    ]
    (tmp_path / "suite.yaml").write_text(json.dumps(suite))
    env = {"XDG_DATA_HOME": str(tmp_path / "data"), "PATH": path}
    ended = ran(tmp_path, "run", "suite.yaml", "--output", "out", env=env)
    assert ended.code in {0, 3}, ended.stderr
    page = (tmp_path / "out" / "suite.html").read_text()
    for run in runs:
        result = result_in(tmp_path / "out" / run.name)
        assert result.outcome is not None
        assert (result.outcome.state, result.outcome.reason) == ("Complete", "Measured")
        (scenario,) = result.scenarios
        start = scenario.cold_start
        assert start is not None
        assert start.state == "ModelCached"
        assert start.model_bytes
        assert start.resident_bytes is not None
        assert start.resident_bytes <= 0.01 * start.model_bytes
        covered = sum(each.duration_nanoseconds for each in start.phases)
        assert abs(covered + start.gap_nanoseconds - start.total_nanoseconds) <= 20_000_000
        assert f"{run.name}/report.html" in page
