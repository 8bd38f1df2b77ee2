"""Activities that CUPTI recorded on an H200 become kernels of layers."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.gpu.activities import GpuActivity, Launch
from inferometer_serving.gpu.kernel_names import readable, uses_tensor_cores
from inferometer_serving.infer.tensors import Array
from inferometer_serving.profile.gpu_activities import GpuClockReading, GpuTrace
from inferometer_serving.profile.gpu_kernels import kernels_of
from inferometer_serving.profile.layer_times import EngineProfile
from inferometer_serving.profile.onnx_events import profile_of
from inferometer_serving.profile.profiler import _joined
from support.recorded_kernels import RUNS, recorded, recorded_trace

_LONG_NS = 3_600 * 1_000_000_000


def test_every_kernel_has_the_layer_whose_span_contains_its_launch() -> None:
    """All kernels have a layer and run three times; the copies of inputs and outputs have none."""
    kernels, _ = kernels_of(recorded()["events"], RUNS, recorded_trace())
    kinds = Counter(each.execution.kind for each in kernels)
    assert kinds == {"Kernel": 100, "Memcpy": 3}
    assert {len(each.durations_ns) for each in kernels} == {RUNS}
    without = [each.execution.name for each in kernels if each.layer is None]
    assert sorted(without) == ["Memcpy DtoH", "Memcpy HtoD"]


def test_a_kernel_does_what_its_layer_does() -> None:
    """By their names: layers of type Relu launch ONNX Runtime's Relu, pooling cuDNN's pooling."""
    layers = profile_of(recorded()["events"], RUNS).layers
    kernels, _ = kernels_of(recorded()["events"], RUNS, recorded_trace())
    names: dict[str, set[str]] = {}
    for each in kernels:
        if each.layer is not None:
            operator = layers[each.layer].operator
            names.setdefault(operator, set()).add(readable(each.execution.name))
    assert all("OP_Relu" in name for name in names["Relu"])
    assert all("pooling_fw" in name for name in names["MaxPool"])
    assert all("Concat" in name for name in names["Concat"])
    assert any("gemm" in name for name in names["Conv"])


def test_executions_follow_their_launches() -> None:
    """On one time line, every kernel begins after the call that launched it began."""
    kernels, notes = kernels_of(recorded()["events"], RUNS, recorded_trace())
    assert all(each.start_ns > each.launch_start_ns for each in kernels)
    assert all(each.launch_ns > 0 for each in kernels)
    assert [each.index for each in kernels] == list(range(len(kernels)))
    assert "were read to 0." in notes[0]
    assert " µs; " in notes[0]
    assert len(notes) == 1


def _template(name: str) -> str:
    """Return a name without template arguments, which demanglers write differently."""
    return readable(name).partition("<")[0]


def test_theoretical_occupancy_is_that_of_nsight_compute() -> None:
    """Registers, shared memory and block size give what NVIDIA's profiler reports."""
    kernels, _ = kernels_of(recorded()["events"], RUNS, recorded_trace())
    ours: dict[tuple[object, ...], float | None] = {
        (_template(ran.name), ran.block, ran.registers): each.occupancy
        for each in kernels
        for ran in (each.execution,)
    }
    compared = 0
    for each in recorded()["nsight_compute"]:
        block = tuple(map(int, re.findall(r"\d+", each["block"])))
        found = ours.get((_template(each["name"]), block, each["registers"]))
        if found is not None:
            compared += 1
            assert 100 * found == pytest.approx(each["theoretical_occupancy_percent"], abs=0.01)
            assert 100 * found >= each["achieved_occupancy_percent"]
    assert compared >= 30


