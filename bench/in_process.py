"""Time of session.run in a process of its own.

    python -m bench.in_process --model resnet50.onnx --threads 1

For each line {"inferences": 10} on standard input it answers with the median
latency and the CPU time of one: {"medianSeconds": 0.04, "cpuSeconds": 0.04}.
"""

import argparse
import json
import sys
from statistics import median
from time import perf_counter, process_time

import onnxruntime  # type: ignore[import-untyped]  # ships no types
from bench.model_files import seeded_image

WARM_RUNS = 3


def main() -> None:
    """Answer until standard input ends."""
    parser = argparse.ArgumentParser(description="Time session.run on an image.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        arguments.model, options, providers=["CPUExecutionProvider"]
    )
    [image] = session.get_inputs()
    inputs = {image.name: seeded_image((1, *image.shape[1:]))}
    for _ in range(WARM_RUNS):
        session.run(None, inputs)
    for line in sys.stdin:
        seconds = []
        cpu = process_time()
        for _ in range(json.loads(line)["inferences"]):
            started = perf_counter()
            session.run(None, inputs)
            seconds.append(perf_counter() - started)
        cpu = process_time() - cpu
        figures = {"medianSeconds": median(seconds), "cpuSeconds": cpu / len(seconds)}
        sys.stdout.write(json.dumps(figures) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
