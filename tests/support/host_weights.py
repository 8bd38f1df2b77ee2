"""The memory of a GPU, played by memory of the host that processes share by file descriptor."""

import ctypes
import mmap
import os
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from inferometer_models.cache_eviction import EvictionPolicy
from inferometer_serving.gpu.broker.layout import WeightLayout, windows
from inferometer_serving.gpu.broker.memory import fill
from inferometer_serving.gpu.broker.payoff import SharingConstants
from inferometer_serving.gpu.broker.server import Broker, listen
from inferometer_serving.gpu.broker.weight_cache import WeightCache

PAGE_BYTES = 4096
SHARING_PAYS = SharingConstants(1e9, 0.0, 0.0)


class HostBlock:
    """Weights in a file in memory."""

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        self._descriptor = descriptor
        self.mapping = mmap.mmap(descriptor, size_bytes)
        self.is_free = False

    @property
    def address(self) -> int:
        """Where they lie."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self.mapping))

    def export(self) -> int:
        """Return a further descriptor of the file."""
        return os.dup(self._descriptor)

    def free(self) -> None:
        """Give up the descriptor; what others have mapped stays."""
        self.is_free = True
        os.close(self._descriptor)

    def close(self) -> None:
        """Give up the descriptor."""
        self.free()


class HostMemory:
    """Counts loads; `on_load` is called in the middle of each."""

    def __init__(self) -> None:
        self.blocks: list[HostBlock] = []
        self.on_load: Callable[[], None] = lambda: None

    def allocated_bytes(self, size_bytes: int) -> int:
        """Return whole pages."""
        return -(-size_bytes // PAGE_BYTES) * PAGE_BYTES

    def load(self, descriptor: int, layout: WeightLayout) -> HostBlock:
        """Fill a file in memory."""
        size = self.allocated_bytes(layout.size_bytes)
        held = os.memfd_create("weights")
        os.truncate(held, size)
        block = HostBlock(held, size)
        self.on_load()
        for window in windows(layout, PAGE_BYTES):
            view = memoryview(block.mapping)[window.place : window.place + window.length]
            fill(view, window, descriptor)
        self.blocks.append(block)
        return block

    def open(self, descriptor: int, size_bytes: int) -> HostBlock:
        """Map what another one exported."""
        return HostBlock(os.dup(descriptor), self.allocated_bytes(size_bytes))


@contextmanager
def serving_broker(
    folder: Path,
    memory: HostMemory,
    *,
    quota_bytes: int = 1 << 20,
    policy: EvictionPolicy = "LRU",
    constants: SharingConstants = SHARING_PAYS,
    users: Collection[int] | None = None,
) -> Iterator[tuple[Path, Broker]]:
    """Serve this memory by a broker; yield its socket."""
    path = folder / "gpu.sock"
    given = {os.getuid()} if users is None else users
    broker = Broker(WeightCache(quota_bytes, policy), memory, constants, given)
    listener = listen(path, is_open=False)
    thread = threading.Thread(target=broker.serve, args=(listener,), daemon=True)
    thread.start()
    try:
        yield path, broker
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
