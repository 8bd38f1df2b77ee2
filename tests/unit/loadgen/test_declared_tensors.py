"""The spec may declare a model's inputs and outputs, which must not contradict its metadata."""

from typing import Any

import pytest

from inferometer_api.results.result import Tensor
from inferometer_api.spec.model import ModelSource
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_loadgen.server.declared_tensors import with_declared_tensors

X = Tensor(name="x", datatype="FP32", shape=[-1, 4])
MASK = Tensor(name="mask", datatype="INT64", shape=[-1])


def described(*inputs: Tensor) -> ServerDescription:
    """Return what a server reports of a model with these inputs."""
    return ServerDescription("s", "1", [], ["1"], list(inputs), [])


def declared(**fields: Any) -> ModelSource:
    """Return the model of a spec."""
    return ModelSource.model_validate({"name": "m", **fields})


def test_declared_tensors_stand_for_missing_metadata() -> None:
    """They are the inputs that are sent and the outputs that are requested."""
    tensor = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
    model = declared(inputs=[tensor], outputs=[{**tensor, "name": "y"}])
    found = with_declared_tensors(described(), model, "h:1")
    assert found.inputs == [X]
    assert [each.name for each in found.outputs] == ["y"]


def test_inputs_that_are_not_declared_are_left_out() -> None:
    """So an optional input of the metadata is not sent."""
    model = declared(inputs=[{"name": "x", "datatype": "FP32", "shape": [1, 4]}])
    found = with_declared_tensors(described(X, MASK), model, "h:1")
    assert [(each.name, each.shape) for each in found.inputs] == [("x", [1, 4])]
    assert with_declared_tensors(described(X, MASK), declared(), "h:1").inputs == [X, MASK]


@pytest.mark.parametrize(
    ("inputs", "found", "words"),
    [
        (None, (), "name no inputs, so no request can be built. Declare what to send"),
        (
            [("q", "FP32")],
            (X, MASK),
            "names 'q', but the inputs in the server's metadata are 'x",
        ),
        ([("x", "FP16")], (X,), "gives 'x' the datatype FP16, but the server's metadata say FP32"),
        ([("x", "FP32"), ("x", "FP32")], (), "spec.model.inputs names 'x' twice"),
    ],
)
def test_a_contradiction_is_refused(
    inputs: list[tuple[str, str]] | None, found: tuple[Tensor, ...], words: str
) -> None:
    """Nothing to send, a name or datatype that the server does not have, and a name twice."""
    tensors = [{"name": name, "datatype": kind, "shape": [1]} for name, kind in inputs or []]
    model = declared() if inputs is None else declared(inputs=tensors)
    with pytest.raises(InputRefusedError) as refused:
        with_declared_tensors(described(*found), model, "h:1")
    assert words in str(refused.value)


def test_a_launched_model_may_have_no_inputs() -> None:
    """The graph itself says so."""
    found = with_declared_tensors(described(), ModelSource(uri="zoo://a/b"), "h:1")
    assert found.inputs == []
