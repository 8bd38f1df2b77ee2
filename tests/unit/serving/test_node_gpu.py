"""The parts of the GPU probes that need no GPU: which there are, what they name, and why not."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from inferometer_serving.gpu.device import CudaError, GpuDevice
from inferometer_serving.node.__main__ import measure
from inferometer_serving.node.gpu import probes, products
from inferometer_serving.node.gpu.cache_flush import compile_flush
from inferometer_serving.node.gpu.memory import cycle_order, pointer_cycle
from inferometer_serving.node.gpu.square_product import PRODUCT_TYPES
from inferometer_serving.node.samples import Findings, NotMeasurableError

_LINKS = ("direct", "staged")
_CPUS = frozenset(os.sched_getaffinity(0))


def _gpu(capability: tuple[int, int]) -> GpuDevice:
    return GpuDevice(0, "a GPU", capability, 100, 1 << 20, 1 << 34, None)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show two GPUs and two NUMA nodes."""
    monkeypatch.setattr(probes, "gpu_count", lambda: 2)
    monkeypatch.setattr(probes, "numa_cpus", lambda: {0: _CPUS, 1: _CPUS})


def test_without_a_gpu_there_is_one_reason_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without cuda-bindings the document says so, and names no GPU."""
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    document = measure(tmp_path, ("gpu",), 60)
    assert document.unavailable == {"gpu": "cuda-bindings is not installed"}
    assert [each.name for each in document.figures] == ["steal"]
    assert document.machine.gpus == []
    assert all(each.gpu is None for each in document.matrix_units)


@pytest.mark.parametrize(
    "begin", ["UM_Demand", "cudaMemcpyAsync", "ZeroCopy", "cudart_kernel", "cudaMemcpyPeerAsync"]
)
def test_figures_of_gpus_have_their_reason_without_one(
    begin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their names are known on every machine: they are unavailable, not refused."""
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    document = measure(tmp_path, (begin,), 60)
    assert document.unavailable == {"gpu": "cuda-bindings is not installed"}


@pytest.mark.usefixtures("two_gpus")
def test_names_without_a_gpu_are_those_with_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figure is missing, and none is too many."""
    known = {name for each in probes.gpu_probes({}) for name in each.figures}
    monkeypatch.setattr(probes, "gpu_count", lambda: 0)
    (only,) = probes.gpu_probes({})
    assert set(only.figures) == known


@pytest.mark.usefixtures("two_gpus")
def test_each_numa_node_gpu_and_pair_has_its_probes() -> None:
    """Transfers between host and GPU are measured from every NUMA node."""
    names = [each.name for each in probes.gpu_probes({})]
    assert len(names) == len(set(names))
    for gpu in (0, 1):
        assert f"gpu memory (GPU {gpu})" in names
        assert {f"gpu product (GPU {gpu}, {each})" for each in PRODUCT_TYPES} <= set(names)
        assert {f"gpu copies (node {node}, GPU {gpu})" for node in (0, 1)} <= set(names)
    assert "gpu peers, direct (GPU 1 to GPU 0)" in names
    assert "gpu peers, staged (GPU 0 to GPU 1)" in names
    both_ways = {each for each in names if "both ways" in each}
    assert both_ways == {f"gpu peers, both ways, {each} (GPU 0 and GPU 1)" for each in _LINKS}


@pytest.mark.parametrize(
    ("begin", "probe"),
    [
        ("cudaMemcpyAsync_PinnedToGPU", "gpu copies"),
        ("UM_Demand", "gpu managed memory"),
        ("ZeroCopy", "gpu zero copy"),
        ("gpu/gemm", "gpu product"),
        ("cudart_kernel", "gpu launches"),
        ("implicit_managed", "gpu implicit managed"),
        ("cudart_cudaMallocManaged", "gpu memory calls"),
        ("UM_Latency_GPUToGPU", "gpu peers, staged"),
        ("Demand_Duplex_GPUGPU", "gpu peers, both ways, staged"),
        ("ZeroCopy_Duplex_GPUGPU", "gpu peers, both ways, direct"),
    ],
)
@pytest.mark.usefixtures("two_gpus")
def test_a_probe_is_selected_by_comm_scopes_names(begin: str, probe: str) -> None:
    """Its figures' names begin so."""
    chosen = {each.name.partition(" (")[0] for each in probes.gpu_probes({}) if each.has(begin)}
    assert probe in chosen


