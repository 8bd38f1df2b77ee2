"""Layers by cuDNN, cuBLAS and ONNX Runtime on a real GPU compute what the CPU computes."""

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from inferometer_api.layers.graph import Layer
from inferometer_serving.gpu.activities import ActivityRecorder, record_activities
from inferometer_serving.gpu.device import GpuDevice, GpuUnavailableError, write
from inferometer_serving.gpu.identity import gpu_engine_versions, gpu_machine_name
from inferometer_serving.gpu.libraries import LibraryError, load_library
from inferometer_serving.layers.brick_model import brick_model
from inferometer_serving.layers.gpu.algorithms import Algorithm, GpuKernels, synchronize
from inferometer_serving.layers.gpu.cudnn import Cudnn, CudnnSettings
from inferometer_serving.layers.gpu.device_tensors import DeviceTensors, on_device
from inferometer_serving.layers.gpu.machine import probe_peaks
from inferometer_serving.layers.gpu.measure import has_channels
from inferometer_serving.layers.gpu.onnx_cuda import CudaChoices, open_layer
from inferometer_serving.layers.gpu.problems import Product, problem_of
from inferometer_serving.layers.gpu.product_algorithms import product_algorithms
from inferometer_serving.layers.optimised_graph import load_cuda_libraries
from support.requirements import cannot_run
from support.single_layers import (
    LAYERS,
    computed_on_cpu,
    relative_error,
    single_layer,
    suite_of,
)

_TOLERANCES = {"FP32": 1e-5, "TF32": 2e-3, "FP16": 3e-3}
_NORMALISATION_IN_FP16 = ("normalisation", "FP16")


@pytest.fixture
def recorder(gpu: GpuDevice) -> Iterator[ActivityRecorder]:
    """Record what runs on the GPU; skip without CUPTI."""
    try:
        with record_activities() as opened:
            yield opened
    except GpuUnavailableError as error:
        cannot_run(f"needs CUPTI: {error}")


def _layer(name: str, precision: str) -> Layer:
    operator, shapes, attributes = LAYERS[name]
    datatype = "FLOAT16" if precision == "FP16" else "FLOAT"
    return single_layer(operator, shapes, datatype, **attributes)


def _algorithms(
    layer: Layer, precision: str, resources: ExitStack, *, channels_last: bool
) -> tuple[list[Algorithm], DeviceTensors]:
    problem = problem_of(layer)
    assert problem is not None
    is_half, allows_tf32 = precision == "FP16", precision == "TF32"
    operands = on_device(layer, resources, channels_last=channels_last)
    if isinstance(problem, Product):
        library = load_library("cublasLt")
        return product_algorithms(
            library,
            problem,
            operands,
            is_half=is_half,
            allows_tf32=allows_tf32,
            resources=resources,
        ), operands
    settings = CudnnSettings(is_half, allows_tf32, channels_last)
    return Cudnn(load_library("cudnn"), settings, resources).algorithms(problem, operands), operands


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("precision", ["FP32", "TF32", "FP16"])
@pytest.mark.parametrize("name", LAYERS)
def test_each_algorithm_computes_what_the_cpu_computes(
    gpu: GpuDevice, name: str, precision: str, *, channels_last: bool
) -> None:
    """Every element is written, and is right to within the precision, in both layouts."""
    layer = _layer(name, precision)
    if channels_last and not has_channels(layer):
        return  # it has no channels
    expected = computed_on_cpu(layer)
    if channels_last:
        expected = expected.transpose(0, 2, 3, 1)
    with ExitStack() as resources:
        if (name, precision) == _NORMALISATION_IN_FP16:
            with pytest.raises(LibraryError, match="FP16"):
                _algorithms(layer, precision, resources, channels_last=channels_last)
            return
        algorithms, operands = _algorithms(layer, precision, resources, channels_last=channels_last)
        assert algorithms or channels_last  # cuDNN has not every layout for every layer
        for algorithm in algorithms:
            write(operands.output, np.full(operands.shape, np.nan, operands.dtype))
            algorithm.launch()
            synchronize()
            error = relative_error(operands.result(), expected)
            assert error < _TOLERANCES[precision], algorithm.name


@pytest.mark.usefixtures("cuda_provider")
@pytest.mark.parametrize("name", ["fused convolution with a sum", "Gemm", "softmax"])
def test_a_layer_by_onnx_runtime_runs_kernels_on_the_gpu(
    gpu: GpuDevice, recorder: ActivityRecorder, name: str
) -> None:
    """Its outputs are right, and CUPTI has its kernels with durations."""
    layer = _layer(name, "FP32")
    load_cuda_libraries()
    session = open_layer(brick_model(*suite_of(layer)), CudaChoices(allows_tf32=False))
    kernels = GpuKernels("onnxruntime", "FP32", [Algorithm("", session.run)], recorder, ExitStack())
    for _ in range(5):
        kernels.run()
    found = kernels.timing("key", 4)
    assert relative_error(session.results()[0], computed_on_cpu(layer)) < _TOLERANCES["FP32"]
    assert found.nanoseconds > 0
    assert found.gpu_kernels


def test_the_peaks_of_the_card_and_its_name(gpu: GpuDevice) -> None:
    """Lower precisions multiply faster; the name has model, driver and CUDA."""
    bandwidth, products = probe_peaks(gpu)
    assert bandwidth > 0
    assert products["FP16"] > products["TF32"] > products["FP32"] > 0
    assert gpu.name in gpu_machine_name()
    assert {"onnxruntime", "cudnn", "cublas"} <= set(gpu_engine_versions())
