"""Timings of layers on a GPU, as far as they need none."""

from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from typing_extensions import override

from inferometer_api.layers.variants import ModelVariant
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph
from inferometer_serving.gpu.activities import ActivityRecorder
from inferometer_serving.gpu.device import GpuUnavailableError
from inferometer_serving.gpu.identity import driver_version
from inferometer_serving.gpu.libraries import Library, LibraryError, readable_version
from inferometer_serving.layers.brick_model import brick_model
from inferometer_serving.layers.gpu import algorithms as algorithms_module
from inferometer_serving.layers.gpu.algorithms import Algorithm, GpuKernels, fastest_timing, nearest
from inferometer_serving.layers.gpu.measure import effective_precision, gpu_variant
from inferometer_serving.layers.gpu.onnx_cuda import CudaChoices, open_layer, open_whole
from inferometer_serving.layers.optimised_graph import GraphSettings
from inferometer_serving.layers.reading import describe
from inferometer_serving.layers.rewriting import rewrite
from inferometer_serving.options import Device
from support.recorded_kernels import execution, recorded
from support.single_layers import (
    LAYERS,
    computed_on_cpu,
    relative_error,
    single_layer,
    suite_of,
)

_RECORD: dict[str, Any] = {
    key: value for each in recorded()["activities"] for key, value in each.items()
} | {"copy_kind": 1}
"""A record of CUPTI that has every field."""
_ON_CPU = CudaChoices(provider="CPUExecutionProvider")


class Cupti:
    """Stands for cupti-python: hands over what it is given at the next flush."""

    ActivityThreadIdType = SimpleNamespace(SYSTEM=1)

    def __init__(self) -> None:
        self.pending: list[Any] = []
        self.enabled: set[int] = set()
        self._completed: Any = None

    def activity_register_callbacks(self, requested: Any, completed: Any) -> None:
        """Take what gives a buffer, and what takes records."""
        assert requested()[0] > 0
        self._completed = completed

    def set_thread_id_type(self, kind: int) -> None:
        """Take how threads are named."""

    def activity_enable(self, kind: int) -> None:
        """Record a kind."""
        self.enabled.add(kind)

    def activity_disable(self, kind: int) -> None:
        """Record a kind no longer."""
        self.enabled.remove(kind)

    def activity_flush_all(self, flag: int) -> None:
        """Hand over what is pending."""
        assert flag == 1
        pending, self.pending = self.pending, []
        self._completed(pending)


def _activity(kind: int, start: int, end: int, name: str = "kernel") -> SimpleNamespace:
    return SimpleNamespace(**(_RECORD | {"kind": kind, "start": start, "end": end, "name": name}))


def test_activities_come_in_their_order_and_once() -> None:
    """Kernels keep their names, copies and fills get one; other records are left out."""
    cupti = Cupti()
    recorder = ActivityRecorder(cupti)
    recorder.start()
    assert cupti.enabled == {1, 2, 10}
    cupti.pending = [
        _activity(10, 30, 50, "gemm"),
        _activity(1, 10, 20),
        _activity(4, 0, 99, "launch"),
    ]
    assert [(each.name, each.start_ns, each.end_ns) for each in recorder.take()] == [
        ("Memcpy HtoD", 10, 20),
        ("gemm", 30, 50),
    ]
    assert recorder.take() == []
    recorder.stop()
    assert cupti.enabled == set()


def test_a_refusal_of_cupti_is_a_reason() -> None:
    """Another profiler may have subscribed."""

    class Busy(Cupti):
        """Has a subscriber already."""

        @override
        def activity_enable(self, kind: int) -> None:
            raise RuntimeError("MULTIPLE_SUBSCRIBERS")

    with pytest.raises(GpuUnavailableError, match="MULTIPLE_SUBSCRIBERS"):
        ActivityRecorder(Busy()).start()


