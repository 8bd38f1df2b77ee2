"""What Comm|Scope calls the transfers and calls of a node, and the places in its names."""

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
    *("cudaMemcpyAsync_GPUToGPUPeer", "cudaMemcpyAsync_Duplex_GPUGPUPeer"),
    *("cudaMemcpyPeerAsync_GPUToGPUPeer", "cudaMemcpyPeerAsync_Duplex_GPUGPUPeer"),
    "cudaMemcpyPeerAsync_Duplex_GPUGPU",
    *("ZeroCopy_GPUToGPU", "UM_Demand_GPUToGPU", "UM_Prefetch_GPUToGPU"),
)
_BY_THREADS = "/real_time/threads:1"
_ALL = (
    CommScopeName("memcpy", MEMCPY, (("source", "src_id"), ("destination", "dst_id")), suffix=""),
    *(CommScopeName(each, each, (_NODE, _GPU)) for each in _HOST_AND_GPU),
    *(CommScopeName(each, each, (_NODE, _GPU), suffix="") for each in _HOST_AND_GPU_BY_CLOCK),
    *(CommScopeName(each, each, _PAIR) for each in _GPU_AND_GPU),
    *(CommScopeName(each, name, _PAIR) for name, each in _MISSPELT.items()),
    CommScopeName(
        *("cudaMemcpyAsync_HostToPinned", "cudaMemcpyAsync_HostToPinned"),
        (("node", "src_numa"), ("node", "dst_numa")),
    ),
    CommScopeName(*("cudaMemcpyAsync_GPUToGPU",) * 2, (_NODE, *_PAIR)),
    CommScopeName(*("UM_Demand_GPUToHostMt",) * 2, (_NODE, _GPU, ("threads", "num_threads"))),
    CommScopeName(*("UM_Latency_HostToGPU",) * 2, (_NODE, _GPU), "steps", unit="ns"),
    CommScopeName(*("UM_Latency_GPUToHost",) * 2, (_NODE, _GPU), "steps", suffix="", unit="ns"),
    CommScopeName(*("cudart_kernel",) * 2, (_NODE, ("gpu", "gpu")), "0", _BY_THREADS, "ns"),
    CommScopeName(*("cudaDeviceSynchronize",) * 2, (_NODE, ("gpu", "gpu")), "", _BY_THREADS, "ns"),
    *(
        CommScopeName(each, each, (_NODE, _GPU), "nodes", "", "ns")
        for each in ("cudart_cudaGraphLaunch_kernel", "cudart_cudaGraphInstantiate_kernel")
    ),
)
OF_FIGURES: Mapping[str, CommScopeName] = MappingProxyType({each.figure: each for each in _ALL})
BY_NAME: Mapping[str, CommScopeName] = MappingProxyType({each.name: each for each in _ALL})
