"""Transfers of a node's GPU as its probes measure them, in turn with NVIDIA's nvbandwidth."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

import pytest

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_serving.gpu.device import GpuDevice
from inferometer_serving.node.gpu.copies import (
    LOG2_LOCAL_SIZES,
    LOG2_SIZES,
    copies_of_kind,
    local_copies,
)
from inferometer_serving.node.gpu.memory import host_latency
from support.judged_rates import compare_in_turn
from support.requirements import cannot_run

_PLACE: Mapping[str, object] = {"node": 0, "gpu": 0}
_ROUNDS = 6
_NVBANDWIDTH = "NVBANDWIDTH"
"""The environment variable with the path of the judge."""
_CASES = {
    "host_to_device_memcpy_ce": 1e9,
    "device_to_host_memcpy_ce": 1e9,
    "host_to_device_bidirectional_memcpy_ce": 1e9,
    "device_to_host_bidirectional_memcpy_ce": 1e9,
    "device_local_copy": 1e9,
    "host_device_latency_sm": 1e-9,
}


@pytest.fixture
def nvbandwidth(gpu: GpuDevice) -> Path:
    """Return NVIDIA's program, which the environment variable names or the path has."""
    assert gpu.index == 0
    found = os.environ.get(_NVBANDWIDTH) or shutil.which("nvbandwidth")
    if found is None or not Path(found).exists():
        cannot_run(
            f"nvbandwidth is missing: build github.com/NVIDIA/nvbandwidth, and name the program in "
            f"{_NVBANDWIDTH}."
        )
    return Path(found)


def _largest(figures: Iterable[NodeFigure], name: str) -> NodeFigure:
    return max(
        (each for each in figures if each.name == name), key=lambda each: int(each.setting["bytes"])
    )


def _of_nvbandwidth(program: Path) -> dict[str, float]:
    """Return its rates, and the inverse of its latency, of the first GPU."""
    done = subprocess.run(
        [program, "--json", "--bufferSize", "256", "--testSamples", "3", "--testcase", *_CASES],
        capture_output=True,
        text=True,
        check=True,
    )
    cases = {
        each["name"]: float(each["bandwidth_matrix"][0][0])
        for each in json.loads(done.stdout)["nvbandwidth"]["testcases"]
    }
    to_gpu, to_host, both_to_gpu, both_to_host, local, latency = (cases[each] for each in _CASES)
    return {
        "PinnedToGPU": to_gpu * 1e9,
        "GPUToPinned": to_host * 1e9,
        "Duplex_Pinned": (both_to_gpu + both_to_host) * 1e9,
        "GPUToGPU": local * 1e9,
        "hostLatency": 1e9 / latency,
    }


def _of_probes(gpu: GpuDevice) -> dict[str, float]:
    found = [
        *copies_of_kind(gpu, "Pinned", [1 << LOG2_SIZES[-1]], _PLACE),
        *local_copies(gpu, _PLACE, LOG2_LOCAL_SIZES[-1:]),
    ]
    [latency] = host_latency(gpu, _PLACE)
    return {
        **{
            name: _largest(found, f"cudaMemcpyAsync_{name}").value
            for name in ("PinnedToGPU", "GPUToPinned", "Duplex_Pinned", "GPUToGPU")
        },
        "hostLatency": 1e9 / latency.value,
    }


def test_transfers_are_as_fast_as_those_of_nvbandwidth(gpu: GpuDevice, nvbandwidth: Path) -> None:
    """Copies each way, both ways and within the GPU, and latency, are within 5 %, in turn."""
    found = compare_in_turn(
        partial(_of_probes, gpu), partial(_of_nvbandwidth, nvbandwidth), _ROUNDS
    )
    for name, ratio in found.ratios.items():
        sys.stderr.write(f"{name}: {ratio.describe()}\n")
    found.require()
