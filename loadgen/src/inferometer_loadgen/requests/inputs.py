"""Inputs of requests: their types, shapes and sizes, and seeded random tensors."""

from collections.abc import Mapping, Sequence
from copy import copy
from math import prod
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from inferometer_api.results.result import Tensor
from inferometer_loadgen.schedule.arrivals import Stream, generator

Array = NDArray[Any]
Tensors = dict[str, Array]
"""One request's inputs by name."""

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "BYTES": np.dtype(np.object_),
}
"""The numpy type of each datatype of the Open Inference Protocol."""

POOL_BYTES = 256 * 1024 * 1024
"""The largest pool of encoded requests; large requests make a pool smaller."""

_MOST_REQUEST_MIB = 2047
"""The largest size of one request's tensors: a gRPC message has less than 2 GiB."""

LONGEST_POOL = 4096
_MOST_AXES = 64
"""So many numpy's arrays may have."""
_RANDOM_BYTES = 8
_TOKENS = 100
"""Random integers stay below it: every vocabulary has that many tokens."""


class InputRefusedError(ValueError):
    """The inputs cannot be sent or do not fit the model; the message says what to change."""


class InputSource(Protocol):
    """Source of the tensors of a pool of requests."""

    @property
    def count(self) -> int:
        """The number of different requests."""

    def request(self, index: int) -> Tensors:
        """Return the inputs of one request."""


def fit_shapes(
    tensors: Sequence[Tensor], given: Mapping[str, Sequence[int]], batch_size: int
) -> dict[str, tuple[int, ...]]:
    """Return the shape of each input in a request of `batch_size` samples.

    An open first axis is the batch axis; every other open axis must be given. Raises
    InputRefusedError, also if such a request would be too large.
    """
    names = [tensor.name for tensor in tensors]
    for name in given:
        if name not in names:
            raise InputRefusedError(
                f"spec.load.inputs.random.shapes names the input {name!r}, but the model's inputs "
                f"are {quoted_names(names)}: use one of these names."
            )
    check_batch(tensors, batch_size)
    shapes = {tensor.name: _fit(tensor, given.get(tensor.name), batch_size) for tensor in tensors}
    check_size(tensors, shapes, batch_size)
    return shapes


def check_taken(batch_size: int, max_batch_size: int | None) -> None:
    """Raise InputRefusedError if the batch is larger than the server reports to accept."""
    if max_batch_size is not None and batch_size > max_batch_size:
        raise InputRefusedError(
            f"The server accepts at most {max_batch_size} samples per request (max_batch_size in "
            f"its model configuration), but a batch of {batch_size} is requested: use smaller "
            f"batches, or raise max_batch_size."
        )


def has_batch_axis(tensor: Tensor) -> bool:
    """Return whether a tensor's first axis is open."""
    return bool(tensor.shape) and tensor.shape[0] < 0


def check_batch(tensors: Sequence[Tensor], batch_size: int) -> None:
    """Raise InputRefusedError if the inputs have no axis for a batch of this size."""
    if batch_size == 1 or any(map(has_batch_axis, tensors)):
        return
    if all(tensor.shape[:1] == [batch_size] for tensor in tensors):
        return
    shapes = "; ".join(f"{tensor.name}: {tensor.shape}" for tensor in tensors)
    raise InputRefusedError(
        f"A batch of {batch_size} is requested, but no input of the model has an open first axis "
        f"({shapes}): use batch size 1, or export the model with an open batch axis."
    )


def check_size(
    tensors: Sequence[Tensor], shapes: Mapping[str, Sequence[int]], batch_size: int
) -> None:
    """Raise InputRefusedError if one request has more bytes or axes than can be sent."""
    deep = next((name for name, shape in shapes.items() if len(shape) > _MOST_AXES), None)
    if deep is not None:
        raise InputRefusedError(
            f"The input {deep!r} has {len(shapes[deep])} axes, and at most {_MOST_AXES} can be "
            f"sent: export the model with fewer."
        )
    size = request_bytes(tensors, shapes)
    if size > _MOST_REQUEST_MIB * 1024 * 1024:
        tensors_text = "; ".join(
            f"{each.name}: {each.datatype} {list(shapes[each.name])}" for each in tensors
        )
        raise InputRefusedError(
            f"A request of batch {batch_size} has {size} bytes ({tensors_text}), and at most "
            f"{_MOST_REQUEST_MIB} MiB can be sent: use a smaller batch, or smaller inputs where "
            f"the model has open axes."
        )