def test_the_name_shows_the_use_of_tensor_cores() -> None:
    """Kernels with TF32 in their names are those whose counter of tensor operations counted."""
    for each in recorded()["nsight_compute"]:
        name = readable(each["name"])
        assert uses_tensor_cores(name) == (each["tf32_tensor_flops"] > 0), name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("volta_h884gemm_64x64_ldg8_nn", True),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", True),
        ("ampere_sgemm_128x64_tn", False),
        ("cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4", True),
        ("nvjet_hsh_64x8_64x16_4x1_v_bz_TNT", True),
        ("nvjet_sm90_qqtst_144x128_128x6_1x2_h_bz_coopA_algo2_TNN", True),
        ("sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1", True),
        ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw", False),
        ("onnxruntime::cuda::_UnaryElementWise<half, half>", False),
        ("_ZN7cutlass7Kernel2I50cutlass_80_tensorop_s1688gemm_64x64_32x6_nn_align4EEv", True),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x256x32_warpgroupsize2x1x1", True),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize64x32", True),
        ("_Z23implicit_convolve_sgemmIffLi1024ELi5ELi5ELi3ELi3ELi3ELi1ELb0ELb0ELb1EEv", False),
        ("_Z24op_generic_tensor_kernelILi1EfffLi256EL16cudnnGenericOp_t8E", False),
        ("_Z20fft2d_r2c_64x64IfEvP6float2PKT_iiiiiiii", False),
    ],
)
def test_names_of_libraries_show_tensor_cores(name: str, *, expected: bool) -> None:
    """What cuBLAS, cuDNN and CUTLASS write into names; a name that says nothing is no proof."""
    assert uses_tensor_cores(readable(name)) is expected


def test_names_are_readable() -> None:
    """Mangled names are C++ without parameters; long ones are cut, others stay."""
    assert (
        readable("_Z24op_generic_tensor_kernelILi3EfEvPfi") == "op_generic_tensor_kernel<3, float>"
    )
    assert readable("plain") == "plain"
    assert len(readable("x" * 1000)) == 300


def test_launches_of_another_thread_have_no_layer() -> None:
    """A layer launches on its own thread: what another one does at the time is not its work."""
    trace = recorded_trace()
    other = replace(trace, launches=[replace(each, thread=1) for each in trace.launches])
    kernels, _ = kernels_of(recorded()["events"], RUNS, other)
    assert {each.layer for each in kernels} == {None}


def test_the_layer_is_the_innermost_around_the_launch() -> None:
    """A launch within the body of a loop belongs to the node there, one after it to the loop."""
    events: list[dict[str, Any]] = [
        {"name": "model_run", "ts": 0, "dur": 100},
        _node(0, "Loop", 10, 60),
        _node(1, "Add", 20, 10),
    ]
    begins_us = (25, 50, 80)
    launches = [
        Launch(at, 1, 1_000 * begin, 1_000 * begin + 500) for at, begin in enumerate(begins_us)
    ]
    executions = [
        GpuActivity("Kernel", each.correlation, f"k{each.correlation}", 90_000, 90_001, 7)
        for each in launches
    ]
    clocks = [GpuClockReading(at, at, at, 0) for at in (0, 200_000)]
    trace = GpuTrace(launches, executions, clocks[0], clocks[1], profile_start_ns=0)
    kernels, _ = kernels_of(events, 1, trace)
    assert [(each.execution.name, each.layer) for each in kernels] == [
        ("k0", 1),
        ("k1", 0),
        ("k2", None),
    ]


def _node(index: int, operator: str, start_us: int, took_us: int) -> dict[str, Any]:
    arguments = {"op_name": operator, "node_index": str(index)}
    return {
        "name": f"n{index}_kernel_time",
        "ts": start_us,
        "dur": took_us,
        "tid": 1,
        "args": arguments,
    }


def test_the_kernels_of_a_graph_have_the_layer_of_its_launch() -> None:
    """One launch has several executions; which of them a layer would have launched is lost."""
    trace = recorded_trace()
    first = next(each for each in trace.executions if each.kind == "Kernel")
    second = replace(first, name="second", is_in_graph=True, start_ns=first.end_ns + 10)
    both = replace(
        trace, executions=[*trace.executions, replace(second, end_ns=second.start_ns + 5)]
    )
    kernels, notes = kernels_of(recorded()["events"], RUNS, both)
    layer = next(each.layer for each in kernels if each.execution.name == first.name)
    added = next(each for each in kernels if each.execution.name == "second")
    assert (added.layer, added.durations_ns) == (layer, (5,))
    assert any("CUDA graphs" in note for note in notes)


