"""Times of steps are those of the samples that passed them, and hold no waits."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_tasks.assets import Assets
from inferometer_tasks.errors import SampleError
from inferometer_tasks.pipeline import StepTimes, TaskPipeline
from inferometer_tasks.python_steps import PythonSteps
from inferometer_tasks.sample import Sample

HEAD = {
    "apiVersion": "inferometer.dev/v1alpha1",
    "kind": "ModelManifest",
    "name": "m",
    "version": "1.0.0",
    "license": "MIT",
    "framework": {"name": "onnxruntime"},
}
NORMALIZED = {"name": "a", "steps": [{"normalize": {}}, {"reshape": {"shape": [2]}}]}


def a_pipeline(*inputs: dict[str, Any]) -> TaskPipeline:
    """Return steps whose clock has advanced by 1 at each look."""
    manifest = ModelManifest.model_validate(
        HEAD | {"inputs": list(inputs), "outputs": [{"name": "out", "steps": [{"softmax": {}}]}]}
    )
    looks = count()
    return TaskPipeline(manifest, Assets(manifest, Path()), StepTimes(lambda: next(looks)))


def test_a_mean_is_that_of_the_samples_that_passed_the_step() -> None:
    """Samples that fail before a step or in it, or later, do not change its mean."""
    pipeline = a_pipeline(NORMALIZED)
    assert pipeline.mean_times() == {}
    for values in ([1, 2], [3, 4], [1, 2, 3]):
        sample = Sample("1", np.array(values))
        if len(values) == 3:
            with pytest.raises(SampleError):
                pipeline.inputs(sample)
        else:
            pipeline.inputs(sample)
    assert pipeline.mean_times() == {"normalize": 1, "reshape": 1}
    pipeline.prediction({"out": np.zeros(2)}, Sample("1", np.zeros(2)))
    assert list(pipeline.mean_times().items()) == [("normalize", 1), ("reshape", 1), ("softmax", 1)]


def test_a_step_of_two_inputs_counts_twice_in_a_sample() -> None:
    """The mean is per sample, not per run of the step."""
    pipeline = a_pipeline(NORMALIZED, {"name": "b", "steps": [{"normalize": {}}]})
    for _ in range(3):
        pipeline.inputs(Sample("1", np.array([1, 2])))
    assert pipeline.mean_times() == {"normalize": 2, "reshape": 1}


def test_no_time_is_lost_between_threads() -> None:
    """Each of 4,000 runs of the step counts."""
    pipeline = a_pipeline({"name": "a", "steps": [{"normalize": {}}]})
    sample = Sample("1", np.array([1.0]))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: pipeline.inputs(sample), range(4000)))
    assert pipeline.times.counts["normalize"] == 4000


def test_a_wait_is_no_time_of_a_step(tmp_path: Path) -> None:
    """A thread that waits for the other samples' threads is like one that sleeps."""
    sleep = "import time\ndef preprocess(context, sample):\n    time.sleep(0.1)\n    return {}\n"
    manifest = ModelManifest.model_validate(
        HEAD | {"inputs": [{"name": "a"}], "outputs": [{"name": "out"}], "preprocess": sleep}
    )
    pipeline = PythonSteps(manifest, Assets(manifest, tmp_path))
    began = time.thread_time_ns()
    pipeline.inputs(Sample("1", b""))
    assert pipeline.mean_times()["preprocess"] <= time.thread_time_ns() - began
