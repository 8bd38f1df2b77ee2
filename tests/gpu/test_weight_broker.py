"""Weights in GPU memory that several processes use, on a real GPU."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from bench.gpu_weights import GpuModel, hold, in_turns, running_broker, write_models

from inferometer_serving.gpu.broker.client import WeightsNotSharedError, open_weights
from inferometer_serving.gpu.broker.layout import Extent, lay_out
from inferometer_serving.gpu.broker.messages import receive, send
from inferometer_serving.gpu.broker.payoff import measure_constants
from inferometer_serving.gpu.device import CudaError, GpuDevice, read, write
from inferometer_serving.gpu.shared_memory import GpuMemory
from support.waiting import wait_until

_MIB = 1 << 20
_STRANGER = 65534
"""A user with no rights."""


@pytest.fixture
def memory(gpu: GpuDevice) -> GpuMemory:
    """Share memory of the first GPU."""
    return GpuMemory(gpu)


@pytest.fixture
def broker(gpu: GpuDevice, tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", Any]]:
    """Run a broker of the first GPU in a process of its own."""
    assert gpu.index == 0
    with running_broker(tmp_path, "--quota", "1Gi") as found:
        yield found


def _bytes(address: int, count: int) -> bytes:
    found = np.zeros(count, np.uint8)
    read(address, found)
    return found.tobytes()


def _status(path: str) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        send(connection, {})
        return receive(connection)[0]


def test_what_is_loaded_has_its_tensors_in_their_places_and_nothing_of_other_models(
    memory: GpuMemory, tmp_path: Path
) -> None:
    """Gaps and the rest of CUDA's allocation are zero, after another model had the memory."""
    file = tmp_path / "weights"
    file.write_bytes(os.urandom(40 * _MIB))
    layout = lay_out([Extent(1, 33 * _MIB + 5), Extent(33 * _MIB + 6, 1001)])
    size = memory.allocated_bytes(layout.size_bytes)
    with file.open("rb") as opened:
        memory.load(opened.fileno(), lay_out([Extent(0, size)])).free()
        block = memory.load(opened.fileno(), layout)
    found, content = _bytes(block.address, size), file.read_bytes()
    block.free()
    end = 0
    for extent, place in zip(layout.extents, layout.places, strict=True):
        assert not any(found[end:place])
        end = place + extent.length
        assert found[place:end] == content[extent.offset : extent.offset + extent.length]
    assert not any(found[end:])


def test_constants_of_a_gpu_are_measured(memory: GpuMemory) -> None:
    """A load of 1 GB pays on every GPU, one of a kilobyte on none."""
    constants = measure_constants(memory)
    assert constants.seconds_saved(1 << 30) > 0
    assert constants.seconds_saved(1 << 10) < 0


def test_a_second_process_reads_the_weights_that_a_broker_loaded(
    broker: tuple["subprocess.Popen[str]", Any], memory: GpuMemory, tmp_path: Path
) -> None:
    """They stay readable when the broker is killed; a new client then hears why it gets none."""
    process, ready = broker
    path = Path(ready["socket"])
    file = tmp_path / "weights"
    file.write_bytes(os.urandom(64 * _MIB))
    extents = [Extent(0, 64 * _MIB)]
    first = open_weights(path, file, extents, memory)
    second = open_weights(path, file, extents, memory)
    assert (first.is_hit, second.is_hit) == (False, True)
    assert _status(ready["socket"])["references"] == 2
    first.close()
    wait_until(lambda: _status(ready["socket"])["references"] == 1, "the end of a reference")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert _bytes(second.addresses[0], 64 * _MIB) == file.read_bytes()
    with pytest.raises(WeightsNotSharedError, match="Connection refused"):
        open_weights(path, file, extents, memory)
    second.close()


def test_a_client_cannot_write_to_the_weights_by_mistake(memory: GpuMemory, tmp_path: Path) -> None:
    """It maps them for reading only."""
    file = tmp_path / "weights"
    file.write_bytes(os.urandom(_MIB))
    with file.open("rb") as opened:
        block = memory.load(opened.fileno(), lay_out([Extent(0, _MIB)]))
    descriptor = block.export()
    mapped = memory.open(descriptor, _MIB)
    os.close(descriptor)
    with pytest.raises(CudaError):
        write(mapped.address, np.zeros(_MIB, np.uint8))
    assert _bytes(mapped.address, _MIB) == file.read_bytes()
    mapped.close()
    block.free()


@pytest.fixture(scope="module")
def models() -> Iterator[tuple[GpuModel, ...]]:
    """Write models with real-size weights, which every user can read."""
    with TemporaryDirectory() as folder:
        written = write_models(Path(folder))
        for each in (Path(folder), *Path(folder).rglob("*")):
            each.chmod(0o755 if each.is_dir() else 0o644)
        yield written


@pytest.mark.usefixtures("cuda_provider")
def test_sessions_on_shared_weights_reply_alike_and_load_faster(
    broker: tuple["subprocess.Popen[str]", Any], models: tuple[GpuModel, ...], tmp_path: Path
) -> None:
    """ONNX Runtime copies none of the weights, and computes what it computes on its own."""
    assert broker
    for model in models:
        found = in_turns(model.path, tmp_path)
        assert found["weights"]["shared"].startswith("shared"), json.dumps(found)
        assert found["largestDifference"] <= 1e-3 * found["largestOutput"], json.dumps(found)
        assert found["deviceBytes"]["shared"] < found["deviceBytes"]["own"] - 0.9 * (
            model.weight_bytes
        ), json.dumps(found)


@pytest.mark.usefixtures("cuda_provider")
def test_a_killed_server_gives_up_its_reference_and_its_neighbour_goes_on(
    broker: tuple["subprocess.Popen[str]", Any], models: tuple[GpuModel, ...], tmp_path: Path
) -> None:
    """The kernel ends the connection of a process that ends."""
    _, ready = broker
    with hold(models[0].path, tmp_path, 2) as servers:
        assert {each.report["weights"].partition(":")[0] for each in servers} == {"shared"}
        assert _status(ready["socket"])["references"] == 2
        servers[0].process.kill()
        wait_until(lambda: _status(ready["socket"])["references"] == 1, "the end of a reference")
        assert servers[1].again()["sum"] == servers[1].report["sum"]


@pytest.mark.usefixtures("cuda_provider")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users")
@pytest.mark.parametrize(("admitted", "weights"), [(_STRANGER, "shared"), (1234, "own")])
def test_another_user_shares_weights_only_if_the_broker_admits_it(
    models: tuple[GpuModel, ...], admitted: int, weights: str
) -> None:
    """A server that is refused loads its own weights."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with (
            running_broker(Path(folder), "--quota", "1Gi", "--user", str(admitted)),
            hold(models[1].path, Path(folder), 1, user=_STRANGER) as (server,),
        ):
            assert server.report["weights"].partition(":")[0] == weights
            assert ("may not use this broker" in server.report["weights"]) is (weights == "own")