def test_one_gpu_has_no_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peer copies end with the reason."""
    monkeypatch.setattr(probes, "gpu_count", lambda: 1)
    findings = Findings()
    for each in probes.gpu_probes({}):
        if "peer" in each.name:
            findings.add(each)
    assert findings.unavailable == {"gpu peers": "there is one GPU"}


@pytest.mark.usefixtures("two_gpus")
def test_a_call_of_cuda_that_fails_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other probes go on."""

    def refused(_index: int) -> object:
        raise CudaError("cuMemHostRegister failed with CUDA_ERROR_NOT_SUPPORTED")

    monkeypatch.setattr(probes, "open_gpu", refused)
    findings = Findings()
    findings.add(next(each for each in probes.gpu_probes({}) if "copies (node" in each.name))
    assert findings.unavailable == {
        "gpu copies (node 0, GPU 0)": "cuMemHostRegister failed with CUDA_ERROR_NOT_SUPPORTED"
    }
    assert os.sched_getaffinity(0) == _CPUS


def test_a_cycle_of_pointers_visits_every_line_once_and_begins_with_the_first() -> None:
    """The GPU follows addresses of its own."""
    base, lines = 1 << 40, 64
    chain = pointer_cycle(base, cycle_order(lines * 128))
    at, seen = base, []
    for _ in range(lines):
        seen.append(at)
        at = int(chain[(at - base) // 8])
    assert at == base
    assert sorted(seen) == [base + 128 * each for each in range(lines)]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the flush is for x86-64")
def test_a_flush_ends_at_the_end_and_changes_nothing() -> None:
    """Memory has its values afterwards."""
    values = np.arange(4096, dtype=np.uint64)
    start = values.ctypes.data
    compile_flush()(start - start % 64, start + values.nbytes)
    np.testing.assert_array_equal(values, np.arange(4096))


def test_a_processor_without_a_flush_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies from flushed caches are then unavailable."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(NotMeasurableError, match="aarch64"):
        compile_flush()


def _filled(precision: str, words: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    kept, given = products._PATTERNS[precision]
    bits = (words & np.uint32(kept)) | np.uint32(given)
    types: Mapping[str, type] = {
        "FP32": np.float32,
        "TF32": np.float32,
        "FP16": np.float16,
        "INT8": np.int8,
        "BF16": ml_dtypes.bfloat16,
        "FP8": ml_dtypes.float8_e4m3fn,
    }
    return bits.view(types[precision]).astype(np.float64)


@pytest.mark.parametrize("precision", PRODUCT_TYPES)
def test_operands_are_random_numbers_of_their_precision(precision: str) -> None:
    """They are finite, of both signs, and neither overflow nor vanish in a product."""
    words = np.random.default_rng(0).integers(0, 2**32, 4096, np.uint32)
    values = _filled(precision, words)
    assert len(np.unique(values)) >= 16
    assert (values < 0).any()
    if precision == "INT8":
        assert values.min() == -128
        assert values.max() == 127
    else:
        assert (np.abs(values) >= 1).all()
        assert (np.abs(values) < 2).all()


@pytest.mark.parametrize(
    ("capability", "offered"),
    [
        ((6, 1), set()),
        ((7, 0), {"fp16"}),
        ((7, 5), {"fp16", "int8"}),
        ((8, 0), {"fp16", "int8", "bf16", "tf32"}),
        ((9, 0), {"fp16", "int8", "bf16", "tf32", "fp8"}),
    ],
)
def test_tensor_cores_follow_from_the_compute_capability(
    capability: tuple[int, int], offered: set[str]
) -> None:
    """Each generation adds precisions."""
    units = products.tensor_cores(_gpu(capability), {})
    assert {each.name.removeprefix("tensor_") for each in units if each.offered} == offered
    assert all(each.used_by == {} for each in units)


def test_the_names_of_kernels_say_which_tensor_cores_are_used() -> None:
    """Kernels of ordinary units do not count, nor those of FP32."""
    names: dict[str, Sequence[str]] = {
        "FP32": ["sm80_xmma_gemm_f32f32_f32f32_f32_tn_n"],
        "BF16": ["nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT", "splitKreduce_kernel"],
        "FP16": ["gemv_kernel"],
        "TF32": ["sm80_xmma_gemm_f32f32_f32f32_f32_tn_n"],
    }
    units = {
        each.name: each.used_by
        for each in products.tensor_cores(
            _gpu((9, 0)), {each: list(found) for each, found in names.items()}
        )
    }
    assert units["tensor_bf16"] == {"cublas": ["nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT"]}
    assert units["tensor_fp16"] == units["tensor_tf32"] == {}
    assert "tensor_fp32" not in units


def test_a_precision_that_the_gpu_lacks_is_unavailable() -> None:
    """The reason names the compute capability."""
    with pytest.raises(NotMeasurableError, match=r"compute capability 7\.0"):
        products.product_peak(_gpu((7, 0)), "FP8", {}, {})


@pytest.mark.usefixtures("two_gpus")
def test_gpu_figures_are_no_figures_of_the_cpu() -> None:
    """Rooflines and headlines of CPUs take `gemm` and `memcpy`; the GPU's have other names."""
    for each in probes.gpu_probes({}):
        assert not each.has("gemm")
        assert not each.has("memcpy")
