"""A run on a busy machine says so before it measures, and names who used the CPUs."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from inferometer_api.results.result import OtherLoad
from support.inferometer_process import run_file, started
from support.local_runs import Done, done
from support.onnx_models import identity, save

CALM = {"server": {"targetQps": 20}}


@contextmanager
def spinning(script: Path) -> Iterator[None]:
    """Keep two processes busy that run a script of this name."""
    script.write_text("while True: pass\n")
    with ExitStack() as stack:
        for _ in range(2):
            process = subprocess.Popen([sys.executable, str(script), "--token=secret"])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Measure while two processes spin and another measurement is under way."""
    folder = tmp_path_factory.mktemp("busy")
    other = folder / "other"
    other.mkdir()
    save(identity(), other / "model.onnx")
    run_file(other, CALM, validity={"minDurationSeconds": 60, "maxDurationSeconds": 120})
    with spinning(folder / "spin.py"), started(other, "run", "run.yaml", "-o", "out") as process:
        process.wait_for("s0 (1/1): measuring")
        return done(folder / "run", CALM)


def _others(run: Done) -> OtherLoad:
    assert run.result is not None, run.ended.stderr
    (load,) = run.result.scenarios[0].steps[0].other_load
    return load


def test_a_busy_machine_is_reported_before_the_run(disturbed: Done) -> None:
    """The warnings come before the first measurement, and stay with the result as notes."""
    before, measuring, _ = disturbed.ended.stderr.partition("s0 (1/1): measuring")
    assert measuring, before
    assert "warning: This machine is busy: other processes use " in before
    assert "warning: Another measurement is under way on this machine: inferometer run" in before
    assert disturbed.result is not None
    assert disturbed.result.environment is not None
    notes = " ".join(disturbed.result.environment.notes)
    assert "This machine is busy" in notes
    assert "Another measurement is under way" in notes


def test_the_result_names_who_used_the_cpus(disturbed: Done) -> None:
    """Each step has the CPU use of others by program and script, without the run's own."""
    load = _others(disturbed)
    names = {each.name.partition(" ")[2]: each for each in load.processes}
    assert names["spin.py"].processes == 2
    assert "secret" not in load.model_dump_json()
    assert load.other_cores <= load.busy_cores
    assert not {"inferometer_loadgen", "inferometer_serving"} & {
        name for name, each in names.items() if each.processes > 1
    }


def test_an_invalid_run_blames_the_machine_once(disturbed: Done) -> None:
    """If it is late there, the one reason is BusyMachine, whatever else is true of the server.

    If it is not, a caution names who used the CPUs.
    """
    assert disturbed.result is not None
    (scenario,) = disturbed.result.scenarios
    rules = [each.rule for each in scenario.verdict.reasons]
    assert set(rules) <= {"BusyMachine", "AchievedRate", "Unsteady"}, rules
    cautions = [each.rule for each in scenario.verdict.cautions]
    assert ("BusyMachine" in rules) != ("OtherProcesses" in cautions)
    assert "spin.py" in disturbed.ended.stdout
