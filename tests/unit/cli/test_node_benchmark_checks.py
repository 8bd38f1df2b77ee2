"""`validate` and `preflight` of a NodeBenchmark."""

from pathlib import Path
from typing import Any

import pytest

from inferometer_api.nodes.benchmark import NodeBenchmark
from inferometer_cli.exits import RefusedError
from inferometer_cli.node_benchmark_file import read_node_benchmark
from inferometer_cli.preflight.check import Unread
from inferometer_cli.preflight.node_benchmarks import node_checks
from inferometer_operator.settings import Settings
from support.operator_process import SETTINGS

_TEXT = """\
apiVersion: inferometer.dev/v1alpha1
kind: NodeBenchmark
metadata: {name: workers}
spec: {nodeSelector: {pool: cpu}}
"""


def _node(name: str, pool: str = "cpu") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"pool": pool}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


@pytest.fixture
def benchmark(tmp_path: Path) -> NodeBenchmark:
    """Return the NodeBenchmark of a file."""
    file = tmp_path / "nodes.yaml"
    file.write_text(_TEXT)
    found = read_node_benchmark(file)
    assert found is not None
    return found


def test_mistakes_in_a_file_have_their_line(tmp_path: Path) -> None:
    """A run's file is something else, and stays so."""
    file = tmp_path / "nodes.yaml"
    file.write_text(_TEXT.replace("nodeSelector", "selector"))
    with pytest.raises(RefusedError, match=r"not a valid NodeBenchmark:\n.*spec.selector"):
        read_node_benchmark(file)
    file.write_text(_TEXT.replace("NodeBenchmark", "BenchmarkRun"))
    assert read_node_benchmark(file) is None


def test_only_what_can_be_measured_is_valid(tmp_path: Path) -> None:
    """The begin of any name is; nothing else, as in `inferometer node --only`."""
    file = tmp_path / "nodes.yaml"

    def read(only: str) -> NodeBenchmark | None:
        file.write_text(_TEXT.replace("{nodeSelector", f"{{only: [{only}], nodeSelector"))
        return read_node_benchmark(file)

    for only in ("str", "stream/triad", "UM, podToPod", "pageFault"):
        assert read(only) is not None
    with pytest.raises(RefusedError, match=r"begins with nix\. Their names begin with timer, jit"):
        read("stream, nix")


@pytest.mark.parametrize(
    ("nodes", "read_nodes", "expected"),
    [
        ([_node("a"), _node("b"), _node("c", "gpu")], True, [("ok", "2 match: a, b")]),
        ([_node("c", "gpu")], True, [("blocked", "none of 1 nodes matches")]),
        ([_node(f"n{at}") for at in range(501)], True, [("blocked", "501 match; at most 500")]),
        (
            [_node("a")],
            False,
            [("blocked", "the operator may not read nodes"), ("ok", "1 match: a")],
        ),
    ],
    ids=["match", "none", "many", "no right"],
)
def test_the_nodes_that_match_are_listed(
    benchmark: NodeBenchmark,
    nodes: list[dict[str, Any]],
    *,
    read_nodes: bool,
    expected: list[tuple[str, str]],
) -> None:
    """Without one, or without the operator's right, nothing would be measured."""
    settings = Settings.model_validate({**SETTINGS, "readNodes": read_nodes})
    found = list(node_checks(benchmark, settings, nodes))
    assert len(found) == len(expected)
    for check, (state, words) in zip(found, expected, strict=True):
        assert (check.about, check.state) == ("nodes", state)
        assert words in check.message


@pytest.mark.parametrize(
    ("offered", "ceiling", "state", "words"),
    [
        ("0", None, "warning", "no matching node offers nvidia.com/gpu"),
        ("4", 1, "blocked", "spec.gpus is 2, and the operator's ceiling is 1"),
        ("4", 2, "", ""),
    ],
    ids=["none", "ceiling", "offered"],
)
def test_gpus_that_cannot_be_measured_are_named(
    benchmark: NodeBenchmark, offered: str, ceiling: int | None, state: str, words: str
) -> None:
    """The nodes are measured all the same, unless the operator refuses."""
    spec = benchmark.spec.model_copy(update={"gpus": 2})
    given = {**SETTINGS, "readNodes": True, "ceilings": {"gpus": ceiling}}
    node = _node("a")
    node["status"]["allocatable"] = {"nvidia.com/gpu": offered}
    found = list(
        node_checks(
            benchmark.model_copy(update={"spec": spec}), Settings.model_validate(given), [node]
        )
    )
    gpus = [each for each in found if each.about == "GPUs"]
    assert [each.state for each in gpus] == ([state] if state else [])
    assert words in " ".join(each.message for each in gpus)
    assert [each.message for each in found if each.about == "nodes"] == ["1 match: a"]


def test_nodes_that_the_caller_may_not_see_are_unknown(benchmark: NodeBenchmark) -> None:
    """The operator may see them."""
    (check,) = node_checks(benchmark, None, Unread("forbidden"))
    assert check.state == "unknown"
