"""The broker of weights at its socket, with memory of the host in place of a GPU's."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import tiers
from inferometer_serving.gpu.broker import server
from inferometer_serving.gpu.broker.client import (
    SharedWeights,
    WeightsNotSharedError,
    open_weights,
)
from inferometer_serving.gpu.broker.layout import Extent, lay_out, windows
from inferometer_serving.gpu.broker.memory import fill
from inferometer_serving.gpu.broker.messages import receive, send
from inferometer_serving.gpu.broker.payoff import SharingConstants, measure_constants
from inferometer_serving.gpu.broker.server import Broker, listen
from support.host_weights import PAGE_BYTES, HostMemory, serving_broker
from support.waiting import result_of, wait_for_event, wait_until

_EXTENTS = (Extent(3, 1000), Extent(1003, 5000))
_SIZE_BYTES = 2 * PAGE_BYTES
"""What they take."""
_OPEN_AND_DIE = """
import os
from pathlib import Path

from inferometer_serving.gpu.broker.client import open_weights
from inferometer_serving.gpu.broker.layout import Extent
from support.host_weights import HostMemory

open_weights(Path({path!r}), Path({file!r}), {extents}, HostMemory())
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Write a file of weights."""
    path = tmp_path / "weights"
    path.write_bytes(os.urandom(8000))
    return path


def _read(weights: SharedWeights) -> list[bytes]:
    return [
        ctypes.string_at(address, extent.length)
        for address, extent in zip(weights.addresses, _EXTENTS, strict=True)
    ]


def _expected(file: Path) -> list[bytes]:
    content = file.read_bytes()
    return [content[each.offset : each.offset + each.length] for each in _EXTENTS]


def _wait_for_references(broker: Broker, count: int) -> None:
    wait_until(lambda: broker.status()["references"] == count, f"{count} references")


def test_two_clients_read_one_copy(tmp_path: Path, file: Path) -> None:
    """What one of them writes, the other one reads: the memory is the same."""
    memory = HostMemory()
    with serving_broker(tmp_path, memory) as (path, broker):
        first = open_weights(path, file, _EXTENTS, memory)
        second = open_weights(path, file, _EXTENTS, memory)
        assert (first.is_hit, second.is_hit) == (False, True)
        assert _read(first) == _read(second) == _expected(file)
        ctypes.memset(first.addresses[0], 7, 1)
        assert _read(second)[0][0] == 7
        assert broker.status()["references"] == 2
        first.close()
        second.close()
        _wait_for_references(broker, 0)
    assert len(memory.blocks) == 1


def test_clients_that_come_during_a_load_wait_for_it(tmp_path: Path, file: Path) -> None:
    """However many clients start one model at once, it is loaded once."""
    memory = HostMemory()
    loading, go_on = threading.Event(), threading.Event()

    def wait_in_load() -> None:
        loading.set()
        wait_for_event(go_on, "the test")

    memory.on_load = wait_in_load
    with serving_broker(tmp_path, memory) as (path, broker), ThreadPoolExecutor(4) as pool:
        opened = [pool.submit(open_weights, path, file, _EXTENTS, memory) for _ in range(4)]
        wait_for_event(loading, "the load")
        go_on.set()
        weights = [result_of(each, "the weights") for each in opened]
        assert [_read(each) for each in weights] == [_expected(file)] * 4
        assert (broker.status()["loads"], broker.status()["hits"]) == (1, 3)
        for each in weights:
            each.close()


def test_a_client_that_dies_gives_up_its_reference(tmp_path: Path, file: Path) -> None:
    """The kernel closes its connection; a full cache may then give its model up."""
    memory = HostMemory()
    other = tmp_path / "other"
    other.write_bytes(bytes(8000))
    with serving_broker(tmp_path, memory, quota_bytes=_SIZE_BYTES) as (path, broker):
        environment = {**os.environ, "PYTHONPATH": str(tiers.ROOT / "tests")}
        script = _OPEN_AND_DIE.format(path=str(path), file=str(file), extents=_EXTENTS)
        died = subprocess.run([sys.executable, "-c", script], check=False, env=environment)
        assert died.returncode == -signal.SIGKILL
        assert broker.status()["loads"] == 1
        _wait_for_references(broker, 0)
        with ExitStack() as stack:
            weights = open_weights(path, other, _EXTENTS, memory)
            stack.callback(weights.close)
            assert _read(weights) == _expected(other)
            assert memory.blocks[0].is_free
            assert broker.status()["evictions"] == 1


def test_a_model_without_room_is_refused_while_others_use_it(tmp_path: Path, file: Path) -> None:
    """The client hears why; a server that has weights keeps them."""
    memory = HostMemory()
    other = tmp_path / "other"
    other.write_bytes(bytes(8000))
    with serving_broker(tmp_path, memory, quota_bytes=_SIZE_BYTES) as (path, broker):
        weights = open_weights(path, file, _EXTENTS, memory)
        with pytest.raises(WeightsNotSharedError, match="models in use take the rest"):
            open_weights(path, other, _EXTENTS, memory)
        assert _read(weights) == _expected(file)
        assert broker.status()["refusals"] == 1
        weights.close()


def test_a_model_that_cannot_be_freed_keeps_no_other_one_out(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client hears why; the others that had to leave are free, and a new try loads."""
    memory = HostMemory()
    other, large = tmp_path / "other", tmp_path / "large"
    other.write_bytes(bytes(8000))
    large.write_bytes(bytes(3 * PAGE_BYTES))
    extents = (Extent(0, 3 * PAGE_BYTES),)
    with serving_broker(tmp_path, memory, quota_bytes=2 * _SIZE_BYTES) as (path, broker):
        for each in (file, other):
            open_weights(path, each, _EXTENTS, memory).close()
        _wait_for_references(broker, 0)
        stuck, freed = memory.blocks

        def fail() -> None:
            raise RuntimeError("cuMemUnmap failed")

        monkeypatch.setattr(stuck, "free", fail)
        with pytest.raises(WeightsNotSharedError, match="could not be shared: cuMemUnmap failed"):
            open_weights(path, large, extents, memory)
        assert broker.status()["usedBytes"] == 0
        assert freed.is_free
        with ExitStack() as stack:
            weights = open_weights(path, large, extents, memory)
            stack.callback(weights.close)
            assert not weights.is_hit


