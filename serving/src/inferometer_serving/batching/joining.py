"""Joining requests into one batch, and splitting the outputs between them.

The first axis of every input and output counts samples. Joining and splitting move bytes and change
none: what an instance computes for a sample is what it computes for it alone, as far as the runtime
computes a batch as it computes one sample.
"""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.errors import invalid
from inferometer_serving.infer.signature import Signature, TensorSpec
from inferometer_serving.infer.tensors import Array

_KEEP_UP_TO_BYTES = 64 << 20


class NotJoinableError(ValueError):
    """An output has not one row for each sample, so it cannot be split."""


def check_joinable(signature: Signature) -> None:
    """Raise ModelRefusedError if a tensor has no batch axis: an open first one."""
    for kind, specs in (("input", signature.inputs), ("output", signature.outputs)):
        for spec in specs:
            if not spec.has_open_batch:
                raise ModelRefusedError(_unjoinable(kind, spec))


def samples_of(inputs: Mapping[str, Array]) -> int:
    """Return how many samples a request has. Raises RequestRefusedError if inputs differ."""
    samples: int | None = None
    first = ""
    for name, array in inputs.items():
        if samples is None:
            samples, first = len(array), name
        elif len(array) != samples:
            raise invalid(
                f"Input '{first}' has {samples} samples and input '{name}' has {len(array)}: the "
                "first axis of all inputs is the batch; send as many in each."
            )
    return samples or 0


def key_of(inputs: Mapping[str, Array], output_names: Sequence[str], parameters: bytes) -> Hashable:
    """Return what two requests must have in common to be joined."""
    shapes = tuple(sorted((name, array.shape[1:]) for name, array in inputs.items()))
    return shapes, tuple(output_names), parameters


class Joiner:
    """Joins requests for one instance, always in the same memory, as one batch goes at a time."""

    def __init__(self, max_samples: int) -> None:
        self._max_samples = max_samples
        self._buffers: dict[str, Array] = {}

    def joined(self, requests: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """Return the inputs of all requests one behind the other; valid until the next call."""
        return {name: self._rows(name, [each[name] for each in requests]) for name in requests[0]}

    def _rows(self, name: str, parts: list[Array]) -> Array:
        first = parts[0]
        if first.dtype == np.object_:
            return np.concatenate(parts)
        rows = sum(map(len, parts))
        memory = self._memory(name, first)
        return np.concatenate(parts, out=memory[:rows])

    def _memory(self, name: str, like: Array) -> Array:
        shape = (self._max_samples, *like.shape[1:])
        buffer = self._buffers.get(name)
        if buffer is None or buffer.shape != shape:
            buffer = np.empty(shape, dtype=like.dtype)
            if buffer.nbytes <= _KEEP_UP_TO_BYTES:
                self._buffers[name] = buffer
        return buffer


def split(results: Sequence[Array], samples: Sequence[int]) -> list[list[Array]]:
    """Return each request's rows of every output, in the order of the requests; nothing is copied.

    Raises NotJoinableError if an output does not have as many rows as the requests have samples.
    """
    total = sum(samples)
    for result in results:
        if result.ndim == 0 or len(result) != total:
            raise NotJoinableError(
                f"an output of shape {list(result.shape)} came from {total} samples"
            )
    parts: list[list[Array]] = []
    start = 0
    for count in samples:
        parts.append([result[start : start + count] for result in results])
        start += count
    return parts


def _unjoinable(kind: str, spec: TensorSpec) -> str:
    return (
        f"Dynamic batching is enabled, but the {kind} '{spec.name}' of the model has the shape "
        f"{list(spec.shape)}, whose first axis is not open (-1): requests can be joined along an "
        "open first axis of all inputs and outputs only. Leave batching out (--max-batch-size), or "
        "export the model with an open batch axis."
    )
