"""Models that cannot be opened or described by the protocol are refused with the cause."""

from pathlib import Path

import pytest
from onnx import ModelProto

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph
from inferometer_serving.model.engines import open_session
from inferometer_serving.model.session import EngineSettings, Interrupt
from inferometer_serving.options import EngineName
from support import onnx_models


@pytest.mark.parametrize(
    ("model", "sentences"),
    [
        (onnx_models.zip_map(), ("'y'", "seq(map(", "options={'zipmap': False}")),
        (onnx_models.sequence(), ("'y'", "seq(tensor(", "each output is one tensor")),
        (onnx_models.sequence_input(), ("'x'", "seq(tensor(", "each input is one tensor")),
        (
            onnx_models.relu_of_opset_1(),
            ("operator Relu of opset 1", "for the types of its tensors: export the model for a"),
        ),
        (onnx_models.with_versions(opset=None), ("does not say which opset it uses: export",)),
        (onnx_models.with_versions(opset=99), ("uses opset 99 of ai.onnx", "or lower")),
        (onnx_models.with_versions(ir_version=99), ("has IR version 99", "or lower")),
        (
            onnx_models.unsupported_operator(),
            ("com.example:Frobnicate", "it is a custom operator of com.example"),
        ),
    ],
    ids=[
        "zipmap",
        "sequence",
        "sequence-input",
        "old-opset",
        "no-opset",
        "opset",
        "ir-version",
        "custom-operator",
    ],
)
def test_the_cause_is_named(tmp_path: Path, model: ModelProto, sentences: tuple[str, ...]) -> None:
    """The message names what the model has that cannot be served, and how to do without it."""
    graph = read_graph(onnx_models.save(model, tmp_path / "m.onnx"), max_bytes=1 << 20)
    with pytest.raises(ModelRefusedError) as refused:
        open_session(EngineName.ONNX_RUNTIME, graph, EngineSettings(), Interrupt())
    for sentence in sentences:
        assert sentence in str(refused.value)