def test_weights_stay_readable_after_the_end_of_the_broker(tmp_path: Path, file: Path) -> None:
    """A client goes on; a new one hears that no broker answers."""
    memory = HostMemory()
    with serving_broker(tmp_path, memory) as (path, _):
        weights = open_weights(path, file, _EXTENTS, memory)
    memory.blocks[0].free()
    assert _read(weights) == _expected(file)
    with pytest.raises(WeightsNotSharedError, match="Connection refused"):
        open_weights(path, file, _EXTENTS, memory)
    weights.close()


def test_a_file_that_was_written_anew_is_another_model(tmp_path: Path, file: Path) -> None:
    """A client does not get the weights that a file once had."""
    memory = HostMemory()
    with serving_broker(tmp_path, memory) as (path, _):
        open_weights(path, file, _EXTENTS, memory).close()
        file.write_bytes(os.urandom(8000))
        weights = open_weights(path, file, _EXTENTS, memory)
        assert _read(weights) == _expected(file)
        weights.close()


def test_a_file_that_changes_while_it_is_read_is_not_shared(tmp_path: Path, file: Path) -> None:
    """A mixture of two contents would be kept under the name of one."""
    memory = HostMemory()

    def write_anew() -> None:
        file.write_bytes(os.urandom(8000))

    memory.on_load = write_anew
    with serving_broker(tmp_path, memory) as (path, broker):
        with pytest.raises(WeightsNotSharedError, match="changed while it was read"):
            open_weights(path, file, _EXTENTS, memory)
        assert broker.status()["usedBytes"] == 0
    assert memory.blocks[0].is_free


