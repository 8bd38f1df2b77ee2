"""Runs of a model by ONNX Runtime alone, with its profiler and without, in a process of its own.

    python -m bench.bare_runs --openings 3 --runs 6 resnet18.onnx

It prints the ns of each run and of its partner under the profiler, for each pair of sessions:
[{"plain": [...], "profiled": [...]}, ...].
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types

_WARM_RUNS = 3
_TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def main() -> None:
    """Run the model of the command line."""
    parser = argparse.ArgumentParser(description="Run a model by ONNX Runtime alone, one thread.")
    parser.add_argument("--openings", type=int, required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("model")
    arguments = parser.parse_args()
    pairs = [_paired(arguments.model, arguments.runs) for _ in range(arguments.openings)]
    print(json.dumps(pairs))


def _paired(model: str, runs: int) -> dict[str, list[int]]:
    with TemporaryDirectory(prefix="inferometer-bench-") as folder:
        options = onnxruntime.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        ways = {"plain": opened(model, onnxruntime.SessionOptions())}
        ways["profiled"] = opened(model, options)
        found: dict[str, list[int]] = {name: [] for name in ways}
        for number in range(_WARM_RUNS + runs):
            # Whichever runs first finds the caches as the other one left them.
            for name in sorted(ways, reverse=number % 2 == 0):
                began = perf_counter_ns()
                ways[name]()
                found[name].append(perf_counter_ns() - began)
    return {name: times[_WARM_RUNS:] for name, times in found.items()}


def opened(model: str, options: Any) -> Callable[[], object]:
    """Return a call that infers once, with one row of random inputs."""
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    generator = np.random.default_rng(0)
    inputs = {}
    for each in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in each.shape]
        values = generator.random(shape)
        inputs[each.name] = values.astype(_TYPES[each.type])
    return lambda: session.run(None, inputs)


if __name__ == "__main__":
    main()
