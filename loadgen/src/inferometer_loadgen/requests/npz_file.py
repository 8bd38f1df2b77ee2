"""Inputs of requests from a .npz file: each request takes its next samples."""

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from inferometer_api.results.result import Tensor
from inferometer_loadgen.requests.inputs import (
    DTYPES,
    Array,
    InputRefusedError,
    Tensors,
    check_batch,
    check_size,
    has_batch_axis,
    most_requests,
    quoted_names,
    request_bytes,
)


class FileSource:
    """The samples of a .npz file: one array for each input, whose first axis counts the samples.

    Requests take consecutive samples, and begin again at the first after the last.
    """

    def __init__(
        self, path: Path, arrays: Mapping[str, Array], tensors: Sequence[Tensor], batch_size: int
    ) -> None:
        check_batch(tensors, batch_size)
        self._path = path
        self._batch_size = batch_size
        self._joins = {tensor.name: has_batch_axis(tensor) or batch_size > 1 for tensor in tensors}
        self._arrays = {tensor.name: self._checked(tensor, arrays) for tensor in tensors}
        self._samples = self._sample_count()
        self.distinct = self._samples // gcd(self._samples, batch_size)
        shapes = {
            name: (batch_size if self._joins[name] else 1, *array.shape[1:])
            for name, array in self._arrays.items()
        }
        check_size(tensors, shapes, batch_size)
        self.count = min(self.distinct, most_requests(request_bytes(tensors, shapes)))
        for name in arrays:
            if name not in self._arrays:
                raise InputRefusedError(
                    f"{path} has an array {name!r}, but the model's inputs are "
                    f"{quoted_names(list(self._arrays))}: rename it or leave it out."
                )

    def request(self, index: int) -> Tensors:
        """Return the inputs of one request."""
        first = index * self._batch_size
        chosen = [(first + i) % self._samples for i in range(self._batch_size)]
        return {
            name: array[chosen] if self._joins[name] else array[chosen[0]]
            for name, array in self._arrays.items()
        }

    def _checked(self, tensor: Tensor, arrays: Mapping[str, Array]) -> Array:
        array = arrays.get(tensor.name)
        if array is None:
            raise InputRefusedError(
                f"{self._path} has no array for the model's input {tensor.name!r}; it has "
                f"{quoted_names(list(arrays))}."
            )
        wanted = DTYPES[tensor.datatype]
        if tensor.datatype == "BYTES":
            if array.dtype.kind not in {"S", "U"}:
                raise self._unfit(tensor, array, "strings (numpy's S or U)")
            array = _as_bytes(array)
        elif tensor.datatype == "BF16" and array.dtype == np.float32:
            # A .npz file cannot hold bfloat16.
            array = array.astype(wanted)
        elif array.dtype != wanted:
            raise self._unfit(tensor, array, f"type {wanted}")
        own = tensor.shape[1:] if self._joins[tensor.name] else tensor.shape
        shape = array.shape[1:]
        fits = len(shape) == len(own) and all(
            axis in {-1, size} for axis, size in zip(own, shape, strict=True)
        )
        if not array.ndim or not fits:
            raise self._unfit(tensor, array, f"shape [samples, {_axes(own)}]")
        return array

    def _unfit(self, tensor: Tensor, array: Array, wanted: str) -> InputRefusedError:
        return InputRefusedError(
            f"{self._path} gives {tensor.name!r} an array of type {array.dtype} and shape "
            f"{list(array.shape)}, but the model's input is {tensor.datatype} {tensor.shape}: it "
            f"needs {wanted}."
        )

    def _sample_count(self) -> int:
        counts = {name: len(array) for name, array in self._arrays.items()}
        if len(set(counts.values())) > 1 or not all(counts.values()):
            counted = ", ".join(f"{name}: {count}" for name, count in counts.items())
            raise InputRefusedError(
                f"The arrays of {self._path} must have the same number of samples, at least 1 "
                f"({counted})."
            )
        return next(iter(counts.values()), 1)


def read_npz(path: Path) -> dict[str, Array]:
    """Return the arrays of a .npz file; raises InputRefusedError if it cannot be read."""
    try:
        # numpy leaves a file open if it opened it and cannot read it.
        with path.open("rb") as opened:
            file = np.load(opened, allow_pickle=False)
            if isinstance(file, np.lib.npyio.NpzFile):
                return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise InputRefusedError(f"The inputs file {path} does not exist.") from None
    except OSError as error:
        raise InputRefusedError(f"The inputs file {path} cannot be read: {error}.") from error
    except (ValueError, BadZipFile, EOFError) as error:
        raise InputRefusedError(
            f"{path} is not a .npz file of plain arrays: create one with "
            "numpy.savez(PATH, NAME=array)."
        ) from error
    raise InputRefusedError(f"{path} is one array, not a .npz file: use numpy.savez.")


def _as_bytes(array: Array) -> Array:
    flat: Iterator[Any] = (
        item.encode() if isinstance(item, str) else bytes(item) for item in array.ravel().tolist()
    )
    found = np.empty(array.size, dtype=np.object_)
    found[:] = list(flat)
    return found.reshape(array.shape)


def _axes(shape: Sequence[int]) -> str:
    return ", ".join(map(str, shape))
