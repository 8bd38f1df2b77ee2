"""Opens a model once in a fresh process, times it, and keeps it open until its input ends.

It prints one line of JSON: `{"loadMilliseconds": ..., "firstMilliseconds": ...,
"steadyMilliseconds": ...}`.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types

from inferometer_serving.infer.datatypes import BY_RUNTIME_NAME
from inferometer_serving.model.onnx_runtime import session_options
from inferometer_serving.model.session import EngineSettings
from inferometer_serving.options import GraphOptimization, OnnxRuntimeChoices


def main() -> int:
    """Open, run, report and wait; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m inferometer_serving.model_forms.probe")
    parser.add_argument("model", type=Path)
    parser.add_argument("--prepacking", choices=("on", "off"), required=True)
    parser.add_argument("--graph-optimization", type=GraphOptimization, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--runs", type=int, required=True)
    given = parser.parse_args()
    choices = OnnxRuntimeChoices(
        graph_optimization=given.graph_optimization, prepacking=given.prepacking == "on"
    )
    options = session_options(EngineSettings(threads=given.threads, onnx_runtime=choices))
    began = time.perf_counter()
    session = onnxruntime.InferenceSession(
        str(given.model), options, providers=["CPUExecutionProvider"]
    )
    load = time.perf_counter() - began
    inputs = {each.name: _sample(each) for each in session.get_inputs()}
    seconds = [_run(session, inputs) for _ in range(given.runs + 1)]
    figures = {
        "loadMilliseconds": load * 1e3,
        "firstMilliseconds": seconds[0] * 1e3,
        "steadyMilliseconds": statistics.median(seconds[1:]) * 1e3,
    }
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    return 0


def _run(session: Any, inputs: dict[str, Any]) -> float:
    began = time.perf_counter()
    session.run(None, inputs)
    return time.perf_counter() - began


def _sample(tensor: Any) -> Any:
    """Return a sample of random values, or ones for integers; open axes have one element."""
    shape = [each if isinstance(each, int) and each > 0 else 1 for each in tensor.shape or ()]
    datatype = np.dtype(BY_RUNTIME_NAME[tensor.type].dtype)
    if datatype.kind == "f":
        return np.random.default_rng(0).random(shape).astype(datatype)
    return np.ones(shape, datatype)


if __name__ == "__main__":
    sys.exit(main())
