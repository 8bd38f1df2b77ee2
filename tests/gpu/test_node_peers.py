"""Probes of pairs of GPUs, with one GPU in the place of both."""

from collections.abc import Mapping

import pytest

from inferometer_serving.gpu.device import GpuDevice, call, device_memory
from inferometer_serving.node.gpu.clock import pair_clock
from inferometer_serving.node.gpu.host_buffers import pinned_memory
from inferometer_serving.node.gpu.managed_peers import (
    MANAGED_DUPLEX_FIGURES,
    MANAGED_PEER_FIGURES,
    managed_between,
    managed_both_ways,
)
from inferometer_serving.node.gpu.peers import (
    _WRITES,
    _peer_copies,
    _remote_accesses,
    direct_transfers,
)
from inferometer_serving.node.gpu.peers_both_ways import (
    DIRECT_DUPLEX_FIGURES,
    _zero_copies,
    direct_both_ways,
)
from inferometer_serving.node.samples import NotMeasurableError
from support.node_documents import require_figures

_PLACE: Mapping[str, object] = {"node": 0, "gpu": 0}


def test_peers_are_copied_as_if_one_gpu_were_two(gpu: GpuDevice) -> None:
    """With one GPU the copies run within it, and direct access ends with its reason."""
    found = list(_peer_copies(gpu, gpu, "", _PLACE))
    assert {each.name for each in found} == {
        "cudaMemcpyPeerAsync_GPUToGPU",
        "cudaMemcpyPeerAsync_Duplex_GPUGPU",
    }
    require_figures(managed_between(gpu, gpu, _PLACE), MANAGED_PEER_FIGURES)
    require_figures(_remote_accesses(gpu, gpu, _WRITES, _PLACE), _WRITES)
    with pytest.raises(NotMeasurableError, match="no direct access"):
        direct_transfers(0, 0, _PLACE)


def test_peers_take_from_each_other_as_if_one_gpu_were_two(gpu: GpuDevice) -> None:
    """With one GPU both halves run on it, and direct access ends with its reason."""
    require_figures(managed_both_ways(gpu, gpu, _PLACE), MANAGED_DUPLEX_FIGURES)
    require_figures(_zero_copies(gpu, gpu, _PLACE), DIRECT_DUPLEX_FIGURES)
    with pytest.raises(NotMeasurableError, match="no direct access"):
        direct_both_ways(0, 0, _PLACE)


def test_what_two_gpus_do_is_timed_until_both_have_ended(gpu: GpuDevice) -> None:
    """The longer work counts, on whichever of them it is."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    size = 1 << 26
    with (
        pair_clock(gpu, gpu) as pair,
        device_memory(size) as device,
        device_memory(size) as other,
        pinned_memory(size) as host,
        pinned_memory(size) as host_back,
    ):

        def to_gpu(on: object) -> None:
            call(driver.cuMemcpyHtoDAsync, device, host, size, on)

        def to_host(on: object) -> None:
            call(driver.cuMemcpyDtoHAsync, host_back, other, size // 8, on)

        alone = min(pair.clock.seconds(to_gpu) for _ in range(5))
        for works in ((to_host, to_gpu), (to_gpu, to_host)):
            together = min(pair.seconds_together(*works) for _ in range(5))
            assert 0.98 * alone < together < 1.5 * alone
