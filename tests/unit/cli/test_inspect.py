"""`inferometer inspect` shows operators, patterns and weights of models on one page."""

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from support.command import Command
from support.onnx_models import save


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command line in this process."""
    return Command(monkeypatch, capsys)


def _model(blocks: int, name: str = "x<b>") -> ModelProto:
    """Return MatMul and Relu several times over, with weights of which a quarter are zero."""
    weight = np.array([[0.0, 1.0], [-1.0, 0.001]], np.float32)
    nodes = []
    for index in range(blocks):
        nodes += [
            helper.make_node("MatMul", [f"{name}{index}", "weight"], [f"product{index}"]),
            helper.make_node("Relu", [f"product{index}"], [f"{name}{index + 1}"]),
        ]
    ends = (
        helper.make_tensor_value_info(each, TensorProto.FLOAT, ["batch", 2])
        for each in (f"{name}0", f"{name}{blocks}")
    )
    initializers = [numpy_helper.from_array(weight, "weight")]
    graph = helper.make_graph(nodes, "graph", [next(ends)], [next(ends)], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_page_and_the_table_show_what_repeats(inferometer: Command, tmp_path: Path) -> None:
    """One line for each model, one for each pattern; the page has a chart of the weights."""
    files = [str(save(_model(blocks), tmp_path / f"m{blocks}.onnx")) for blocks in (1, 3)]
    page = tmp_path / "page.html"
    ended = inferometer("inspect", *files, "--output", str(page))
    assert ended.code == 0
    assert "MatMul → Relu" in ended.stdout
    rows = [line.split() for line in ended.stdout.splitlines()]
    assert [(row[0], row[1], row[-1]) for row in rows if row[:1] in (["m1"], ["m3"])] == [
        ("m1", "4", "2"),
        ("m3", "4", "6"),
    ]
    content = page.read_text(encoding="utf-8")
    assert "2 models" in content
    assert content.count("<svg") == 2
    assert "MatMul → Relu" in content
    assert content.count("<td>50.0 %</td>") == 4


def test_the_document_has_the_figures(inferometer: Command, tmp_path: Path) -> None:
    """Nothing is written."""
    file = save(_model(2), tmp_path / "model.onnx")
    ended = inferometer("inspect", str(file), "--json")
    document = json.loads(ended.stdout)
    (model,) = document["models"]
    assert (model["name"], model["parameters"], model["operators"]) == ("model", 4, 4)
    assert model["weights"]["zeroShare"] == 0.25
    assert model["weights"]["roundedToZeroShare"] == {"8": 0.5, "4": 0.5}
    assert document["operators"][0] == {"operator": "MatMul", "occurrences": 2, "models": 1}
    assert {"operators": ["MatMul", "Relu"], "occurrences": 2, "models": 1} in document["patterns"]
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


def test_a_file_that_is_no_model_is_left_out_and_alone_refused(
    inferometer: Command, tmp_path: Path
) -> None:
    """The others go on."""
    good = save(_model(2), tmp_path / "good.onnx")
    bad = tmp_path / "bad.onnx"
    bad.write_text("no model")
    page = str(tmp_path / "page.html")
    both = inferometer("inspect", str(bad), str(good), "-o", page)
    assert both.code == 0
    assert f"left out: The file {bad} is not an ONNX model" in both.stderr
    alone = inferometer("inspect", str(bad), "-o", str(tmp_path / "other.html"))
    assert alone.code == 2
    assert "is not an ONNX model" in alone.stderr
    assert not (tmp_path / "other.html").exists()


def test_a_page_that_cannot_be_written_is_a_failure(inferometer: Command, tmp_path: Path) -> None:
    """The message has the path and the reason."""
    file = save(_model(1), tmp_path / "model.onnx")
    ended = inferometer("inspect", str(file), "-o", str(tmp_path / "missing" / "page.html"))
    assert ended.code == 1
    assert "No such file or directory" in ended.stderr
