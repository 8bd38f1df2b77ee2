"""Probes of a node's GPU against known results."""

import ctypes
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from inferometer_serving.gpu.device import (
    GpuDevice,
    call,
    compile_kernels,
    device_memory,
    gpu_count,
    read,
    write,
)
from inferometer_serving.node.gpu.clock import gpu_clock
from inferometer_serving.node.gpu.copies import (
    COPY_FIGURES,
    FLUSHED_FIGURES,
    flushed_copies,
    host_copies,
)
from inferometer_serving.node.gpu.host_buffers import device_address, pinned_memory
from inferometer_serving.node.gpu.implicit_copies import (
    IMPLICIT_MANAGED_FIGURES,
    IMPLICIT_MAPPED_FIGURES,
    implicit_managed,
    implicit_mapped,
)
from inferometer_serving.node.gpu.launches import (
    LAUNCH_FIGURES,
    capture,
    kernel_names,
    launch_costs,
)
from inferometer_serving.node.gpu.managed_memory import MANAGED_FIGURES, managed_transfers
from inferometer_serving.node.gpu.memory import MEMORY_FIGURES, device_loops, host_latency
from inferometer_serving.node.gpu.memory_calls import MEMORY_CALL_FIGURES, memory_call_costs
from inferometer_serving.node.gpu.probes import gpu_identities, gpu_probes, gpu_units
from inferometer_serving.node.gpu.products import product_peak, random_operands
from inferometer_serving.node.gpu.square_product import PRODUCT_TYPES, product
from inferometer_serving.node.gpu.zero_copy import (
    WORD_KERNELS,
    ZERO_COPY_FIGURES,
    long_kernel,
    word_kernel,
    zero_copies,
)
from inferometer_serving.node.samples import Findings
from support.node_documents import require_figures

_PLACE: Mapping[str, object] = {"node": 0, "gpu": 0}


