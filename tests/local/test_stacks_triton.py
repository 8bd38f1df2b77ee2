"""The real Triton is measured as it is: optional inputs, tensors, refusals, restarts."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.load_runs import a_plan, measure, measured_across
from support.stacks import Stack, triton

CLOSED: dict[str, Any] = {"singleStream": {}}
BOTH = pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
X = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
CONFIG = """
name: "masked"
backend: "python"
max_batch_size: 8
input [{name: "x" data_type: TYPE_FP32 dims: [4]},
       {name: "mask" data_type: TYPE_FP32 dims: [4] optional: true}]
output [{name: "y" data_type: TYPE_FP32 dims: [4]}]
instance_group [{kind: KIND_CPU count: 1}]
"""
PROGRAM = """
import os
import sys

sys.path.append(os.environ["PYTHONPATH"])

import triton_python_backend_utils as backend


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = backend.get_input_tensor_by_name(request, "x").as_numpy()
        if backend.get_input_tensor_by_name(request, "mask") is not None:
            error = backend.TritonError("the mask is here, which this test forbids")
            return backend.InferenceResponse(error=error)
        return backend.InferenceResponse([backend.Tensor("y", 2 * x)])
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Serve a model with an optional input."""
    folder = tmp_path_factory.mktemp("triton")
    with triton(folder, repository(folder)) as stack:
        yield stack


def repository(folder: Path) -> Path:
    """Write a repository of the models."""
    models = folder / "models"
    (models / "masked" / "1").mkdir(parents=True)
    (models / "masked" / "config.pbtxt").write_text(CONFIG)
    (models / "masked" / "1" / "model.py").write_text(PROGRAM)
    return models


@BOTH
def test_an_optional_input_is_left_out_by_the_spec(server: Stack, protocol: str) -> None:
    """Every input of the metadata is sent, unless the spec lists those to send."""
    whole = measure(a_plan(server.url(protocol), CLOSED, model="masked"))
    assert (whole.exit_code, whole.outcome.reason) == (2, "RequestRefused")
    assert "the mask is here, which this test forbids" in whole.outcome.message
    declared = {"model": {"name": "masked", "inputs": [X]}}
    run = measure(a_plan(server.url(protocol), CLOSED, spec=declared))
    assert run.outcome.message == ""
    assert run.scenarios[0].steps[0].counts.errors == {}
    assert run.environment is not None
    assert run.environment.server.tensors == "Binary"


@BOTH
def test_an_optional_input_is_left_out_by_a_file(
    server: Stack, protocol: str, tmp_path: Path
) -> None:
    """A .npz file without it, and Triton's configuration, suffice."""
    np.savez(tmp_path / "in.npz", x=np.ones((3, 4), np.float32))
    run = measure(
        a_plan(
            server.url(protocol),
            {"batch": {"batchSizes": [1, 3]}},
            model="masked",
            load={"inputs": {"file": {"uri": "file:in.npz"}}},
            inputs_file=str(tmp_path / "in.npz"),
        )
    )
    assert run.outcome.message == ""
    assert [step.counts.errors for step in run.scenarios[0].steps] == [{}, {}]


def test_json_is_sent_on_demand(server: Stack) -> None:
    """Triton reads both; the result records which."""
    spec = {"model": {"name": "masked", "inputs": [X]}}
    run = measure(a_plan(server.url("HTTP"), CLOSED, spec=spec, load={"tensors": "Json"}))
    assert run.environment is not None
    assert run.environment.server.tensors == "Json"
    assert run.scenarios[0].steps[0].counts.errors == {}


@pytest.mark.parametrize("coding", ["Gzip", "Deflate"])
def test_compressed_messages_are_measured(server: Stack, coding: str) -> None:
    """Triton reads compressed requests."""
    spec = {"model": {"name": "masked", "inputs": [X]}}
    run = measure(a_plan(server.url("GRPC"), CLOSED, spec=spec, load={"compression": coding}))
    assert run.outcome.message == ""
    assert run.scenarios[0].steps[0].counts.errors == {}


@BOTH
def test_what_triton_does_not_have_is_refused_in_its_words(server: Stack, protocol: str) -> None:
    """A model's name and too large a batch are refused before the measurement."""
    missing = measure(a_plan(server.url(protocol), CLOSED, model="nowhere"))
    assert (missing.exit_code, missing.outcome.reason) == (2, "ModelRefused")
    assert "does not serve the model 'nowhere': it answered " in missing.outcome.message
    large = measure(a_plan(server.url(protocol), {"batch": {"batchSizes": [9]}}, model="masked"))
    assert (large.exit_code, large.outcome.reason) == (2, "InputRefused")
    assert "accepts at most 8 samples per request" in large.outcome.message


@pytest.mark.parametrize(
    ("protocol", "other", "words"),
    [("HTTP", "GRPC", "Write grpc:// with"), ("GRPC", "HTTP", "Write http:// with")],
)
def test_the_other_port_is_named(server: Stack, protocol: str, other: str, words: str) -> None:
    """A URL with the port of the other protocol is refused at once."""
    port = server.url(other).rpartition(":")[2]
    scheme = "grpc" if protocol == "GRPC" else "http"
    run = measure(a_plan(f"{scheme}://127.0.0.1:{port}", CLOSED, model="masked"))
    assert (run.exit_code, run.outcome.reason) == (2, "ProtocolMismatch")
    assert words in run.outcome.message


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("deadline_seconds", [3, 60])
def test_a_restart_takes_a_deadline(
    tmp_path: Path, number: signal.Signals, deadline_seconds: int
) -> None:
    """With a long deadline the run goes on with the new process; else it keeps what it has."""
    models = repository(tmp_path)
    with triton(tmp_path, models) as stack:
        plan = a_plan(
            stack.url("GRPC"),
            {"server": {"targetQps": 20}},
            spec={"model": {"name": "masked", "inputs": [X]}},
            load={"reconnectDeadlineSeconds": deadline_seconds},
            validity={"minDurationSeconds": 30, "maxDurationSeconds": 120},
        )

        def stop() -> None:
            stack.stop(number)
            if deadline_seconds > 3:
                stack.start("/v2/health/ready")

        run = measured_across(plan, stop)
    counts = run.scenarios[0].steps[0].counts
    assert set(counts.errors) <= {"connection", "status"}
    if deadline_seconds == 3:
        assert (run.exit_code, run.outcome.reason) == (1, "ServerLost")
        assert "for 3 s (load.reconnectDeadlineSeconds)" in run.outcome.message
        assert counts.succeeded > 0
    else:
        assert run.outcome.state == "Complete", run.outcome
        assert counts.queries == counts.scheduled
        assert counts.succeeded > counts.failed
