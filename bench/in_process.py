"""Time of an engine's inference in a process of its own.

    python -m bench.in_process --model resnet50.onnx --threads 1
    python -m bench.in_process --model resnet50.onnx --runtime OpenVino --precision BF16

For each line {"inferences": 10} on standard input it answers with the median
latency and the CPU time of one: {"medianSeconds": 0.04, "cpuSeconds": 0.04}.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter, process_time

import onnxruntime  # type: ignore[import-untyped]  # ships no types
from bench.model_files import FloatArray, seeded_image

WARM_RUNS = 3


def main() -> None:
    """Answer until standard input ends."""
    parser = argparse.ArgumentParser(description="Time an engine's inference of an image.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runtime", choices=("OnnxRuntime", "OpenVino"), default="OnnxRuntime")
    parser.add_argument("--precision", default="Default")
    arguments = parser.parse_args()
    if arguments.runtime == "OpenVino":
        infer = _open_vino(arguments.model, arguments.threads, arguments.precision)
    else:
        infer = _onnx_runtime(arguments.model, arguments.threads)
    for _ in range(WARM_RUNS):
        infer()
    for line in sys.stdin:
        seconds = []
        cpu = process_time()
        for _ in range(json.loads(line)["inferences"]):
            started = perf_counter()
            infer()
            seconds.append(perf_counter() - started)
        cpu = process_time() - cpu
        figures = {"medianSeconds": median(seconds), "cpuSeconds": cpu / len(seconds)}
        sys.stdout.write(json.dumps(figures) + "\n")
        sys.stdout.flush()


def _onnx_runtime(model: str, threads: int) -> Callable[[], object]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    [image] = session.get_inputs()
    inputs = {image.name: _image(image.shape)}
    return lambda: session.run(None, inputs)


def _open_vino(model: str, threads: int, precision: str) -> Callable[[], object]:
    import openvino  # noqa: PLC0415 - an extra, which only this engine needs

    from inferometer_serving.model.open_vino import properties_of  # noqa: PLC0415 - the same
    from inferometer_serving.model.session import EngineSettings  # noqa: PLC0415 - the same
    from inferometer_serving.options import Precision  # noqa: PLC0415 - the same

    settings = EngineSettings(threads=threads, precision=Precision(precision))
    compiled = openvino.Core().compile_model(model, "CPU", properties_of(settings))
    request = compiled.create_infer_request()
    inputs = {0: _image([each.get_min_length() for each in compiled.input(0).partial_shape])}
    return lambda: request.infer(inputs)


def _image(shape: Sequence[int | str]) -> FloatArray:
    """Return one image of a model whose first axis is the batch."""
    return seeded_image((1, *(int(each) for each in shape[1:])))


if __name__ == "__main__":
    main()
