"""Comm|Scope's names of the transfers and calls of a node, and the places in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from inferometer_api.nodes.characteristics import Unit

PREFIX = "Comm_"
MEMCPY = "libc_memcpy_NUMAToNUMA"
_MISSPELT = MappingProxyType({"cudaMemcpyPeerAync_GPUToGPU": "cudaMemcpyPeerAsync_GPUToGPU"})
"""As Comm|Scope has it, and as it means it."""

Place = tuple[str, str]
"""A figure's setting, and Comm|Scope's counter."""


@dataclass(frozen=True, slots=True)
class CommScopeName:
    """A benchmark of Comm|Scope."""

    figure: str
    """The name of the figure here."""
    name: str
    """Without the prefix Comm_, and as it is spelt there."""
    places: tuple[Place, ...]
    """NUMA nodes and GPUs, in the order of its name."""
    argument: Literal["bytes", "steps", "nodes", "0", ""] = "bytes"
    """What follows the places: a setting, or this number; empty: nothing."""
    suffix: str = "/manual_time"
    unit: Unit = "bytes/s"

    @property
    def written(self) -> str:
        """The name as Comm|Scope writes it; that of the host's copy has no prefix."""
        return self.name if self.name == MEMCPY else f"{PREFIX}{self.name}"


_NODE, _GPU = ("node", "numa_id"), ("gpu", "cuda_id")
_PAIR = (("gpu", "src_gpu"), ("peer", "dst_gpu"))
_BOTH = (("gpu", "gpu0"), ("peer", "gpu1"))
_HOST_AND_GPU = (
    *(f"cudaMemcpyAsync_{each}ToGPU" for each in ("Host", "Pinned", "WC")),
    *(f"cudaMemcpyAsync_GPUTo{each}" for each in ("Host", "Pinned", "WC")),
    *("cudaMemcpyAsync_Duplex_Host", "cudaMemcpyAsync_Duplex_Pinned"),
    *("ZeroCopy_HostToGPU", "ZeroCopy_GPUToHost", "ZeroCopy_Duplex_HostGPU"),
    *("UM_Demand_HostToGPU", "UM_Prefetch_HostToGPU", "UM_Prefetch_GPUToHost"),
    "Prefetch_Duplex_HostGPU",
)
_HOST_AND_GPU_BY_CLOCK = ("UM_Demand_GPUToHost", "Demand_Duplex_HostGPU")
_GPU_AND_GPU = (
    *("cudaMemcpyAsync_GPUToGPUPeer", "cudaMemcpyPeerAsync_GPUToGPUPeer"),
    *("UM_Demand_GPUToGPU", "UM_Prefetch_GPUToGPU"),
)
_GPU_AND_GPU_TOGETHER = (
    *("cudaMemcpyAsync_Duplex_GPUGPUPeer", "cudaMemcpyPeerAsync_Duplex_GPUGPUPeer"),
    *("cudaMemcpyPeerAsync_Duplex_GPUGPU", "Demand_Duplex_GPUGPU", "Prefetch_Duplex_GPUGPU"),
    *("ZeroCopy_GPUToGPU_Write", "ZeroCopy_Duplex_GPUGPU_Read", "ZeroCopy_Duplex_GPUGPU_Write"),
)
_FINE = "_fine"
"""The grain of HIP's managed memory in which, as in CUDA's, both sides see writes at once."""
_BY_THREADS = "/real_time/threads:1"
_ALL = (
    CommScopeName("memcpy", MEMCPY, (("source", "src_id"), ("destination", "dst_id")), suffix=""),
    *(CommScopeName(each, each, (_NODE, _GPU)) for each in _HOST_AND_GPU),
    *(CommScopeName(each, each, (_NODE, _GPU), suffix="") for each in _HOST_AND_GPU_BY_CLOCK),
    *(CommScopeName(each, each, _PAIR) for each in _GPU_AND_GPU),
    *(CommScopeName(each, each, _BOTH) for each in _GPU_AND_GPU_TOGETHER),
    CommScopeName("ZeroCopy_GPUToGPU", "ZeroCopy_GPUToGPU_Read", _BOTH),
    *(
        CommScopeName(f"implicit_managed_{each}", f"implicit_managed_{each}{_FINE}", places)
        for each, places in (
            ("GPURdHost", (("node", "src_numa"), ("gpu", "dst_gpu"))),
            ("GPUWrHost", (("node", "src_numa"), ("gpu", "dst_gpu"))),
            ("HostWrGPU", (("node", "dst_numa"), ("gpu", "src_gpu"))),
            ("GPUWrGPU", _PAIR),
        )
    ),
    *(
        CommScopeName(each, each, places)
        for each, places in (
            ("implicit_mapped_GPURdHost", (("node", "own_numa"), ("gpu", "rd_gpu"))),
            ("implicit_mapped_GPUWrHost", (("node", "own_numa"), ("gpu", "wr_gpu"))),
            ("implicit_mapped_GPUWrGPU", (("gpu", "wr_gpu"), ("peer", "own_gpu"))),
        )
    ),
    *(CommScopeName(each, name, _PAIR) for name, each in _MISSPELT.items()),
    CommScopeName(
        *("cudaMemcpyAsync_HostToPinned", "cudaMemcpyAsync_HostToPinned"),
        (("node", "src_numa"), ("node", "dst_numa")),
    ),
    CommScopeName(*("cudaMemcpyAsync_GPUToGPU",) * 2, (_NODE, *_PAIR)),
    CommScopeName(*("UM_Demand_GPUToHostMt",) * 2, (_NODE, _GPU, ("threads", "num_threads"))),
    CommScopeName(*("UM_Latency_HostToGPU",) * 2, (_NODE, _GPU), "steps", unit="ns"),
    CommScopeName(*("UM_Latency_GPUToHost",) * 2, (_NODE, _GPU), "steps", suffix="", unit="ns"),
    CommScopeName(*("UM_Latency_GPUToGPU",) * 2, _PAIR, "steps", unit="ns"),
    CommScopeName(*("libc_malloc",) * 2, (_NODE,), suffix="", unit="ns"),
    CommScopeName(*("libc_malloc_memset",) * 2, (_NODE,), unit="ns"),
    CommScopeName(*("cudart_cudaMallocManaged",) * 2, (_NODE, _GPU), suffix="", unit="ns"),
    CommScopeName(*("UM_CudaMallocManaged_Memset",) * 2, (_NODE, _GPU), unit="ns"),
    *(
        CommScopeName(each, each, (_NODE, ("gpu", "gpu")), "", "/real_time", "ns")
        for each in ("cudart_cudaMemcpyAsync_PinnedToGPU", "cudart_cudaMemcpyAsync_GPUToPinned")
    ),
    CommScopeName(*("cudart_kernel",) * 2, (_NODE, ("gpu", "gpu")), "0", _BY_THREADS, "ns"),
    CommScopeName(*("cudaDeviceSynchronize",) * 2, (_NODE, ("gpu", "gpu")), "", _BY_THREADS, "ns"),
    *(
        CommScopeName(each, each, (_NODE, _GPU), "nodes", "", "ns")
        for each in ("cudart_cudaGraphLaunch_kernel", "cudart_cudaGraphInstantiate_kernel")
    ),
)
OF_FIGURES: Mapping[str, CommScopeName] = MappingProxyType({each.figure: each for each in _ALL})
BY_NAME: Mapping[str, CommScopeName] = MappingProxyType({each.name: each for each in _ALL})