def test_what_is_lost_is_noted() -> None:
    """Activities without a launch, records that were dropped, and overlapping streams."""
    trace = recorded_trace()
    last = max(trace.executions, key=lambda each: each.end_ns)
    beside = GpuActivity("Kernel", -1, "alone", last.start_ns, last.end_ns, 9)
    launch = max(trace.launches, key=lambda each: each.start_ns)
    overlapping = GpuActivity(
        "Kernel", launch.correlation, "with", last.start_ns - 1, last.end_ns, 9
    )
    found = replace(trace, executions=[*trace.executions, beside, overlapping], dropped=4)
    _, notes = kernels_of(recorded()["events"], RUNS, found)
    text = " ".join(notes)
    assert "1 activities of the GPU have no launch" in text
    assert "dropped 4 records" in text
    assert "overlap on several streams" in text


def test_kernels_of_other_times_are_none() -> None:
    """Launches outside of the runs are none of theirs; a clock that stepped back is refused."""
    trace = recorded_trace()
    early = [
        Launch(each.correlation, each.thread, each.start_ns - _LONG_NS, each.end_ns - _LONG_NS)
        for each in trace.launches
    ]
    with pytest.raises(ValueError, match="no kernel was launched"):
        kernels_of(recorded()["events"], RUNS, replace(trace, launches=early))
    stepped = replace(trace.after, engine_ns=trace.before.engine_ns - 1)
    with pytest.raises(ValueError, match="stepped back"):
        kernels_of(recorded()["events"], RUNS, replace(trace, after=stepped))


def test_serialized_layers_contain_their_kernels() -> None:
    """In serialized runs each layer takes longer than its kernels do on the GPU."""
    layers = profile_of(recorded()["serialized_events"], RUNS).layers
    kernels, _ = kernels_of(recorded()["events"], RUNS, recorded_trace())
    on_gpu: dict[int, int] = {}
    for each in kernels:
        if each.layer is not None:
            on_gpu[each.layer] = on_gpu.get(each.layer, 0) + min(each.durations_ns)
    assert all(max(layers[layer].durations_ns) > took for layer, took in on_gpu.items())
    ours = profile_of(recorded()["events"], RUNS).layers
    assert [each.name for each in layers] == [each.name for each in ours]


class _Finished:
    """A session whose profile is known, or refused."""

    def __init__(self, found: EngineProfile | ModelRefusedError) -> None:
        self._found = found

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> None:
        raise AssertionError(output_names, inputs)

    def finish(self, runs: int) -> EngineProfile:
        assert runs == RUNS
        if isinstance(self._found, ModelRefusedError):
            raise self._found
        return self._found

    def close(self) -> None:
        raise AssertionError


def test_kernels_need_the_layers_that_were_timed() -> None:
    """Kernels of other layers, or that cannot be read, are left out with the reason."""
    events = recorded()["events"]
    kernels, notes = kernels_of(events, RUNS, recorded_trace())
    layers = _Finished(profile_of(recorded()["serialized_events"], RUNS))
    found = replace(profile_of(events, RUNS), kernels=kernels, notes=notes)
    assert _joined([layers, _Finished(found)], RUNS, "").kernels == kernels
    other = replace(found, layers=found.layers[1:])
    assert "had other layers" in _joined([layers, _Finished(other)], RUNS, "").kernels_missing
    refused = _joined([layers, _Finished(ModelRefusedError("no disk"))], RUNS, "")
    assert "cannot be read: no disk" in refused.kernels_missing
    assert refused.layers
    assert _joined([layers], RUNS, "not requested").kernels_missing == "not requested"
