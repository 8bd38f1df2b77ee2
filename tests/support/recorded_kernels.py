"""Kernels of a GPU as CUPTI recorded them on an NVIDIA H200."""

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from inferometer_api.results.result import StepProfile
from inferometer_serving.gpu.activities import GpuActivity, Launch, read_activity
from inferometer_serving.profile.gpu_activities import GpuClockReading, GpuTrace
from inferometer_serving.profile.gpu_kernels import kernels_of
from inferometer_serving.profile.occupancy import Multiprocessor, peaks
from inferometer_serving.profile.onnx_events import profile_of

_FILE = Path(__file__).parents[1] / "data/profiles/cupti-h200-squeezenet1_1.json"
H200 = Multiprocessor(threads=2048, registers=65536, blocks=32, reserved_shared_bytes=1024)
PEAKS = peaks(
    "NVIDIA H200",
    capability=(9, 0),
    multiprocessors=132,
    clock_khz=1_980_000,
    memory_clock_khz=3_201_000,
    bus_bits=6144,
)
RUNS = 3
MODEL_NS = 1_000_000
"""The latency of an inference, which is made up: the recorded runs all had a profiler."""


@cache
def recorded() -> dict[str, Any]:
    """Return three runs of SqueezeNet 1.1: ONNX Runtime's events, and CUPTI's activities.

    `serialized_events` are of three other runs, in which each call waited for its kernel, and
    `nsight_compute` has counters of 60 successive kernels.
    """
    found: dict[str, Any] = json.loads(_FILE.read_text())
    return found


def recorded_trace() -> GpuTrace:
    """Return the trace of the recorded runs."""
    document = recorded()
    activities = [read_activity(SimpleNamespace(**each)) for each in document["activities"]]
    return GpuTrace(
        launches=[each for each in activities if isinstance(each, Launch)],
        executions=[each for each in activities if isinstance(each, GpuActivity)],
        before=GpuClockReading(**document["before"]),
        after=GpuClockReading(**document["after"]),
        profile_start_ns=document["profile_start_ns"],
        multiprocessor=H200,
    )


def recorded_profile() -> StepProfile:
    """Return the recorded runs as the profile of a step."""
    document = recorded()
    kernels, notes = kernels_of(document["events"], RUNS, recorded_trace())
    layers = profile_of(document["serialized_events"], RUNS).layers
    return StepProfile.model_validate(
        {
            "levels": ["Model", "Layer", "Kernel"],
            "modelNanoseconds": [MODEL_NS] * RUNS,
            "profiledNanoseconds": [
                each["dur"] * 1000
                for each in document["serialized_events"]
                if each["name"] == "model_run"
            ],
            "kernelProfiledNanoseconds": [end - begin for begin, end in document["calls_ns"]],
            "layers": [each.to_json(with_tensors=True) for each in layers],
            "kernels": [each.to_json() for each in kernels],
            "gpu": PEAKS.to_json(),
            "notes": list(notes),
        }
    )


def execution(name: str, start_ns: int, end_ns: int) -> GpuActivity:
    """Return a kernel as it ran."""
    return GpuActivity("Kernel", 1, name, start_ns, end_ns, 7)
