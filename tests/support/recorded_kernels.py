"""Kernels of a GPU as CUPTI recorded them on an NVIDIA H200."""

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from inferometer_serving.profile.cupti_trace import read_activity
from inferometer_serving.profile.gpu_activities import ClockReading, Execution, GpuTrace, Launch
from inferometer_serving.profile.occupancy import Multiprocessor

_FILE = Path(__file__).parents[1] / "data/profiles/cupti-h200-squeezenet1_1.json"
H200 = Multiprocessor(threads=2048, registers=65536, blocks=32, reserved_shared_bytes=1024)
RUNS = 3


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
        executions=[each for each in activities if isinstance(each, Execution)],
        before=ClockReading(**document["before"]),
        after=ClockReading(**document["after"]),
        profile_start_ns=document["profile_start_ns"],
        multiprocessor=H200,
    )
