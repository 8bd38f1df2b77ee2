"""The memory that is shared: what the broker and its clients need of a device."""

import os
from typing import Protocol

from inferometer_serving.gpu.broker.layout import CopyWindow, WeightLayout


class WeightBlock(Protocol):
    """The weights of one model, in the process that loaded them."""

    def export(self) -> int:
        """Return a file descriptor by which another process opens the memory. It owns it."""

    def free(self) -> None:
        """Give up the memory: it goes once no process has it open."""


class OpenedBlock(Protocol):
    """The weights of one model, in a process that opened them."""

    @property
    def address(self) -> int:
        """Where they lie, for this process."""

    def close(self) -> None:
        """Give up the memory."""


class WeightMemory(Protocol):
    """The memory of one device."""

    def allocated_bytes(self, size_bytes: int) -> int:
        """Return what a model of this size takes."""

    def load(self, descriptor: int, layout: WeightLayout) -> WeightBlock:
        """Allocate memory and fill it from a file. Raises OSError and RuntimeError."""

    def open(self, descriptor: int, size_bytes: int) -> OpenedBlock:
        """Open what another process exported. Raises OSError and RuntimeError."""


def fill(buffer: memoryview, window: CopyWindow, descriptor: int) -> None:
    """Read a window from a file, and set to zero what lies between its pieces.

    What was in the buffer before is of another model. Raises OSError if the file is too short.
    """
    end = 0
    for piece in window.pieces:
        buffer[end : piece.place] = bytes(piece.place - end)
        end = piece.place + piece.length
        done = 0
        while done < piece.length:
            into = buffer[piece.place + done : end]
            count = os.preadv(descriptor, [into], piece.file_offset + done)
            if not count:
                raise OSError("the file of weights ended early")
            done += count
    buffer[end : window.length] = bytes(window.length - end)
