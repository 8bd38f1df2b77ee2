"""Checks of a suite before anything starts: `validate`, and those of `preflight`."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.suite.labels import SUITE_LABEL
from inferometer_cli.exits import RefusedError
from inferometer_cli.local.server import check_listener
from inferometer_cli.preflight.check import Check, Unread
from inferometer_cli.preflight.operators import ASSUMED
from inferometer_cli.preflight.suites import plan_checks, together
from support.command import Command
from support.fake_load import free_port
from support.onnx_models import identity, save
from support.runs import an_external_run
from support.suites import a_suite, an_axis, parsed

_NODES = [
    {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    for name in ("a", "b")
]
_TAINTED = {**_NODES[0], "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command of `inferometer` in this process."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")
    return Command(monkeypatch, capsys)


def written(folder: Path, *models: str, repeats: int = 3) -> str:
    """Write a suite of model files to a file; return its path."""
    values = [{"name": name, "set": {"spec.model.uri": f"file:{name}.onnx"}} for name in models]
    threads = an_axis("connections", "one", "two")
    suite = a_suite(axes=[{"name": "model", "values": values}, threads], repeats=repeats)
    suite["spec"]["template"]["spec"]["validity"] = {
        "warmUpSeconds": 5,
        "minDurationSeconds": 15,
        "maxDurationSeconds": 15,
    }
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump(suite))
    return str(path)


def test_validate_checks_every_cell_and_says_how_long_the_suite_takes(
    inferometer: Command, tmp_path: Path
) -> None:
    """A warning that holds for all cells is printed once."""
    save(identity(), tmp_path / "plain.onnx")
    file = written(tmp_path, "plain")
    shown = inferometer("validate", file, "--set", "spec.template.spec.load.workers=4")
    assert shown.stdout.splitlines() == [
        f"{file} is a valid BenchmarkSuite: nightly, 2 cells, 6 runs",
        "planned duration: 2 min with warm-up, after the start of each server",
    ]
    assert shown.stderr.count("note: spec.scenarios[0].singleStream has 1 client") == 1
    assert shown.code == 0


def test_validate_names_the_cell_whose_server_does_not_start(
    inferometer: Command, tmp_path: Path
) -> None:
    """With the words that a run would end with."""
    save(identity(), tmp_path / "plain.onnx")
    shown = inferometer("validate", written(tmp_path, "plain", "gone"))
    assert shown.code == 2
    assert "cell gone, one: Model file not found: " in shown.stderr


def test_validate_says_once_that_servers_were_not_contacted(
    inferometer: Command, tmp_path: Path
) -> None:
    """Whatever the number of cells with an External server."""
    suite = a_suite(axes=[an_axis("connections", *"abcd")])
    suite["spec"]["template"]["spec"] |= {
        "model": {"name": "resnet"},
        "server": {"runtime": "External", "external": {"url": "http://127.0.0.1:9"}},
    }
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite))
    shown = inferometer("validate", str(tmp_path / "suite.yaml"))
    assert shown.code == 0
    assert shown.stderr.count("note: The server was not contacted.") == 1


@pytest.mark.parametrize(
    ("labels", "advice"),
    [
        ({SUITE_LABEL: "nightly"}, "set spec.server.readyDeadlineSeconds."),
        ({}, "add --wait SECONDS."),
    ],
    ids=["suite", "run"],
)
def test_the_advice_to_wait_for_a_server_fits_the_command(
    labels: dict[str, str], advice: str
) -> None:
    """`run` refuses --wait with a suite."""
    server = {"runtime": "External", "external": {"url": f"http://127.0.0.1:{free_port()}"}}
    data = an_external_run(server=server) | {"metadata": {"name": "a", "labels": labels}}
    with pytest.raises(RefusedError, match=advice):
        asyncio.run(check_listener(BenchmarkRun.model_validate(data)))


@pytest.mark.parametrize(
    ("spec", "nodes", "read_nodes", "expected"),
    [
        ({}, _NODES, False, ["ok spec 2 cells, 2 runs; each cell is a valid run"]),
        (
            {"systems": {}},
            _NODES,
            True,
            ["ok systems 2 match: a, b", "ok spec 2 cells, 4 runs; each cell is a valid run"],
        ),
        (
            {"systems": {}},
            [_TAINTED, _NODES[1]],
            True,
            [
                "ok systems 1 match: b",
                "ok systems 1 matching node is left out, since no run would start on it: a (",
                "ok spec 2 cells",
            ],
        ),
        (
            {"systems": {}},
            _NODES,
            False,
            ["blocked systems the operator may not read nodes", "ok systems 2", "ok spec 2 cells"],
        ),
        (
            {"systems": {"selector": {"pool": "bench"}}},
            _NODES,
            True,
            ["blocked spec spec.systems: no node can take the runs"],
        ),
        ({"systems": {}}, Unread("no right"), True, ["unknown systems which nodes", "ok spec"]),
        (
            {"reuse": True},
            _NODES,
            False,
            ["blocked reuse spec.reuse: the operator cannot find stored results: it has no", "ok"],
        ),
        (
            {"axes": [an_axis("stack", "old", path="spec.load.connection")]},
            _NODES,
            False,
            ["blocked spec cell old: spec.load.connection: unknown field"],
        ),
    ],
    ids=["plain", "systems", "tainted", "rights", "no-node", "unread", "reuse", "cell"],
)
def test_preflight_plans_the_suite_on_the_nodes_that_match(
    spec: dict[str, Any], nodes: Any, expected: list[str], *, read_nodes: bool
) -> None:
    """What the operator would refuse is blocked, with the cell."""
    settings = ASSUMED.model_copy(update={"read_nodes": read_nodes})
    plan, checks = plan_checks(parsed(a_suite(**spec)), settings, nodes)
    found = [f"{each.state} {each.about} {each.message}" for each in checks]
    assert len(found) == len(expected), found
    assert all(text.startswith(start) for text, start in zip(found, expected, strict=True)), found
    assert (plan is None) == (expected[-1].startswith("blocked"))


def test_a_check_of_several_cells_is_one_line() -> None:
    """One that holds for all cells has no name; an ok one of some cells is left out."""
    alike, some, fine = (
        Check("warning", "queue", "long"),
        Check("blocked", "nodes", "none fits"),
        Check("ok", "nodes", "room"),
    )
    of_cells = {alike: ["a", "b", "c"], some: ["b", "c"], fine: ["a"]}
    assert list(together(of_cells, 3)) == [
        alike,
        Check("blocked", "nodes", "cell b and 1 more: none fits"),
    ]


def test_the_plan_says_that_stored_results_may_stand_for_runs(
    inferometer: Command, tmp_path: Path
) -> None:
    """The runs are printed all the same: only the results service knows which are stored."""
    settings = ("--set", "spec.reuse=true", "--set", "spec.axes=[]")
    shown = inferometer("suite", "plan", written(tmp_path, "plain"), *settings)
    assert "a run for which an equal result is stored is not created" in shown.stderr
