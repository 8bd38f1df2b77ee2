"""An inference request that has been read and waits for its reply."""

from collections.abc import Callable, Hashable
from time import monotonic_ns
from typing import Generic, TypeVar

from inferometer_serving.infer.tensors import Array
from inferometer_serving.tracing import RequestTrace

T = TypeVar("T")

Done = Callable[[T | None, Exception | None], None]
"""Called once in the event loop, with an answer or with why there is none."""


Read = tuple[dict[str, Array], list[str], bytes, Callable[[list[Array]], T]]
"""What a request says once it is read: its inputs, the names of the outputs it wants, what it must
have in common with others to be joined, and what makes the answer of the outputs."""


class PendingRequest(Generic[T]):
    """One request that was read and checked, on its way through the model."""

    __slots__ = (
        "began_ns",
        "done",
        "inputs",
        "key",
        "output_names",
        "protocol",
        "read_ns",
        "ready_ns",
        "samples",
        "trace",
        "waits_since_ns",
        "write",
    )

    def __init__(  # noqa: PLR0913 - each is one fact of the request, and named
        self,
        *,
        protocol: str,
        began_ns: int,
        inputs: dict[str, Array],
        output_names: list[str],
        samples: int,
        key: Hashable,
        write: Callable[[list[Array]], T],
        trace: RequestTrace | None = None,
    ) -> None:
        self.protocol = protocol
        self.began_ns = began_ns
        """When its last byte was here, by the monotonic clock."""
        self.inputs = inputs
        self.output_names = output_names
        self.samples = samples
        self.key = key
        """Requests with equal keys may be joined."""
        self.write = write
        """Makes the answer of the outputs, in whichever thread computed them."""
        self.trace = trace
        """None: the request is not traced."""
        self.done: Done[T] | None = None
        """None after the call, or once the client has gone."""
        self.waits_since_ns = monotonic_ns()
        self.read_ns = self.waits_since_ns - began_ns
        self.ready_ns = self.waits_since_ns
        """When its batch was whole or due; set only if it is traced."""
