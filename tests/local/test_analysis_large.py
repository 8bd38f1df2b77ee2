"""A graph of 100,000 nodes is described within bounds of time and memory."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from inferometer_api.results.reading import read_result
from support.inferometer_process import started

_NODES = 100_000
_MOST_BYTES = 2 << 30
_MOST_SECONDS = 60


def _write(path: Path) -> Path:
    """Write a chain that no optimisation shortens: operators of one input that do not cancel."""
    operators = ("Sin", "Cos", "Tanh", "Sigmoid")
    nodes = [
        helper.make_node(operators[at % 4], [f"t{at}"], [f"t{at + 1}"], name=f"n{at}")
        for at in range(_NODES)
    ]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4])
        for name in ("t0", f"t{_NODES}")
    ]
    graph = helper.make_graph(nodes, "large", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, path)
    return path


def test_a_graph_of_100_000_nodes_takes_2_gib_and_60_seconds_at_most(
    tmp_path: Path, require_quiet: Callable[[], None]
) -> None:
    """Every layer is found, and the four different ones are separate."""
    path = _write(tmp_path / "large.onnx")
    command = [sys.executable, "-m", "inferometer_serving.layers", "describe", str(path)]
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)  # of this process alone
        seconds = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (tmp_path / "err").read_text()[-2000:]
    found = json.loads((tmp_path / "out").read_text().splitlines()[-1])
    assert len(found["uses"]) == _NODES
    assert len(found["layers"]) == 4
    assert usage.ru_maxrss * 1024 <= _MOST_BYTES
    require_quiet()
    assert seconds <= _MOST_SECONDS


def test_a_graph_of_100_000_nodes_is_profiled_whole(tmp_path: Path) -> None:
    """Every layer is in the result, though the server's answer has tens of megabytes."""
    _write(tmp_path / "large.onnx")
    arguments = ("profile", "large.onnx", "--seconds", "1", "--iterations", "2", "--output", "out")
    disabled = ("--set", "spec.telemetry.power=Disabled")
    with started(tmp_path, *arguments, *disabled) as process:
        ended = process.ended(within_seconds=600)
    assert ended.code in {0, 3}, ended.stderr  # the machine may be busy
    document = read_result((tmp_path / "out" / "result.json").read_bytes(), source="r").document
    profile = document.scenarios[0].steps[0].profile
    assert profile is not None
    assert profile.unavailable.keys() == {"Kernel"}
    assert len(profile.layers) == _NODES
