"""Models that ONNX Runtime alone opens and runs, one after the other, in a process of its own.

    python -m bench.model_runs --runs 23 resnet18.onnx vgg11.onnx

It prints the ns of each model's runs, by its path: {"resnet18.onnx": [...], ...}.
"""

import argparse
import json
from time import perf_counter_ns

import onnxruntime  # type: ignore[import-untyped]  # ships no types
from bench.bare_runs import opened


def main() -> None:
    """Run the models of the command line."""
    parser = argparse.ArgumentParser(description="Run models by ONNX Runtime alone, one thread.")
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    print(json.dumps({each: _times_ns(each, arguments.runs) for each in arguments.models}))


def _times_ns(model: str, runs: int) -> list[int]:
    infer = opened(model, onnxruntime.SessionOptions())
    times_ns = []
    for _ in range(runs):
        began_ns = perf_counter_ns()
        infer()
        times_ns.append(perf_counter_ns() - began_ns)
    return times_ns


if __name__ == "__main__":
    main()