def _kernels(
    monkeypatch: pytest.MonkeyPatch, durations: dict[str, list[int]]
) -> tuple[GpuKernels, dict[str, int]]:
    """Return a layer whose algorithms last as long as given, and how often each was launched."""
    monkeypatch.setattr(algorithms_module, "synchronize", lambda: None)
    cupti, launches = Cupti(), dict.fromkeys(durations, 0)
    recorder = ActivityRecorder(cupti)
    recorder.start()

    def launch(name: str) -> None:
        took = durations[name][launches[name]]
        launches[name] += 1
        cupti.pending.append(_activity(10, 100, 100 + took, f"kernel_{name}"))

    algorithms = [Algorithm(name, lambda name=name: launch(name)) for name in durations]  # type: ignore[misc]
    return GpuKernels("cudnn", "TF32", algorithms, recorder, ExitStack()), launches


def test_the_fastest_algorithm_gives_the_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its median, quartiles and kernels; one far from the best is dropped after two runs."""
    kernels, launches = _kernels(
        monkeypatch,
        {"GEMM": [100] * 6, "WINOGRAD": [90, 40, 60, 50, 70, 55], "FFT": [900] * 6},
    )
    for _ in range(6):
        kernels.run()
    found = kernels.timing("key", 5)
    assert (found.algorithm, found.nanoseconds, found.runs) == ("WINOGRAD", 55.0, 5)
    assert found.gpu_kernels == ["kernel_WINOGRAD"]
    assert found.spread_nanoseconds is not None
    assert found.spread_nanoseconds > 0
    assert launches == {"GEMM": 2, "WINOGRAD": 6, "FFT": 2}


def test_what_runs_nothing_on_the_gpu_is_no_timing() -> None:
    """ONNX Runtime may have put it on the CPU."""
    with pytest.raises(RuntimeError, match="Nothing of it ran on the GPU"):
        Algorithm("", lambda: None).add([])


def test_an_engine_without_an_algorithm_says_so() -> None:
    """Every algorithm may have refused the layer's shapes; its tensors are freed."""
    freed: list[str] = []
    resources = ExitStack()
    resources.callback(freed.append, "tensor")
    with pytest.raises(RuntimeError, match="cudnn has no algorithm"):
        GpuKernels("cudnn", "", [], ActivityRecorder(Cupti()), resources)
    assert freed == ["tensor"]


def test_algorithms_near_the_best_are_kept() -> None:
    """One slow run does not drop an algorithm."""
    fast, wavering, slow = (
        Algorithm(name, lambda: None, times)
        for name, times in (("a", [10.0, 11.0]), ("b", [40.0, 14.0]), ("c", [16.0, 17.0]))
    )
    assert nearest([fast, wavering, slow]) == [fast, wavering]


def test_a_timing_names_its_kernels_as_a_profile_does() -> None:
    """In C++, and with whether they use tensor cores."""
    algorithm = Algorithm("", lambda: None)
    algorithm.add(
        [execution(name, 10, 20) for name in ("_Z5scaleIfEvPf", "nvjet_sm90_hsh_64x8_TNT")]
    )
    found = fastest_timing("key", "cublas", "FP16", [algorithm], 1)
    assert found.gpu_kernels == ["scale<float>", "nvjet_sm90_hsh_64x8_TNT"]
    assert found.uses_tensor_cores


@pytest.mark.parametrize(
    ("name", "datatype", "allows_tf32", "expected"),
    [
        ("Gemm", "FLOAT", True, "TF32"),
        ("Gemm", "FLOAT", False, "FP32"),
        ("Gemm", "FLOAT16", True, "FP16"),
        ("softmax", "FLOAT", True, ""),
    ],
)
def test_only_products_of_matrices_have_a_precision(
    name: str, datatype: str, expected: str, *, allows_tf32: bool
) -> None:
    """TF32 is what products of FP32 may be computed in."""
    operator, shapes, attributes = LAYERS[name]
    layer = single_layer(operator, shapes, datatype, **attributes)
    assert effective_precision(layer, allows_tf32=allows_tf32) == expected


