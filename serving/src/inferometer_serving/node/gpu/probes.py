"""The probes of this machine's GPUs, for each NUMA node, GPU and pair of GPUs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, permutations

from inferometer_api.nodes.characteristics import GpuIdentity, MatrixUnit, NodeFigure
from inferometer_serving.gpu.device import (
    CudaError,
    GpuDevice,
    GpuUnavailableError,
    gpu_count,
    known_gpus,
    open_gpu,
)
from inferometer_serving.node.gpu.copies import (
    COPY_FIGURES,
    FLUSHED_FIGURES,
    flushed_copies,
    host_copies,
    local_copies,
)
from inferometer_serving.node.gpu.implicit_copies import (
    IMPLICIT_MANAGED_FIGURES,
    IMPLICIT_MAPPED_FIGURES,
    implicit_managed,
    implicit_mapped,
)
from inferometer_serving.node.gpu.launches import LAUNCH_FIGURES, launch_costs
from inferometer_serving.node.gpu.managed_memory import MANAGED_FIGURES, managed_transfers
from inferometer_serving.node.gpu.managed_peers import MANAGED_DUPLEX_FIGURES
from inferometer_serving.node.gpu.memory import (
    HOST_LATENCY_FIGURES,
    MEMORY_FIGURES,
    device_loops,
    host_latency,
)
from inferometer_serving.node.gpu.memory_calls import MEMORY_CALL_FIGURES, memory_call_costs
from inferometer_serving.node.gpu.peers import (
    PEER_FIGURES,
    STAGED_FIGURES,
    direct_transfers,
    staged_transfers,
)
from inferometer_serving.node.gpu.peers_both_ways import (
    DIRECT_DUPLEX_FIGURES,
    direct_both_ways,
    staged_both_ways,
)
from inferometer_serving.node.gpu.products import product_peak, tensor_cores
from inferometer_serving.node.gpu.square_product import PRODUCT_TYPES
from inferometer_serving.node.gpu.zero_copy import ZERO_COPY_FIGURES, zero_copies
from inferometer_serving.node.machine import numa_cpus, running_on
from inferometer_serving.node.samples import NodeProbe, NotMeasurableError

TensorKernels = dict[int, dict[str, list[str]]]
"""The names of the kernels that ran, by GPU and precision."""

_Measure = Callable[[GpuDevice, Mapping[str, object]], Sequence[NodeFigure]]
_OF_HOST_AND_GPU: Mapping[str, tuple[_Measure, tuple[str, ...]]] = {
    "copies": (host_copies, COPY_FIGURES),
    "flushed copies": (flushed_copies, FLUSHED_FIGURES),
    "zero copy": (zero_copies, ZERO_COPY_FIGURES),
    "managed memory": (managed_transfers, MANAGED_FIGURES),
    "implicit managed": (implicit_managed, IMPLICIT_MANAGED_FIGURES),
    "implicit mapped": (implicit_mapped, IMPLICIT_MAPPED_FIGURES),
    "host latency": (host_latency, HOST_LATENCY_FIGURES),
    "launches": (launch_costs, LAUNCH_FIGURES),
    "memory calls": (memory_call_costs, MEMORY_CALL_FIGURES),
}
_OF_GPU: Mapping[str, tuple[_Measure, tuple[str, ...]]] = {
    "local copies": (local_copies, ("cudaMemcpyAsync_GPUToGPU",)),
    "memory": (device_loops, MEMORY_FIGURES),
}
_PRODUCT_FIGURES = ("gpu/gemm",)
_BetweenTwo = Callable[[int, int, Mapping[str, object]], Sequence[NodeFigure]]
_ONE_WAY: Mapping[str, tuple[_BetweenTwo, tuple[str, ...]]] = {
    "direct": (direct_transfers, PEER_FIGURES),
    "staged": (staged_transfers, STAGED_FIGURES),
}
_BOTH_WAYS: Mapping[str, tuple[_BetweenTwo, tuple[str, ...]]] = {
    "both ways, direct": (direct_both_ways, DIRECT_DUPLEX_FIGURES),
    "both ways, staged": (staged_both_ways, MANAGED_DUPLEX_FIGURES),
}
_PAIR_FIGURES = tuple(
    name for each in (_ONE_WAY, _BOTH_WAYS) for _, names in each.values() for name in names
)
_FIGURES = (
    *(name for each in (_OF_GPU, _OF_HOST_AND_GPU) for _, names in each.values() for name in names),
    *_PRODUCT_FIGURES,
    *_PAIR_FIGURES,
)


def gpu_probes(kernels: TensorKernels) -> Iterator[NodeProbe]:
    """Yield the probes of all GPUs; one that says why if there is none.

    `kernels` gets the names of the kernels that multiply matrices.
    """
    count = gpu_count()
    if not count:
        yield NodeProbe("gpu", _unavailable, _FIGURES)
        return
    nodes = numa_cpus()
    for gpu in range(count):
        for what, (measure, names) in _OF_GPU.items():
            setting = {"node": min(nodes), "gpu": gpu}
            probe = partial(_measure_on_gpu, measure, gpu, nodes[min(nodes)], setting)
            yield NodeProbe(f"gpu {what} (GPU {gpu})", probe, names)
        for precision in PRODUCT_TYPES:
            probe = partial(_peak, gpu, precision, kernels)
            yield NodeProbe(f"gpu product (GPU {gpu}, {precision})", probe, _PRODUCT_FIGURES)
        for node, cpus in nodes.items():
            for what, (measure, names) in _OF_HOST_AND_GPU.items():
                probe = partial(_measure_on_gpu, measure, gpu, cpus, {"node": node, "gpu": gpu})
                yield NodeProbe(f"gpu {what} (node {node}, GPU {gpu})", probe, names)
    yield from _peer_probes(count, nodes)


def gpu_identities() -> list[GpuIdentity]:
    """Return what identifies the GPUs of this machine; none without a driver or its bindings."""
    if not gpu_count():
        return []
    return [
        GpuIdentity(
            index=each.index,
            name=each.name,
            compute_capability="{}.{}".format(*each.compute_capability),
            multiprocessors=each.multiprocessors,
            memory_bytes=each.memory_bytes,
            l2_cache_bytes=each.l2_cache_bytes,
        )
        for each in known_gpus()
    ]


def gpu_units(kernels: TensorKernels) -> list[MatrixUnit]:
    """Return the tensor cores of each GPU whose products were measured."""
    return [
        unit
        for gpu in (known_gpus() if kernels else [])
        if gpu.index in kernels
        for unit in tensor_cores(gpu, kernels[gpu.index])
    ]


def _peer_probes(count: int, nodes: Mapping[int, frozenset[int]]) -> Iterator[NodeProbe]:
    if count == 1:
        yield NodeProbe("gpu peers", _no_peer, _PAIR_FIGURES)
    node, gpus = min(nodes), range(count)
    for joint, pairs, table in (
        ("to", permutations(gpus, 2), _ONE_WAY),
        ("and", combinations(gpus, 2), _BOTH_WAYS),
    ):
        for first, second in pairs:
            setting = {"node": node, "gpu": first, "peer": second}
            for what, (measure, names) in table.items():
                probe = partial(_run_on_cpus, partial(measure, first, second, setting), nodes[node])
                yield NodeProbe(
                    f"gpu peers, {what} (GPU {first} {joint} GPU {second})", probe, names
                )


def _measure_on_gpu(
    measure: _Measure, gpu: int, cpus: frozenset[int], setting: Mapping[str, object]
) -> Sequence[NodeFigure]:
    def run() -> Sequence[NodeFigure]:
        with open_gpu(gpu) as opened:
            return measure(opened, setting)

    return _run_on_cpus(run, cpus)


def _peak(gpu: int, precision: str, kernels: TensorKernels) -> Sequence[NodeFigure]:
    def run() -> Sequence[NodeFigure]:
        with open_gpu(gpu) as opened:
            return product_peak(opened, precision, {"gpu": gpu}, kernels.setdefault(gpu, {}))

    return _run_on_cpus(run, None)


def _run_on_cpus(
    run: Callable[[], Sequence[NodeFigure]], cpus: frozenset[int] | None
) -> Sequence[NodeFigure]:
    """Run on CPUs. Raises NotMeasurableError in place of the errors of CUDA."""
    try:
        if cpus is None:
            return run()
        with running_on(cpus):
            return run()
    except (CudaError, GpuUnavailableError) as error:
        raise NotMeasurableError(str(error)) from error


def _unavailable() -> Sequence[NodeFigure]:
    """Raise why there is no GPU."""
    try:
        with open_gpu():
            return []
    except GpuUnavailableError as error:
        raise NotMeasurableError(str(error)) from error


def _no_peer() -> Sequence[NodeFigure]:
    raise NotMeasurableError("there is one GPU")
