"""A run launches the real Triton and the real MLServer, measures them, and names their faults."""

import mmap
import os
import re
import signal
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest

from support.inferometer_process import SHORT, Inferometer
from support.local_runs import Done, done
from support.onnx_models import add, identity, save
from support.stacks import launchers
from support.waiting import wait_until

SERVERS: dict[str, dict[str, Any]] = {
    "Triton": {"runtime": "Triton", "tritonBackend": "Python"},
    "MLServer": {"runtime": "MLServer"},
}
BOTH = pytest.mark.parametrize("runtime", SERVERS)
ONE: dict[str, Any] = {"name": "one", "singleStream": {}}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a search path with both servers."""
    return launchers(tmp_path_factory.mktemp("launchers"))


def run(folder: Path, path: str, runtime: str, *scenarios: dict[str, Any], **more: Any) -> Done:
    """Run scenarios against a launched server of another project."""
    server = {**SERVERS[runtime], **more.pop("server", {})}
    spec = {"server": server, **more.pop("spec", {})}
    env = {"PATH": path}
    return done(folder, *(scenarios or (ONE,)), spec=spec, validity=SHORT, env=env, **more)


@BOTH
@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
def test_it_is_launched_and_measured(
    tmp_path: Path, path: str, runtime: str, protocol: Literal["HTTP", "GRPC"]
) -> None:
    """Replies are checked, the result names server and threads, and nothing outlives the run."""
    left = run(
        tmp_path,
        path,
        runtime,
        server={"threads": 1},
        spec={"load": {"protocol": protocol}},
        model=add(),
    )
    assert left.outcome == ("Complete", "Measured"), left.ended.stderr
    assert left.result is not None
    assert left.result.environment is not None
    (step,) = left.result.scenarios[0].steps
    assert step.counts.errors == {}
    server = left.result.environment.server
    assert server.name == runtime.lower()
    assert server.launched
    assert server.version
    assert server.settings["runtime"] == "onnxruntime"
    # Triton does not report it: its processes have loaded it.
    assert re.fullmatch(r"1\.\d+\.\d+", server.settings["runtime_version"])
    if runtime == "Triton":
        assert server.settings["threads"] == "1"
        assert server.settings["instance_id"]
    elif protocol == "HTTP":
        # Read back from the session.
        assert server.settings["threads"] == "1"
    if runtime == "Triton" or protocol == "HTTP":
        assert step.server_time is not None
        assert step.server_time.requests > 0
        assert step.server_time.compute_infer_nanoseconds > 0
    assert (left.left_behind, left.temporary) == ([], [])


@BOTH
def test_its_requests_are_joined(tmp_path: Path, path: str, runtime: str) -> None:
    """With batching, replies of joined requests reach those that sent them."""
    left = run(
        tmp_path,
        path,
        runtime,
        {"name": "many", "concurrency": {"clients": [8]}},
        server={"batching": {"maxBatchSize": 8, "maxDelayMicroseconds": 2000}},
        model=identity(),
    )
    assert left.outcome == ("Complete", "Measured"), left.ended.stderr
    assert left.result is not None
    (step,) = left.result.scenarios[0].steps
    assert step.counts.errors == {}
    if runtime == "Triton":
        assert step.server_time is not None
        assert step.server_time.executions < step.server_time.requests


@BOTH
def test_several_instances_answer(tmp_path: Path, path: str, runtime: str) -> None:
    """Several instances of the model serve one run."""
    left = run(tmp_path, path, runtime, server={"instances": 2}, model=identity())
    assert left.outcome == ("Complete", "Measured"), left.ended.stderr


@BOTH
def test_a_model_that_it_cannot_open_is_named_with_its_log(
    tmp_path: Path, path: str, runtime: str
) -> None:
    """The run ends at once, and shows the last output of the server."""
    model = identity()
    model.graph.node[0].op_type = "NoSuchOperator"
    left = run(tmp_path, path, runtime, model=model)
    assert left.ended.code == 1
    assert "The server died before it was ready" in left.ended.stderr
    assert "NoSuchOperator" in left.ended.stderr


@BOTH
def test_its_death_is_named_with_its_log(tmp_path: Path, path: str, runtime: str) -> None:
    """A server that is killed while it is measured ends the run, as ours does."""
    program = {"Triton": "tritonserver", "MLServer": "mlserver"}[runtime]

    def kill(process: Inferometer) -> None:
        process.wait_for("one")
        found: list[psutil.Process] = []

        def appears() -> bool:
            children = psutil.Process(process.pid).children(recursive=True)
            found[:] = [each for each in children if any(program in w for w in _words(each))]
            return bool(found)

        wait_until(appears, f"a process {program}", needs=[])
        os.kill(found[0].pid, signal.SIGKILL)

    save(identity(), tmp_path / "model.onnx")
    left = run(
        tmp_path,
        path,
        runtime,
        {"name": "one", "server": {"targetQps": 20}},
        spec={"validity": {**SHORT, "minDurationSeconds": 30}},
        act=kill,
    )
    assert left.ended.code == 1
    assert left.outcome == ("Failed", "ServerDied")


def _words(process: psutil.Process) -> list[str]:
    try:
        words: list[str] = process.cmdline()
    except psutil.NoSuchProcess:
        return []
    return words


@BOTH
def test_a_source_that_stays_in_memory_is_not_cold(tmp_path: Path, path: str, runtime: str) -> None:
    """The fetcher copies the model: a source that another process has mapped makes it INVALID."""
    model = save(identity(), tmp_path / "model.onnx")
    start = {"name": "start", "coldStart": {"repeats": 1, "state": "ImagePresent"}}
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapping:
        assert mapping[:]  # its pages are mapped once they are read
        left = run(tmp_path, path, runtime, start)
    assert left.result is not None, left.ended.stderr
    (scenario,) = left.result.scenarios
    assert scenario.cold_start is not None
    assert scenario.cold_start.model_bytes == model.stat().st_size
    assert scenario.cold_start.resident_share == 1.0
    assert "ColdStartState" in [each.rule for each in scenario.verdict.reasons]


def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    """Without tritonserver on the search path, the run is refused with the page that helps."""
    left = run(tmp_path, "/usr/bin:/bin", "Triton")
    assert left.ended.code == 2
    assert "Triton is not installed" in left.ended.stderr
    assert "docs/how-to/triton.md" in left.ended.stderr
