"""`inferometer cache` measures the forms of a model, and writes the one that it recommends."""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from inferometer_models.graph_file import read_graph
from support.inferometer_process import ran

_WIDTH, _LAYERS = 1024, 4


def _matrix_products(path: Path) -> None:
    """Write a model of matrix products with 16 MiB of weights."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.random((_WIDTH, _WIDTH), np.float32), f"w{index}")
        for index in range(_LAYERS)
    ]
    nodes = [
        helper.make_node("MatMul", [f"x{index}", f"w{index}"], [f"x{index + 1}"])
        for index in range(_LAYERS)
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, _WIDTH])
        for name in ("x0", f"x{_LAYERS}")
    ]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def test_forms_are_measured_and_the_best_is_written(tmp_path: Path) -> None:
    """Every form is opened and timed; memory-mapped weights are shared, those of one file not."""
    _matrix_products(tmp_path / "m.onnx")
    written = tmp_path / "fast"
    ended = ran(tmp_path, "cache", "m.onnx", "--write", str(written), "--json")
    assert ended.code == 0, ended.stderr
    document = json.loads(ended.stdout)
    forms = {each["name"]: each for each in document["forms"]}
    assert [*forms] == ["OneFile", "ExternalData", "MemoryMapped", "SavedPrepacked"]
    for each in forms.values():
        assert each["loadMilliseconds"] > 0
        assert each["fileBytes"] > _LAYERS * _WIDTH**2 * 4
    assert forms["MemoryMapped"]["addedBytes"] < forms["OneFile"]["addedBytes"] / 2
    assert (forms["OneFile"]["files"], forms["MemoryMapped"]["files"]) == (1, 2)
    sharing = document["sharing"]
    constants = {"diskBytesPerSecond", "exportMilliseconds", "openMilliseconds"}
    assert sharing.keys() in (constants, {"unavailable"})
    assert "unavailable" in sharing or all(each > 0 for each in sharing.values())
    assert read_graph(written / "model.onnx", max_bytes=1 << 30).size_bytes > 16 << 20
    again = ran(tmp_path, "cache", "m.onnx", "--write", str(written))
    assert again.code == 2
    assert "exists" in again.stderr
