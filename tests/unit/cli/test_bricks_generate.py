"""`inferometer bricks generate` counts the bricks of models."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from inferometer_cli.commands.bricks import generate
from support.layer_graphs import Node, layer_graph


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([("a", [0], [1]), ("a", [1], [2])], "1 of 2 bricks are unique (50 %)."),
        ([], "There is no layer: the models hand out what they are given."),
    ],
)
def test_a_model_may_have_no_layer(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    nodes: Sequence[Node],
    words: str,
) -> None:
    """A model that hands out its input has no brick, and no share of unique ones."""
    model = tmp_path / "net.onnx"
    model.touch()
    monkeypatch.setattr(generate, "describe_models", lambda *_: [layer_graph(*nodes, model="net")])
    generate.generate([str(model)])
    assert words in capsys.readouterr().out
