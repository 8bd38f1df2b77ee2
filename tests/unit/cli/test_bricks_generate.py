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


@pytest.mark.parametrize(("granularity", "chains"), [(1, 0), (2, 1)])
def test_an_export_of_chains_says_what_they_show(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    granularity: int,
    chains: int,
) -> None:
    """Bricks of one layer show no order; those of two show what follows what."""
    model = tmp_path / "net.onnx"
    model.touch()
    graph = layer_graph(("a", [0], [1]), ("b", [1], [2]), model="net")
    monkeypatch.setattr(generate, "describe_models", lambda *_: [graph])
    generate.export([str(model)], output=tmp_path / "s.json", granularity=granularity)
    shown = capsys.readouterr().err
    assert ("1 are chains of layers: they show what follows" in shown) == bool(chains)
