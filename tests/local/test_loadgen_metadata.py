"""A server with unexpected metadata is measured, or refused in a sentence."""

import json
from typing import Any

import pytest

from support.load_runs import a_plan, measure
from support.oracle_http import MODEL
from support.oracle_process import oracle_process
from support.oracle_script import Script, delayed

CLOSED: dict[str, Any] = {"singleStream": {}}
SERVER, MODEL_PATH = "/v2", f"/v2/models/{MODEL}"
CONFIG = f"{MODEL_PATH}/config"
TENSOR = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
DEEP = "[" * 2000 + "]" * 2000


@pytest.mark.parametrize(
    ("path", "document", "reason", "words"),
    [
        (SERVER, "[1]", "ServerNotReady", "did not describe itself: its metadata is a list of 1"),
        (SERVER, '{"name": 1}', "ServerNotReady", "did not describe itself: its name is 1"),
        (SERVER, DEEP, "ServerNotReady", "did not describe itself: "),
        (MODEL_PATH, "[]", "ModelRefused", "does not describe its model 'oracle' as the Open Inf"),
        (MODEL_PATH, '{"inputs": ["x"]}', "ModelRefused", 'one of its inputs is "x"'),
        (
            MODEL_PATH,
            json.dumps({"inputs": [{**TENSOR, "shape": [-1, 10**12]}]}),
            "InputRefused",
            "4000000000000 bytes",
        ),
    ],
)
def test_metadata_of_an_unexpected_form_are_reported_in_a_sentence(
    path: str, document: str, reason: str, words: str
) -> None:
    """It says what was read, and nothing is sent."""
    with oracle_process(Script(documents={path: document})) as oracle:
        run = measure(a_plan(oracle.url("HTTP"), CLOSED))
        assert oracle.received == 0
    assert run.outcome.reason == reason
    assert words in run.outcome.message


def test_a_server_without_metadata_of_its_own_is_measured() -> None:
    """The model's metadata suffice; without extensions the tensors are JSON."""
    with oracle_process(Script(redirects={SERVER: (404, "")})) as oracle:
        run = measure(a_plan(oracle.url("HTTP"), CLOSED))
    assert run.environment is not None
    assert run.environment.server.name == ""


def test_a_server_that_sends_null_for_what_it_leaves_out_is_measured() -> None:
    """As those do that are written with pydantic."""
    documents = {
        SERVER: {"name": None, "version": None, "extensions": None},
        MODEL_PATH: {"versions": None, "inputs": [TENSOR], "outputs": None, "platform": None},
        CONFIG: {"parameters": None},
    }
    with oracle_process(
        Script(documents={path: json.dumps(each) for path, each in documents.items()})
    ) as oracle:
        run = measure(a_plan(oracle.url("HTTP"), CLOSED))
    assert run.outcome.message == ""
    assert run.environment is not None
    assert run.environment.server.settings == {}


@pytest.mark.parametrize(
    "config", ["[]", DEEP, '{"parameters": ["a"]}', '{"parameters": {"a": "b"}}']
)
def test_a_configuration_that_becomes_unreadable_loses_nothing(config: str) -> None:
    """It is read again at the end, when everything was measured."""
    turning = delayed(0.002, settings={}, changes={10: {"documents": {CONFIG: config}}})
    with oracle_process(turning) as oracle:
        run = measure(a_plan(oracle.url("HTTP"), CLOSED, validity={"minQueries": 50}))
    assert run.outcome.message == ""
    assert run.scenarios[0].steps[0].counts.succeeded > 10


@pytest.mark.parametrize(("tensors", "is_caution"), [("Binary", True), ("Json", False)])
def test_json_in_reply_to_binary_requests_is_a_caution(tensors: str, *, is_caution: bool) -> None:
    """A server that ignores the wish is measured, and the result says so."""
    with oracle_process(delayed(0.002, faults=("json",))) as oracle:
        plan = a_plan(
            oracle.url("HTTP"), CLOSED, load={"tensors": tensors}, validity={"minQueries": 50}
        )
        run = measure(plan)
    (scenario,) = run.scenarios
    assert run.environment is not None
    assert run.environment.server.tensors == tensors
    assert scenario.steps[0].counts.errors == {}
    assert (scenario.steps[0].json_replies > 0) is is_caution
    assert ("JsonReplies" in {each.rule for each in scenario.verdict.cautions}) is is_caution


def test_a_model_without_metadata_is_measured_with_declared_inputs() -> None:
    """Without them the run is refused with what to declare; the reply is checked by its data."""
    bare = Script(documents={MODEL_PATH: json.dumps({"name": MODEL, "inputs": [], "outputs": []})})
    with oracle_process(bare) as oracle:
        refused = measure(a_plan(oracle.url("HTTP"), CLOSED))
        assert refused.outcome.reason == "InputRefused"
        assert "Declare what to send, for example as spec.model.inputs" in refused.outcome.message
        declared = {"model": {"name": MODEL, "inputs": [TENSOR]}}
        run = measure(a_plan(oracle.url("HTTP"), CLOSED, spec=declared))
    assert run.outcome.message == ""
    assert run.scenarios[0].steps[0].counts.errors == {}


def test_a_shape_that_all_replies_share_is_a_caution_of_the_metadata() -> None:
    """No reply is an error, and the sentence has both shapes."""
    with oracle_process(delayed(0.002, faults=("shapes",))) as oracle:
        run = measure(a_plan(oracle.url("HTTP"), CLOSED, validity={"minQueries": 50}))
    (scenario,) = run.scenarios
    assert scenario.steps[0].counts.errors == {}
    (sentence,) = scenario.steps[0].output_deviations
    assert (
        sentence
        == "The output 'y' has the shape [4] in every reply, where the metadata say [-1, 4]."
    )
    assert "OutputShape" in {each.rule for each in scenario.verdict.cautions}
