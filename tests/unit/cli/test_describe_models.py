"""The layers of several models are found by processes that share the models."""

import json
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from inferometer_api.layers.graph import LayerGraph
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.local import layers
from support.layer_graphs import layer_graph

_SETTINGS = layers.LayerSettings()


def _write(path: Path, operator: str) -> Path:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"])], "net", values[:1], values[1:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def _described(paths: Sequence[Path]) -> list[tuple[Path, LayerGraph | str]]:
    found: list[tuple[Path, LayerGraph | str]] = []
    layers.describe_models(paths, _SETTINGS, lambda path, each: found.append((path, each)))
    return found


def test_each_model_is_reported_once_and_a_refused_one_with_its_reason(tmp_path: Path) -> None:
    """A model that cannot be read costs no other one."""
    good = [_write(tmp_path / f"{name}.onnx", name) for name in ("Neg", "Abs", "Exp")]
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    found = _described([good[0], broken, *good[1:]])
    assert len(found) == 4
    for path, each in found:
        if path == broken:
            assert "broken.onnx" in str(each)
        else:
            assert isinstance(each, LayerGraph)
            assert [layer.operator for layer in each.layers.values()] == [path.stem]
    with pytest.raises(RefusedError, match=r"broken\.onnx"):
        layers.describe_model(broken, _SETTINGS)


def test_what_a_process_repeats_after_a_crash_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins anew, without the model that crashed it."""
    document = layer_graph(("Neg", [0], [1])).model_dump_json()
    described = [json.dumps({"event": "described", "model": "a.onnx"}), document]
    refused = json.dumps({"event": "refused", "model": "b.onnx", "reason": "It crashed."})
    lines = [*described, *described, refused]
    text = "\n".join(lines)
    (tmp_path / "crashing.py").write_text(f"print({text!r})\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(layers, "_MODULE", "crashing")
    found = _described([Path("a.onnx")])
    assert [path.name for path, _ in found] == ["a.onnx", "b.onnx"]
    assert found[1][1] == "It crashed."


_KILLED_BY_A_LARGE_MODEL = """
import json, os, sys

for name in sys.argv[2:]:
    if name.startswith("--"):
        break
    if name == "large.onnx":
        os.kill(os.getpid(), 9)
    print(json.dumps({"event": "described", "model": name}))
    print(DOCUMENT, flush=True)
"""


def test_a_process_that_is_killed_costs_one_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that it leaves are described one at a time; the reason names the model."""
    document = layer_graph(("Neg", [0], [1])).model_dump_json()
    script = _KILLED_BY_A_LARGE_MODEL.replace("DOCUMENT", repr(document))
    (tmp_path / "killed.py").write_text(script)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(layers, "_MODULE", "killed")
    names = ["first.onnx", "second.onnx", "large.onnx", *(f"{at}.onnx" for at in range(5))]
    found = {path.name: each for path, each in _described(list(map(Path, names)))}
    assert found.keys() == set(names)
    refused = found.pop("large.onnx")
    assert "large.onnx cannot be found" in str(refused)
    assert "SIGKILL" in str(refused)
    assert all(isinstance(each, LayerGraph) for each in found.values())


def test_a_task_without_built_in_models_is_refused() -> None:
    """The sentence names what lists them."""
    with pytest.raises(RefusedError, match="No built-in model begins with zoo://nosuch/"):
        layers.model_files(["zoo://nosuch/"])


def test_what_a_killed_process_leaves_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its temporary files lie in a folder of the process that started it."""
    text = (
        "import os, pathlib, tempfile\n"
        f"pathlib.Path({str(tmp_path / 'folder')!r}).write_text(tempfile.mkdtemp())\n"
        "os.kill(os.getpid(), 9)\n"
    )
    (tmp_path / "killed.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(layers, "_MODULE", "killed")
    with pytest.raises(FailedError, match="SIGKILL"):
        _described([Path("a.onnx")])
    assert not Path((tmp_path / "folder").read_text()).exists()
