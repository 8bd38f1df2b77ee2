"""The case start-up: how long our server takes from process start to ready, without its session."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import onnx
from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.processes import BenchError, start_child
from onnx import TensorProto, helper, numpy_helper

_OURS, _PLAIN = "Inferometer", "plain Python"
_START, _WHOLE = "process start to ready, without the session", "process start to ready"
_MS = Unit(" ms", 0)
_WIDTH = 1600
_PLAIN_PROGRAM = """
import json, sys, time
import onnxruntime
began = time.perf_counter()
onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
print(json.dumps({"sessionMilliseconds": 1e3 * (time.perf_counter() - began)}), flush=True)
sys.stdin.read()
"""


def _write_model(path: Path) -> None:
    """Write a product with 10 MB of weights."""
    weights = np.random.default_rng(0).standard_normal((_WIDTH, _WIDTH), np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, _WIDTH]) for name in ("x", "y")
    ]
    graph = helper.make_graph(
        [node], "g", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")]
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    model = place.folder / "model.onnx"
    _write_model(model)
    turns = {_OURS: partial(_start_ours, place, model), _PLAIN: partial(_start_plain, place, model)}
    for side in sides:
        turns[side]()  # the files of interpreter, libraries and model are in memory from now on
    yield {side: turns[side] for side in sides}


def _start_ours(place: Place, model: Path) -> Figures:
    command = [
        *(sys.executable, "-m", "inferometer_serving", "--model", str(model)),
        *("--threads", "1", "--start-up-report", "on"),
    ]
    began = time.perf_counter()
    with start_child("Inferometer's server", command, core=None, folder=place.folder) as child:
        port = child.read()["httpPort"]
        if child.read().get("event") != "ready":
            raise BenchError(f"Inferometer's server was never ready: {child.last_words()}")
        whole = 1e3 * (time.perf_counter() - began)
        return _figures(whole, _session_milliseconds(port, model.stem))


def _session_milliseconds(port: int, model: str) -> float:
    """Return how long the server took to create its session, by its own report."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", f"/v2/models/{model}/config")
        config = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    phases = json.loads(config["parameters"]["inferometer.start_up"]["string_value"])
    (session,) = (each for each in phases if each["name"] == "sessionCreated")
    return float(session["endMicroseconds"] - session["startMicroseconds"]) / 1e3


def _start_plain(place: Place, model: Path) -> Figures:
    began = time.perf_counter()
    command = [sys.executable, "-c", _PLAIN_PROGRAM, str(model)]
    with start_child(_PLAIN, command, core=None, folder=place.folder) as child:
        session = child.read()["sessionMilliseconds"]
        return _figures(1e3 * (time.perf_counter() - began), session)


def _figures(whole_milliseconds: float, session_milliseconds: float) -> Figures:
    return {_START: whole_milliseconds - session_milliseconds, _WHOLE: whole_milliseconds}


START_UP = Case(
    name="start-up",
    title="How long the server takes to start",
    text="""\
A model with one matrix product and 10 MB of weights. Each turn starts a fresh process, with the
files of interpreter, libraries and model in memory, and lasts from the start of the process to
the line on its standard output that says it is ready: the interpreter, imports, listening on both
ports, reading and checking the model, the session, a warm-up. *Without the session* leaves out
what creating ONNX Runtime's session takes, by the process's own clock; that part is the model's.

The peer is the least that a server in Python can take: a process that imports ONNX Runtime,
creates the same session and does nothing else. The goal is 0.5 s without the session.""",
    commands=(
        ".venv/bin/python bench/run.py --case start-up",
        "",
        "# which imports take how long",
        ".venv/bin/python -X importtime -m inferometer_serving --model model.onnx",
    ),
    sides=(Side(_OURS), Side(_PLAIN)),
    stage=_stage,
    rows=(
        Row(
            _START.capitalize(),
            Source(_OURS, _START),
            _MS,
            Source(_PLAIN, _START),
            (Bound("figure", "at most", 500),),
        ),
        Row(_WHOLE.capitalize(), Source(_OURS, _WHOLE), _MS, Source(_PLAIN, _WHOLE)),
    ),
    minutes=0.5,
    rounds=5,
    is_pinned=False,
)