def test_the_clock_measures_what_runs_and_not_the_calls(gpu: GpuDevice) -> None:
    """A copy twice as large takes twice as long, and one of nothing takes almost no time."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    size = 1 << 28
    with gpu_clock(gpu) as clock, device_memory(2 * size) as a, device_memory(2 * size) as b:

        def copies(count: int) -> float:
            return min(
                clock.seconds(
                    lambda on: [
                        call(driver.cuMemcpyDtoDAsync, b, a, size, on) for _ in range(count)
                    ]
                )
                for _ in range(5)
            )

        copies(1)
        assert copies(4) / copies(2) == pytest.approx(2, rel=0.1)
        assert clock.seconds(lambda _: None) < copies(1) / 4


def test_what_runs_in_two_streams_is_timed_from_the_first_start_to_the_last_end(
    gpu: GpuDevice,
) -> None:
    """Together they take at least as long as the longer one alone."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    size = 1 << 26
    with (
        gpu_clock(gpu) as clock,
        device_memory(size) as device,
        device_memory(size) as other,
        pinned_memory(size) as host,
        pinned_memory(size) as host_back,
    ):

        def to_gpu(on: object) -> None:
            call(driver.cuMemcpyHtoDAsync, device, host, size, on)

        def to_host(on: object) -> None:
            call(driver.cuMemcpyDtoHAsync, host_back, other, size // 8, on)

        alone = min(clock.seconds(to_gpu) for _ in range(5))
        together = min(clock.seconds_together([to_host, to_gpu]) for _ in range(5))
        assert 0.98 * alone < together < 1.5 * alone


def test_copies_move_the_bytes_and_have_comm_scopes_names(gpu: GpuDevice) -> None:
    """Every kind of host memory, both ways, at every size."""
    found = host_copies(gpu, _PLACE)
    require_figures(found, COPY_FIGURES)
    assert all({"node", "gpu", "bytes"} == each.setting.keys() for each in found)
    flushed = flushed_copies(gpu, _PLACE)
    require_figures(flushed, FLUSHED_FIGURES)
    assert {each.setting["cache"] for each in flushed} == {"flushed"}


def test_pinned_memory_of_the_host_is_what_a_kernel_reads_and_writes(gpu: GpuDevice) -> None:
    """Zero copies have figures, and their kernels see the host's bytes."""
    found = zero_copies(gpu, _PLACE)
    require_figures(found, ZERO_COPY_FIGURES)
    # Memory of the host is behind a link, whose rate is far below that of the GPU's own memory.
    assert all(each.value < 1e12 for each in found if int(each.setting["bytes"]) >= 1 << 24)
    with (
        gpu_clock(gpu) as clock,
        compile_kernels(gpu, WORD_KERNELS, ["write_words", "write_longs"]) as kernels,
        pinned_memory(1 << 16) as host,
    ):
        for kernel, launch, kind in (
            ("write_words", word_kernel, np.int32),
            ("write_longs", long_kernel, np.int64),
        ):
            words = _seen(host, 1 << 16).view(kind)
            words[:] = 7
            clock.seconds(launch(kernels[kernel], device_address(host), 1 << 15))
            assert (words[: len(words) // 2] == 1).all()
            assert (words[len(words) // 2 :] == 7).all()


def _seen(address: int, size: int) -> npt.NDArray[np.uint8]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def test_managed_memory_moves_on_demand_and_ahead(gpu: GpuDevice) -> None:
    """Each way has figures; a page on demand takes longer than a load of memory."""
    found = managed_transfers(gpu, _PLACE)
    require_figures(found, MANAGED_FIGURES)
    latencies = [each for each in found if each.unit == "ns"]
    assert len(latencies) == 2
    assert all(each.value > 1000 for each in latencies)


def test_loads_and_stores_of_all_bytes_move_managed_and_pinned_memory(gpu: GpuDevice) -> None:
    """Each way has figures, and none is faster than a link to the host."""
    found = [*implicit_managed(gpu, _PLACE), *implicit_mapped(gpu, _PLACE)]
    require_figures(found, (*IMPLICIT_MANAGED_FIGURES, *IMPLICIT_MAPPED_FIGURES))
    assert all(each.value < 1e12 for each in found if int(each.setting["bytes"]) >= 1 << 24)


def test_calls_for_memory_have_costs(gpu: GpuDevice) -> None:
    """To write managed memory takes longer than to allocate it."""
    found = memory_call_costs(gpu, _PLACE)
    require_figures(found, MEMORY_CALL_FIGURES)
    alone, written = (
        max(
            (each for each in found if each.name == name),
            key=lambda each: int(each.setting["bytes"]),
        )
        for name in ("cudart_cudaMallocManaged", "UM_CudaMallocManaged_Memset")
    )
    assert written.value > alone.value


def test_launches_have_costs(gpu: GpuDevice) -> None:
    """A graph's kernels cost less than launches of their own."""
    found = launch_costs(gpu, _PLACE)
    require_figures(found, LAUNCH_FIGURES)
    graphs = {
        int(each.setting["nodes"]): each.value
        for each in found
        if each.name == "cudart_cudaGraphLaunch_kernel"
    }
    launch = next(each.value for each in found if each.name == "cudart_kernel")
    assert graphs[256] < 256 * launch


def test_memory_is_faster_near_than_far(gpu: GpuDevice) -> None:
    """The loops have their bandwidth, and larger working sets a longer latency."""
    found = device_loops(gpu, _PLACE)
    require_figures(found, MEMORY_FIGURES)
    ladder = [each.value for each in found if each.name == "gpu/latency/device"]
    assert ladder[0] < ladder[2] < 0.7 * ladder[-1]
    [host] = host_latency(gpu, _PLACE)
    assert host.value > ladder[2]


_RESULTS = {"INT8": "INT32", "FP8": "BF16"}
"""Types of results that are not those of the operands."""


@pytest.mark.parametrize("precision", PRODUCT_TYPES)
def test_a_product_is_that_of_numpy(gpu: GpuDevice, precision: str) -> None:
    """The matrices multiply as in double precision, within the rounding of the precision."""
    kind, width = PRODUCT_TYPES[precision], 256
    if gpu.compute_capability < kind.least_capability:
        pytest.skip(f"this GPU has no units for {precision}")
    with (
        gpu_clock(gpu) as clock,
        product(kind, width) as prepared,
        random_operands(gpu, precision, width, clock.streams[0]) as (first, second, result),
    ):
        clock.seconds(lambda on: prepared.multiply(first, second, result, on))
        a, b = (_numbers(each, precision, width) for each in (first, second))
        out = _numbers(result, _RESULTS.get(precision, precision), width)
    expected = b @ a.T
    error = np.linalg.norm(out - expected) / np.linalg.norm(expected)
    assert error < {"FP32": 1e-6, "TF32": 2e-3, "FP16": 2e-3, "INT8": 1e-12}.get(precision, 1e-2)


def _numbers(address: int, kind: str, width: int) -> npt.NDArray[np.float64]:
    dtype = {
        "FP32": np.float32,
        "TF32": np.float32,
        "FP16": np.float16,
        "BF16": ml_dtypes.bfloat16,
        "FP8": ml_dtypes.float8_e4m3fn,
        "INT8": np.int8,
        "INT32": np.int32,
    }[kind]
    found = np.zeros((width, width), dtype)
    read(address, found)
    return found.astype(np.float64)


def test_the_names_of_kernels_are_read_without_running_them(gpu: GpuDevice) -> None:
    """A graph of captured launches names them."""
    source = 'extern "C" __global__ void a_name(int* out) { *out = 1; }'
    before = np.array([5], np.int32)
    with (
        gpu_clock(gpu) as clock,
        compile_kernels(gpu, source, ["a_name"]) as kernels,
        device_memory(4) as out,
    ):
        write(out, before)
        with capture(
            lambda on: kernels["a_name"].launch((1, 1, 1), (1, 1, 1), [(out, ctypes.c_void_p)], on),
            clock.streams[0],
        ) as graph:
            assert kernel_names(graph) == ["a_name"]
        after = np.zeros(1, np.int32)
        read(out, after)
    assert after[0] == 5


def test_tensor_cores_are_used_where_they_are_offered(gpu: GpuDevice) -> None:
    """The kernels that cuBLAS runs name them."""
    kernels: dict[str, list[str]] = {}
    [figure] = product_peak(gpu, "FP16", _PLACE, kernels)
    assert figure.unit == "flop/s"
    units = {each.name: each for each in gpu_units({gpu.index: kernels})}
    assert units["tensor_fp16"].offered
    assert units["tensor_fp16"].used_by["cublas"], kernels


def test_all_probes_of_the_node_have_figures_or_reasons(gpu: GpuDevice) -> None:
    """As `inferometer node --only gpu` runs them."""
    findings = Findings()
    probes = list(gpu_probes({}))
    for probe in probes:
        if "product" not in probe.name:
            findings.add(probe)
    if gpu_count() == 1:
        assert findings.unavailable == {"gpu peers": "there is one GPU"}
    assert gpu_identities()[0].name == gpu.name
