"""A crash of an engine costs the item that it was in, and no other."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

CRASH = "import ctypes, faulthandler; faulthandler.disable(); ctypes.string_at(0)"
WITH_A_CRASHING_ENGINE = f"""
import sys
from inferometer_serving.layers import __main__, kernels
from inferometer_serving.options import EngineName

class Crashing(kernels.OnnxKernels):
    def __init__(self, made, settings):
        if "Conv" in made.model.graph.node[0].op_type:
            {CRASH}
        super().__init__(made, settings)

kernels.KERNELS[EngineName.ONNX_RUNTIME] = Crashing
sys.exit(__main__.main(sys.argv[1:]))
"""
WITH_CRASHING_ITEMS = f"""
import json, signal, sys
from inferometer_serving.layers.attempts import run_attempts
from inferometer_serving.layers.timing import Item, time_items

class Value:
    inputs = ()

    def run(self):
        pass

def crash():
    {CRASH}

def never_end():
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    while True:
        pass

def work(attempt):
    opens = {{"first": crash, "second": Value, "third": crash, "fourth": never_end}}
    items = [Item(name, opens[name], rounds_wanted=3) for name in opens]
    time_items(items, lambda *_: None, attempt=attempt)
    print(json.dumps({{each.name: [each.failure, each.runs > 0] for each in items}}))
    return 7

sys.exit(run_attempts(work))
"""
WITH_A_SIGNAL = """
import os, sys
from inferometer_serving.layers.attempts import run_attempts

def work(attempt):
    attempt.opening({opening!r})
    os.kill(os.getpid(), {signal})

sys.exit(run_attempts(work))
"""


def test_an_item_that_crashes_is_left_out_with_the_reason() -> None:
    """Three of four items end the process; the other has its rounds, and no round is lost."""
    done = subprocess.run(
        [sys.executable, "-c", WITH_CRASHING_ITEMS], check=False, capture_output=True, text=True
    )
    assert done.returncode == 7
    reason = "It ended the engine's process (SIGSEGV)."
    assert json.loads(done.stdout) == {
        "first": [reason, False],
        "second": ["", True],
        "third": [reason, False],
        "fourth": ["It has not ended in time.", False],
    }


def test_layers_and_models_are_timed_without_the_layer_that_crashes(tmp_path: Path) -> None:
    """The document names the layer; a caller sees no crash."""
    model = tmp_path / "net.onnx"
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 6, 6])],
        [numpy_helper.from_array(np.ones((2, 3, 1, 1), np.float32), "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), model)
    done = subprocess.run(
        [sys.executable, "-c", WITH_A_CRASHING_ENGINE, "measure", str(model), "--kind", "Kernels"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    layers = found["graphs"][0]["layers"]
    operators = {key: layer["operator"] for key, layer in layers.items()}
    failed = {each["key"]: each["reason"] for each in found["failed"]}
    assert failed == {
        key: "It ended the engine's process (SIGSEGV)."
        for key, operator in operators.items()
        if "Conv" in operator
    }
    assert failed
    assert "onnxruntime:FP32:1" in found["variants"]


@pytest.mark.parametrize(
    ("opening", "sent"),
    [("", signal.SIGSEGV), ("item", signal.SIGKILL)],
    ids=["a crash outside of items", "a kill from outside"],
)
def test_any_other_end_ends_the_measurement_by_the_same_signal(
    opening: str, sent: signal.Signals
) -> None:
    """It is not tried again."""
    script = WITH_A_SIGNAL.format(opening=opening, signal=int(sent))
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
    assert done.returncode == -sent