def test_a_variant_is_read_with_its_choices() -> None:
    """FP32 forbids TF32; a provider option is set by its name in ONNX Runtime."""
    model = Path("/m.onnx")
    found = gpu_variant(ModelVariant(model, precision="FP32", provider_option="CudaGraph"))
    ((provider, options),) = found.choices.providers
    assert provider == "CUDAExecutionProvider"
    assert (options["use_tf32"], options["enable_cuda_graph"], options["prefer_nhwc"]) == (
        "0",
        "1",
        "0",
    )
    assert gpu_variant(ModelVariant(model, precision="FP16")).choices.allows_tf32


@pytest.mark.parametrize("name", ["fused convolution with a sum", "scaled transposed product"])
def test_a_session_with_bound_tensors_computes_the_layer(name: str) -> None:
    """The same code as on a GPU, by the CPU's provider."""
    operator, shapes, attributes = LAYERS[name]
    layer = single_layer(operator, shapes, **attributes)
    session = open_layer(brick_model(*suite_of(layer)), _ON_CPU)
    session.run()
    assert relative_error(session.results()[0], computed_on_cpu(layer)) < 1e-6


def test_a_model_in_fp16_keeps_its_inputs_and_its_results(tmp_path: Path) -> None:
    """Its weights are half as large, its outputs nearly the same and of the same type."""
    single, output = tmp_path / "single.onnx", tmp_path / "half.onnx"
    single.write_bytes(_network())
    graph = read_graph(single, max_bytes=1 << 30)
    rewrite(graph, "FP16", output, GraphSettings())
    half = read_graph(output, max_bytes=1 << 30)
    assert half.size_bytes < 0.6 * graph.size_bytes
    results = []
    for each in (graph, half):
        session = open_whole(each, GraphSettings(), _ON_CPU)
        session.run()
        results.append(session.results()[0])
    assert results[0].dtype == results[1].dtype == np.float32
    assert 0 < relative_error(results[1], results[0]) < 0.01


def _network() -> bytes:
    """Return a convolution and an activation with 150 kB of weights."""
    weights = np.random.default_rng(1).normal(size=(64, 64, 3, 3)).astype(np.float32)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 64, 8, 8)) for name in "xy"]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "net", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")]
    )
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString())


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_layers_for_a_gpu_are_never_those_of_the_cpu(tmp_path: Path) -> None:
    """ONNX Runtime without a GPU only warns and takes the CPU, whose graph is another."""
    path = tmp_path / "net.onnx"
    path.write_bytes(_network())
    with pytest.raises(ModelRefusedError, match="could not start CUDAExecutionProvider: install"):
        describe(read_graph(path, max_bytes=1 << 30), GraphSettings(device=Device.GPU))


def test_versions_are_readable(tmp_path: Path) -> None:
    """Of the libraries, and of the driver that the kernel names."""
    assert readable_version(91900) == "9.19.0"
    assert readable_version(130100) == "13.1.0"
    file = tmp_path / "version"
    file.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
        "GCC version:  gcc version 13.3.0\n"
    )
    assert driver_version(file) == "580.159.04"
    assert driver_version(tmp_path / "missing") == "unknown"


def test_a_status_of_a_library_names_the_call() -> None:
    """The manual of the library explains the number."""
    library = Library("cudnn", SimpleNamespace(cudnnCreate=_Function(3)))
    with pytest.raises(LibraryError, match="cudnnCreate failed with status 3"):
        library.create("cudnnCreate")
    with pytest.raises(LibraryError, match="no function cudnnOther"):
        library.call("cudnnOther")


class _Function:
    """A function of C that returns a status."""

    def __init__(self, status: int) -> None:
        self._status = status
        self.restype: Any = None

    def __call__(self, *_: object) -> int:
        return self._status
