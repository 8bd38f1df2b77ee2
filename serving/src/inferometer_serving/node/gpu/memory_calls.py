"""Costs of the calls that allocate managed memory and that start a copy, on the CPU."""

import ctypes
from collections.abc import Mapping
from functools import partial

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.gpu.device import GpuDevice, device_memory
from inferometer_serving.node.gpu.clock import gpu_clock
from inferometer_serving.node.gpu.copies import repeats
from inferometer_serving.node.gpu.driver_calls import CALLS, DriverCaller, call_cost
from inferometer_serving.node.gpu.host_buffers import pinned_memory
from inferometer_serving.node.gpu.managed_memory import LOG2_MANAGED_SIZES
from inferometer_serving.node.samples import seconds_of

MEMORY_CALL_FIGURES = (
    *("cudart_cudaMallocManaged", "UM_CudaMallocManaged_Memset"),
    *("cudart_cudaMemcpyAsync_PinnedToGPU", "cudart_cudaMemcpyAsync_GPUToPinned"),
)
_COPIED_BYTES = 10 << 10
"""As in Comm|Scope."""


def memory_call_costs(gpu: GpuDevice, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure calls of the driver by a thread on the NUMA node on which this runs."""
    caller = DriverCaller()
    at = {**setting, "calls": caller.how}
    found = []
    for log2_bytes in LOG2_MANAGED_SIZES:
        size = 1 << log2_bytes
        for name, written in (
            ("cudart_cudaMallocManaged", 0),
            ("UM_CudaMallocManaged_Memset", size),
        ):
            _allocation_ns(caller, size, written)
            samples = [_allocation_ns(caller, size, written) for _ in range(repeats(size))]
            found.append(figure(name, "ns", samples, {**at, "bytes": size}))
    with (
        gpu_clock(gpu) as clock,
        pinned_memory(_COPIED_BYTES) as host,
        device_memory(_COPIED_BYTES) as device,
    ):
        on = clock.streams[0]
        synchronize = partial(caller.run, "cuStreamSynchronize", int(on))
        for name, function, target, source in (
            ("PinnedToGPU", "cuMemcpyHtoDAsync_v2", device, host),
            ("GPUToPinned", "cuMemcpyDtoHAsync_v2", host, device),
        ):
            copies = partial(
                caller.prepared(function, target, source, _COPIED_BYTES, int(on)), CALLS
            )
            found.append(
                call_cost(f"cudart_cudaMemcpyAsync_{name}", copies, synchronize, CALLS, at)
            )
    return found


def _allocation_ns(caller: DriverCaller, size: int, written: int) -> float:
    """Return the time of an allocation of managed memory whose first bytes the host writes."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    address = ctypes.c_void_p()
    attach = driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value
    allocate = caller.prepared("cuMemAllocManaged", ctypes.addressof(address), size, attach)

    def work() -> None:
        allocate(1)
        ctypes.memset(address, 1, written)

    seconds = seconds_of(work)
    caller.run("cuMemFree_v2", address.value or 0)
    return seconds * 1e9