def test_weights_that_cannot_be_checked_after_the_load_are_freed(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that no model has would be lost to all."""
    memory = HostMemory()

    def fail(descriptor: int) -> os.stat_result:
        raise OSError(f"descriptor {descriptor} is stale")

    memory.on_load = lambda: monkeypatch.setattr(server, "check_readable", fail)
    with serving_broker(tmp_path, memory) as (path, broker):
        with pytest.raises(WeightsNotSharedError, match="is stale"):
            open_weights(path, file, _EXTENTS, memory)
        assert broker.status()["usedBytes"] == 0
    assert memory.blocks[0].is_free


def test_another_user_is_refused(tmp_path: Path, file: Path) -> None:
    """The kernel says who connects."""
    memory = HostMemory()
    with (
        serving_broker(tmp_path, memory, users={os.getuid() + 1}) as (path, _),
        pytest.raises(WeightsNotSharedError, match="may not use this broker"),
    ):
        open_weights(path, file, _EXTENTS, memory)
    assert not memory.blocks


def test_a_user_who_is_refused_holds_no_place(tmp_path: Path) -> None:
    """The broker does not wait for the request of a process that it refuses anyway."""
    with (
        serving_broker(tmp_path, HostMemory(), users={os.getuid() + 1}) as (path, _),
        socket.socket(socket.AF_UNIX) as connection,
    ):
        connection.connect(str(path))
        answer, _ = receive(connection)
        assert answer["reason"] == "UserNotAllowed"
        assert connection.recv(1) == b""


def test_a_model_is_not_shared_if_that_costs_more_than_a_load(tmp_path: Path, file: Path) -> None:
    """The rule of TrIMS decides before anything is loaded."""
    memory = HostMemory()
    with (
        serving_broker(tmp_path, memory, constants=SharingConstants(1e9, 0.001, 0.001)) as (
            path,
            _,
        ),
        pytest.raises(WeightsNotSharedError, match="more than it saves"),
    ):
        open_weights(path, file, _EXTENTS, memory)
    assert not memory.blocks


def _answer(path: Path, extents: Any, descriptor: int) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        send(connection, {"extents": extents}, descriptor)
        answer, exported = receive(connection)
        assert exported is None
        return answer


def test_a_descriptor_without_the_right_to_read_proves_nothing(tmp_path: Path, file: Path) -> None:
    """A path can be opened without that right (O_PATH), or for writing only."""
    memory = HostMemory()
    with serving_broker(tmp_path, memory) as (path, _):
        open_weights(path, file, _EXTENTS, memory).close()
        for flags in (os.O_PATH, os.O_WRONLY):
            descriptor = os.open(file, flags)
            answer = _answer(path, [[3, 1000], [1003, 5000]], descriptor)
            os.close(descriptor)
            assert answer["reason"] == "BadRequest"
            assert "not open for reading" in answer["message"]
        folder = os.open(tmp_path, os.O_RDONLY)
        assert "no regular file" in _answer(path, [[0, 1]], folder)["message"]
        os.close(folder)


@pytest.mark.parametrize(
    "extents",
    [None, [], [[0]], [[-1, 10]], [[0, 0]], [[7999, 2]], [["0", 1]], {"a": 1}],
)
def test_extents_outside_the_file_are_refused(tmp_path: Path, file: Path, extents: Any) -> None:
    """A client cannot make the broker read what is not there."""
    with serving_broker(tmp_path, HostMemory()) as (path, _):
        descriptor = os.open(file, os.O_RDONLY)
        assert _answer(path, extents, descriptor)["reason"] == "BadRequest"
        os.close(descriptor)


def test_what_a_buffer_held_before_does_not_reach_the_gaps_between_tensors(file: Path) -> None:
    """It may be of another namespace's model."""
    layout = lay_out(_EXTENTS)
    (window,) = windows(layout, 1 << 20)
    buffer = bytearray(b"\xff" * layout.size_bytes)
    with file.open("rb") as opened:
        fill(memoryview(buffer), window, opened.fileno())
    first, second = _expected(file)
    gap = bytes(layout.places[1] - len(first))
    assert bytes(buffer) == first + gap + second + bytes(len(buffer) - len(first + gap + second))


def test_constants_are_measured_and_leave_nothing_behind() -> None:
    """Loads, exports and openings of a sample, on the memory itself."""
    memory = HostMemory()
    constants = measure_constants(memory)
    assert constants.load_bytes_per_second > 0
    assert constants.export_seconds > 0
    assert constants.open_seconds > 0
    assert all(each.is_free for each in memory.blocks)


def test_a_broker_takes_the_place_of_a_dead_one_but_not_of_a_living_one(tmp_path: Path) -> None:
    """A socket without a listener is a leftover."""
    path = tmp_path / "gpu.sock"
    first = listen(path, is_open=False)
    with pytest.raises(OSError, match="another broker serves"):
        listen(path, is_open=False)
    first.close()
    second = listen(path, is_open=True)
    assert path.stat().st_mode & 0o777 == 0o666
    second.close()
