"""The real MLServer is measured as it is: models with and without metadata, errors, restarts."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.load_runs import LoadRun, a_plan, measure, measured_across
from support.stacks import Stack, mlserver

CLOSED: dict[str, Any] = {"singleStream": {}}
BOTH = pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
X = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
Y = {**X, "name": "y"}
DESCRIBED = {"inputs": [X], "outputs": [Y]}
PROGRAM = """
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class Doubling(MLModel):
    async def load(self):
        return True

    async def predict(self, payload):
        x = NumpyCodec.decode_input(payload.inputs[0])
        y = NumpyCodec.encode_output("y", 2 * x)
        return InferenceResponse(model_name=self.name, outputs=[y])


class Failing(Doubling):
    queries = 0

    async def predict(self, payload):
        self.queries += 1
        if self.queries % 20 == 0:
            raise ZeroDivisionError("the cause of the failure")
        return await super().predict(payload)


class Unready(Doubling):
    async def load(self):
        return False
"""


def lay_out(folder: Path, **models: dict[str, Any]) -> Path:
    """Write a folder of models, each with its class and its metadata."""
    (folder / "doubling.py").write_text(PROGRAM)
    for name, settings in models.items():
        of_model = {"name": name, "implementation": "doubling.Doubling", **settings}
        (folder / name).mkdir()
        (folder / name / "model-settings.json").write_text(json.dumps(of_model))
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Serve a model with metadata, one without, one with wrong ones, and one that fails."""
    folder = lay_out(
        tmp_path_factory.mktemp("mlserver"),
        described=DESCRIBED,
        plain={},
        mistaken={"inputs": [X], "outputs": [{**Y, "shape": [4]}]},
        failing={"implementation": "doubling.Failing", **DESCRIBED},
    )
    with mlserver(folder, "/v2/health/ready") as stack:
        yield stack


def rules(run: LoadRun) -> set[str]:
    """Return the rules that the verdict of the one scenario names."""
    (scenario,) = run.scenarios
    return {each.rule for each in scenario.verdict.reasons + scenario.verdict.cautions}


@BOTH
def test_a_described_model_is_measured(server: Stack, protocol: str) -> None:
    """Every reply is good, and the result names server and tensors."""
    run = measure(a_plan(server.url(protocol), CLOSED, model="described"))
    assert run.outcome.message == ""
    assert run.scenarios[0].steps[0].counts.errors == {}
    assert run.environment is not None
    assert run.environment.server.name == "mlserver"
    assert run.environment.server.tensors == ("Binary" if protocol == "GRPC" else "Json")


def test_json_is_noted_and_binary_is_tried(server: Stack) -> None:
    """MLServer does not list the extension for binary tensors, and fails in its own words."""
    plan = a_plan(server.url("HTTP"), CLOSED, model="described")
    notes = [note for note in noted(measure(plan)) if "binary_tensor_data" in note]
    assert len(notes) == 1
    run = measure(a_plan(server.url("HTTP"), CLOSED, model="described", load={"tensors": "Binary"}))
    assert (run.exit_code, run.outcome.reason) == (2, "RequestRefused")
    assert "HTTP status 500 Internal Server Error: Traceback" in run.outcome.message
    assert run.outcome.message.endswith("invalid start byte.")


def noted(run: LoadRun) -> list[str]:
    """Return the notes of a run's environment."""
    return [] if run.environment is None else run.environment.notes


@BOTH
def test_a_model_without_metadata_needs_declared_inputs(server: Stack, protocol: str) -> None:
    """Without them the run is refused with that advice; with them it is measured."""
    url = server.url(protocol)
    refused = measure(a_plan(url, CLOSED, model="plain"))
    assert (refused.exit_code, refused.outcome.reason) == (2, "InputRefused")
    assert "Declare what to send, for example as spec.model.inputs" in refused.outcome.message
    for declared in ({"inputs": [X]}, {"inputs": [X], "outputs": [Y]}):
        run = measure(a_plan(url, CLOSED, spec={"model": {"name": "plain", **declared}}))
        assert run.outcome.message == ""
        assert run.scenarios[0].steps[0].counts.errors == {}


def test_a_shape_that_all_replies_share_is_a_caution(server: Stack) -> None:
    """Both shapes are in the sentence, and no reply counts as an error."""
    run = measure(a_plan(server.url("HTTP"), CLOSED, model="mistaken"))
    step = run.scenarios[0].steps[0]
    assert step.counts.errors == {}
    assert step.output_deviations == [
        "The output 'y' has the shape [1, 4] in every reply, where the metadata say [4]."
    ]
    assert "OutputShape" in rules(run)


def test_an_unhandled_error_is_counted_once(server: Stack) -> None:
    """Each failure is one error of kind status with its cause; the query behind it is sent again.

    uvicorn closes the connection behind an unhandled exception without announcing it.
    """
    run = measure(a_plan(server.url("HTTP"), CLOSED, model="failing", validity={"minQueries": 200}))
    (scenario,) = run.scenarios
    counts = scenario.steps[0].counts
    assert set(counts.errors) == {"status"}
    # The numbers of the first three queries are not measured.
    assert abs(counts.errors["status"] - counts.queries / 20) <= 1
    (example,) = scenario.steps[0].error_examples
    assert "the cause of the failure" in example.message
    assert {"ErrorRate"} <= rules(run)
    assert (counts.resent > 0) == bool({"TooManyResent", "QueriesResent"} & rules(run))


def test_one_unready_model_blocks_no_other(tmp_path: Path) -> None:
    """The server is not ready because of another model: the run goes on with a caution."""
    unready = {"implementation": "doubling.Unready", **DESCRIBED}
    folder = lay_out(tmp_path, described=DESCRIBED, other=unready)
    with mlserver(folder, "/v2/models/described/ready") as stack:
        url = stack.url("HTTP")
        external = {"runtime": "External", "external": {"url": url}, "readyDeadlineSeconds": 4}
        run = measure(a_plan(url, CLOSED, model="described", spec={"server": external}))
        lost = measure(a_plan(url, CLOSED, model="other", spec={"server": external}))
    assert "ServerNotReady" in rules(run)
    assert (lost.exit_code, lost.outcome.reason) == (1, "ServerNotReady")
    assert "to GET /v2/health/ready" in lost.outcome.message


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_within_the_deadline_is_measured_through(
    tmp_path: Path, number: signal.Signals
) -> None:
    """The lost queries are errors of the connection, and the run goes on with the new process."""
    folder = lay_out(tmp_path, described=DESCRIBED)
    with mlserver(folder, "/v2/health/ready") as stack:
        plan = a_plan(
            stack.url("HTTP"),
            {"server": {"targetQps": 20}},
            model="described",
            load={"reconnectDeadlineSeconds": 60, "requestTimeoutMilliseconds": 60_000},
            validity={"minDurationSeconds": 30, "maxDurationSeconds": 120},
        )

        def restart() -> None:
            stack.stop(number)
            stack.start("/v2/health/ready")

        run = measured_across(plan, restart)
    assert run.outcome.state == "Complete", run.outcome
    counts = run.scenarios[0].steps[0].counts
    assert set(counts.errors) <= {"connection", "status"}
    assert counts.queries == counts.scheduled
    assert counts.reconnects > 0
    assert counts.succeeded > counts.failed
