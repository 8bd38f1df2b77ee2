"""The server's engine on a real GPU: outputs, placement, profiles with kernels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferometer_fetch.built_in import cached_model, zoo_cache
from inferometer_models import zoo
from inferometer_models.graph_file import GraphFile, read_graph
from inferometer_serving.gpu.device import GpuDevice
from inferometer_serving.model.onnx_runtime import load
from inferometer_serving.model.session import EngineSettings, Interrupt, Session
from inferometer_serving.options import Device, ServeOptions
from inferometer_serving.profile.profiler import ProfileRequest, model_inputs, profile

_MAX_BYTES = 1 << 30
_MODELS = (
    "classification/mobilenet_v2",
    "classification/resnet50",
    "classification/squeezenet1_1",
    "segmentation/unet",
    "text/minilm_l6",
)
_TF32_ERROR = 5e-3
"""Of the largest output: TF32, which the provider uses, keeps 10 bits of the mantissa."""

pytestmark = pytest.mark.usefixtures("cuda_provider")


def _file(name: str) -> Path:
    return cached_model(zoo.entry(name), zoo_cache())


def _session(file: Path, device: Device) -> Session:
    graph: GraphFile = read_graph(file, max_bytes=_MAX_BYTES)
    return load(graph, EngineSettings(device=device), Interrupt())


@pytest.mark.parametrize("name", _MODELS)
def test_outputs_on_the_gpu_are_those_of_the_cpu(cuda_provider: str, name: str) -> None:
    """Within the rounding of TF32, and the provider that ran the nodes is read back."""
    file = _file(name)
    on_cpu, on_gpu = (_session(file, device) for device in (Device.CPU, Device.GPU))
    inputs = model_inputs(on_cpu, ServeOptions(file, name), batch_size=1)
    names = [each.name for each in on_cpu.signature.outputs]
    expected = on_cpu.runner.run(names, inputs)
    for found, exact in zip(on_gpu.runner.run(names, inputs), expected, strict=True):
        wanted = exact.astype(np.float64)
        error = np.abs(found.astype(np.float64) - wanted).max()
        assert error <= _TF32_ERROR * np.abs(wanted).max()
    assert on_gpu.facts["provider"] == "CUDA"
    assert on_gpu.placement.nodes_by_provider[cuda_provider] > 0
    assert on_gpu.placement.compute_nodes_fell_back == 0


@pytest.fixture(scope="module")
def profiles() -> dict[str, dict[str, Any]]:
    """Keep the profiles of the tests."""
    return {}


def _profile(kept: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    if name not in kept:
        options = ServeOptions(_file(name), name, device=Device.GPU, profiling=True)
        kept[name] = profile(options, ProfileRequest(iterations=10), Interrupt())
    return kept[name]


@pytest.mark.parametrize("name", ["classification/squeezenet1_1", "text/minilm_l6"])
def test_a_profile_has_the_kernels_of_its_layers(
    gpu: GpuDevice, profiles: dict[str, dict[str, Any]], name: str
) -> None:
    """Kernels belong to layers, run in every run, and fit into their serialized layers."""
    found = _profile(profiles, name)
    assert found["kernelsMissing"] == ""
    assert found["gpu"]["name"] == gpu.name
    kernels = [each for each in found["kernels"] if each["kind"] == "Kernel"]
    assert kernels
    assert all(each["layer"] is not None for each in kernels)
    assert {len(each["durationsNanoseconds"]) for each in kernels} == {10}
    on_gpu: dict[int, int] = {}
    for each in kernels:
        took = min(each["durationsNanoseconds"])
        on_gpu[each["layer"]] = on_gpu.get(each["layer"], 0) + took
        assert 0 < each["theoreticalOccupancy"] <= 1
    for layer in found["layers"]:
        assert max(layer["durationsNanoseconds"]) > on_gpu.get(layer["index"], 0)
    assert sum(on_gpu.values()) < min(found["modelNanoseconds"])


def test_profilers_slow_down_only_their_own_runs(
    gpu: GpuDevice, profiles: dict[str, dict[str, Any]]
) -> None:
    """Inferences without a profiler are the fastest: each level runs in a process of its own."""
    found = _profile(profiles, "classification/squeezenet1_1")
    fastest = min(found["modelNanoseconds"])
    assert fastest < min(found["profiledNanoseconds"])
    assert fastest < min(found["kernelProfiledNanoseconds"])
    assert gpu.multiprocessors == found["gpu"]["multiprocessors"]
