"""A client of the broker: opens the weights of a file in GPU memory."""

import contextlib
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from inferometer_serving.gpu.broker.layout import Extent, lay_out
from inferometer_serving.gpu.broker.memory import WeightMemory
from inferometer_serving.gpu.broker.messages import MessageError, receive, send

_ANSWER_SECONDS = 120.0
"""A broker that loads the weights first needs a while."""


class WeightsNotSharedError(Exception):
    """The weights are not shared; the text is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class SharedWeights:
    """Weights in shared memory, until they are closed."""

    addresses: tuple[int, ...]
    """One for each extent."""
    size_bytes: int
    is_hit: bool
    """Whether the broker had them already."""
    stack: ExitStack

    def close(self) -> None:
        """Give up the memory and the reference."""
        self.stack.close()


def open_weights(
    broker: Path, file: Path, extents: Sequence[Extent], memory: WeightMemory
) -> SharedWeights:
    """Return the extents of a file in shared memory. Raises WeightsNotSharedError."""
    layout = lay_out(extents)
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.settimeout(_ANSWER_SECONDS)
            connection.connect(str(broker))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                # A broker that ends the connection early has answered why.
                _request(connection, file, extents)
            answer, exported = receive(connection)
            if exported is None:
                raise WeightsNotSharedError(str(answer.get("message", "The broker refused.")))
            try:
                if answer.get("sizeBytes") != layout.size_bytes:
                    raise WeightsNotSharedError("The broker has another layout of the weights.")
                block = memory.open(exported, layout.size_bytes)
            finally:
                os.close(exported)
        except (OSError, RuntimeError, MessageError) as error:
            raise WeightsNotSharedError(
                f"The broker at {broker} cannot share weights: {error}."
            ) from error
        stack.callback(block.close)
        return SharedWeights(
            tuple(block.address + place for place in layout.places),
            layout.size_bytes,
            bool(answer.get("isHit")),
            stack.pop_all(),
        )


def _request(connection: socket.socket, file: Path, extents: Sequence[Extent]) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        listed = [[each.offset, each.length] for each in extents]
        send(connection, {"extents": listed}, descriptor)
    finally:
        os.close(descriptor)
