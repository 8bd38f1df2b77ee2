"""Where does a body of known length go while it comes in?

The socket is read straight into the memory that the model computes on: for an image that saves two
copies and their page faults, a percent of what the inference itself takes.
"""

import numpy as np

from inferometer_serving.infer.tensors import Array

_ALIGNMENT_BYTES = 64
_KEEP_UP_TO_BYTES = 4 << 20


class SizedBody:
    """One connection's memory for bodies, used again for the next one where it is large enough."""

    def __init__(self) -> None:
        self._storage: Array = np.empty(0, dtype=np.uint8)
        self._body = memoryview(b"")
        self._filled_bytes = 0

    def begin(self, size: int, json_bytes: int, first: bytes) -> None:
        """Take a new body of `size` bytes, the `first` of which are here.

        What follows its `json_bytes` will be aligned as the client's own tensors are.
        """
        start = -json_bytes % _ALIGNMENT_BYTES
        needed = start + size + _ALIGNMENT_BYTES
        storage = self._storage
        if storage.nbytes < needed:
            storage = np.empty(needed, dtype=np.uint8)
            # much memory is not held for a connection that may never send as much again
            self._storage = storage if needed <= _KEEP_UP_TO_BYTES else self._storage
        start += -storage.ctypes.data % _ALIGNMENT_BYTES
        self._body = storage.data[start : start + size]
        self._body[: len(first)] = first
        self._filled_bytes = len(first)

    @property
    def space(self) -> memoryview:
        """Return the memory that is still to be filled."""
        return self._body[self._filled_bytes :]

    def fill(self, count: int) -> bool:
        """Count bytes that were written into `space`; say whether the body is whole."""
        self._filled_bytes += count
        return self._filled_bytes == len(self._body)

    def take(self) -> memoryview:
        """Return the body, which stays as it is until the next one begins."""
        body, self._body = self._body, memoryview(b"")
        return body
