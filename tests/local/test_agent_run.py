"""A local run reports the energy of a recorded machine, with its own agent or another."""

import json
import os
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.results.result import Energy
from support.agent_process import agent
from support.inferometer_process import Inferometer
from support.load_runs import OF_THE_LOAD_GENERATOR
from support.local_runs import Done, done, together
from support.recorded_node import RANGE_MICROJOULES, RecordedNode
from support.waiting import wait_until

CALM: dict[str, Any] = {"server": {"targetQps": 20, "latencyBoundMicroseconds": 2_000_000}}
LONG = {"minDurationSeconds": 3}
IDLE = {"telemetry": {"idleSeconds": 2}}


class _Machine:
    """A recorded machine that an agent watches, and on which a run's server is a process."""

    def __init__(self, folder: Path) -> None:
        begin = RANGE_MICROJOULES / 1e6 - 200
        self.node = RecordedNode(folder, begin_joules=begin)

    def live(self, run: Inferometer) -> None:
        """Take 20 J while nothing is requested, and then 600 J of which the server has half."""
        server = run.child("server")
        self.node.add_process(server)
        run.wait_for("measuring the idle power")
        self.node.advance(joules={"package-0": 20, "package-0-dram": 2}, busy_seconds=0.5)
        run.wait_for(": measuring, ")
        for _ in range(3):
            self.node.advance(
                joules={"package-0": 200, "package-0-dram": 10},
                busy_seconds=2,
                processes={server: 1.0},
            )


def _targets(folder: Path) -> list[Mapping[str, Any]]:
    path = folder / "targets.json"
    groups: list[Mapping[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return groups


def _see_targets(folder: Path, seen: dict[str, str], run: Inferometer) -> None:
    run.wait_for(": measuring, ")
    wait_until(lambda: len(_targets(folder)) == 3, "the addresses of all three processes")
    for group in _targets(folder):
        assert group["labels"]["run"] == "test"
        (seen[group["labels"]["component"]],) = group["targets"]


def _kill_agent(run: Inferometer) -> None:
    run.wait_for(": measuring, ")
    os.kill(run.child("node agent"), signal.SIGKILL)


class _Runs:
    """The runs of this module, begun together."""

    def __init__(self, futures: dict[str, Future[Done]], seen: dict[str, str]) -> None:
        self.futures = futures
        self.seen = seen

    def energy(self, name: str) -> Energy:
        """Return the energy of a run's only step."""
        result = self.futures[name].result().result
        assert result is not None
        energy = result.scenarios[0].steps[0].energy
        assert energy is not None
        return energy


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Runs]:
    """Start a run on a recorded machine, one with its own agent, one whose agent is killed."""
    folder = tmp_path_factory.mktemp("runs")
    machine = _Machine(folder / "machine")
    seen: dict[str, str] = {}
    own = folder / "own"
    with agent(folder, *machine.node.options, "--no-nvml", "--node", "recorded") as process:
        requested = {
            "recorded": partial(
                done,
                folder / "recorded",
                CALM,
                act=machine.live,
                spec=IDLE,
                validity=LONG,
                words=("--agent", process.url),
            ),
            "own": partial(
                done,
                own,
                CALM,
                act=partial(_see_targets, own, seen),
                words=("--prometheus-targets", "targets.json"),
                validity=LONG,
            ),
            "killed": partial(done, folder / "killed", CALM, act=_kill_agent, validity=LONG),
            "nobody": partial(
                done, folder / "nobody", CALM, words=("--agent", "http://127.0.0.1:1")
            ),
            "no folder": partial(
                done, folder / "no", CALM, words=("--prometheus-targets", "not/there.json")
            ),
        }
        with together(requested, at_once=2) as futures:
            yield _Runs(futures, seen)


def test_known_joules_are_in_the_result(runs: _Runs) -> None:
    """Of 630 J, through a wrap-around, the server's half is reported within 1 %, gross and net."""
    energy = runs.energy("recorded")
    assert energy.attribution == "shared"
    assert {each.domain for each in energy.domains} == {"package-0", "package-0-dram"}
    assert energy.microjoules == pytest.approx(315e6, rel=0.01)
    assert energy.window_nanoseconds is not None
    result = runs.futures["recorded"].result().result
    assert result is not None
    (node,) = result.scenarios[0].steps[0].telemetry
    # It took 20 J and 2 J without load, however long that lasted on a machine that is busy.
    idle_seconds = 20 / node.samples[0].watts["package-0"]
    assert idle_seconds > 1.99
    assert energy.baseline_milliwatts == pytest.approx(22_000 / idle_seconds, rel=0.01)
    idle = 22e6 / idle_seconds * energy.window_nanoseconds / 1e9 / 2
    assert energy.net_microjoules == pytest.approx(315e6 - idle, rel=0.01)


def test_the_node_is_in_the_result(runs: _Runs) -> None:
    """The agent's node, its CPUs and the server's CPU time stand in the step."""
    result = runs.futures["recorded"].result().result
    assert result is not None
    (node,) = result.scenarios[0].steps[0].telemetry
    assert (node.node, node.cpu_count) == ("recorded", 4)
    assert node.server_cpu_seconds == pytest.approx(3.0, abs=0.01)


def test_a_run_starts_an_agent_of_its_own(runs: _Runs) -> None:
    """Without --agent the step has the server's CPU time by a child that ends with the run."""
    run = runs.futures["own"].result()
    assert run.result is not None
    (node,) = run.result.scenarios[0].steps[0].telemetry
    assert node.server_cpu_seconds is not None
    assert run.left_behind == []
    assert run.ended.code in {0, 3}


def test_prometheus_finds_the_processes_of_a_run(runs: _Runs) -> None:
    """While it is measured the file has all three; at the end nothing listens, and none is left."""
    run = runs.futures["own"].result()
    assert set(runs.seen) == {"server", "load generator", "node agent"}
    assert len(set(runs.seen.values())) == 3
    assert _targets(run.directory.parent) == []


def test_a_killed_agent_costs_only_the_energy(runs: _Runs) -> None:
    """The run goes on: its energy is unavailable with the reason, a caution and no more."""
    run = runs.futures["killed"].result()
    assert run.outcome == ("Complete", "Measured")
    energy = runs.energy("killed")
    assert (energy.attribution, energy.microjoules) == ("unavailable", None)
    assert energy.reason
    assert run.result is not None
    verdict = run.result.scenarios[0].verdict
    assert "EnergyUnavailable" in {caution.rule for caution in verdict.cautions}
    late = OF_THE_LOAD_GENERATOR | {"EarlyStopping"}
    assert {reason.rule for reason in verdict.reasons} <= late


def test_an_agent_that_does_not_answer_is_refused(runs: _Runs) -> None:
    """--agent without an agent at the URL exits with 2 before anything is started."""
    run = runs.futures["nobody"].result()
    assert run.ended.code == 2
    assert "No node agent answered at --agent http://127.0.0.1:1" in run.ended.sentence
    assert run.files == []


def test_an_unwritable_targets_file_is_refused(runs: _Runs) -> None:
    """--prometheus-targets in a folder that is not there ends with 2 and says so."""
    run = runs.futures["no folder"].result()
    assert run.ended.code == 2
    assert "Cannot write --prometheus-targets" in run.ended.sentence