def request_bytes(tensors: Sequence[Tensor], shapes: Mapping[str, Sequence[int]]) -> int:
    """Return the bytes of one request's tensors."""
    # numpy counts the other axes of an empty tensor, too.
    return sum(
        prod(max(1, axis) for axis in shapes[each.name]) * bytes_each(each.datatype)
        for each in tensors
    )


def _fit(tensor: Tensor, given: Sequence[int] | None, batch_size: int) -> tuple[int, ...]:
    if given is None:
        given = tensor.shape
        if any(axis < 0 for axis in tensor.shape[1:]):
            raise InputRefusedError(
                f"The input {tensor.name!r} has the shape {tensor.shape}, in which -1 is open: "
                f"give the whole shape, as spec.load.inputs.random.shapes: "
                f"{{{tensor.name}: {[abs(axis) for axis in tensor.shape]}}}."
            )
    if len(given) != len(tensor.shape):
        raise InputRefusedError(
            f"spec.load.inputs.random.shapes gives {tensor.name!r} the shape {list(given)} of rank "
            f"{len(given)}, but the model's input has rank {len(tensor.shape)}: {tensor.shape}. "
            f"Give the whole shape, batch axis included."
        )
    for axis, (given_size, own) in enumerate(zip(given, tensor.shape, strict=True)):
        if own not in {-1, given_size}:
            raise InputRefusedError(
                f"spec.load.inputs.random.shapes gives {tensor.name!r} the shape {list(given)}, "
                f"but its axis {axis} is {own} in the model's {tensor.shape}: only -1 is free."
            )
    return (batch_size, *given[1:]) if has_batch_axis(tensor) else tuple(given)


class RandomSource:
    """Seeded random tensors: floats in [0, 1), integers of 0 to 99, booleans, short strings.

    Integer inputs named as masks are all ones, and those named as token types or segments are all
    zeros: other values mean nothing to a model.
    """

    def __init__(
        self,
        tensors: Sequence[Tensor],
        shapes: Mapping[str, tuple[int, ...]],
        seed: int,
        pool_size: int,
    ) -> None:
        self._datatypes = {tensor.name: tensor.datatype for tensor in tensors}
        self._shapes = dict(shapes)
        self._seed = seed
        self.count = min(pool_size, most_requests(request_bytes(tensors, shapes)))

    def resized(self, count: int) -> "RandomSource":
        """Return this source with `count` requests."""
        found = copy(self)
        found.count = count
        return found

    def request(self, index: int) -> Tensors:
        """Return the inputs of one request; the same seed gives the same tensors."""
        random = generator(self._seed, Stream.INPUTS, index)
        return {
            name: _random_tensor(name, self._datatypes[name], shape, random)
            for name, shape in self._shapes.items()
        }


def most_requests(request_bytes: int) -> int:
    """Return how many requests of this size a pool may hold."""
    return max(1, min(LONGEST_POOL, POOL_BYTES // max(1, request_bytes)))


def bytes_each(datatype: str) -> int:
    """Return the bytes of one element on the wire; for BYTES those of a random one."""
    if datatype == "BYTES":
        return 4 + 2 * _RANDOM_BYTES
    return DTYPES[datatype].itemsize


def _random_tensor(
    name: str, datatype: str, shape: tuple[int, ...], random: np.random.Generator
) -> Array:
    dtype = DTYPES[datatype]
    match datatype:
        case "FP64":
            return random.random(shape)
        case "FP32" | "FP16" | "BF16":
            # numpy draws no shorter floats than these.
            return random.random(shape, dtype=np.float32).astype(dtype, copy=False)
        case "BOOL":
            return random.integers(0, 2, shape, dtype=np.uint8).astype(np.bool_)
        case "BYTES":
            strings = [random.bytes(_RANDOM_BYTES).hex().encode() for _ in range(prod(shape))]
            return np.array(strings, dtype=np.object_).reshape(shape)
        case _:
            return _random_integers(name, dtype, shape, random)


def _random_integers(
    name: str, dtype: np.dtype[Any], shape: tuple[int, ...], random: np.random.Generator
) -> Array:
    lowered = name.lower()
    if "mask" in lowered:
        return np.ones(shape, dtype)
    if "token_type" in lowered or "segment" in lowered:
        return np.zeros(shape, dtype)
    return random.integers(0, _TOKENS, shape, dtype=dtype)


def quoted_names(names: Sequence[str]) -> str:
    """Return names in quotes, or "none"."""
    return ", ".join(map(repr, names)) or "none"
