"""The shapes of the samples in a .npz file."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

from numpy.lib import format as npy

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.infer.signature import Shape, Signature


def array_shapes(path: Path) -> dict[str, Shape]:
    """Return the shape of each array of a .npz file by name, from their headers alone.

    Raises ModelRefusedError if the file cannot be read as one.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                name.removesuffix(".npy"): _shape(archive, name)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        # Not in numpy's words, which quote the file.
        raise ModelRefusedError(
            f"The inputs file {path} cannot be read as a .npz file: save it with numpy.savez."
        ) from error


def _shape(archive: zipfile.ZipFile, name: str) -> Shape:
    with archive.open(name) as file:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, _ = read(file)
        return tuple(shape)


def sample_shapes(
    signature: Signature, batch_size: int, arrays: Mapping[str, Shape]
) -> dict[str, Shape]:
    """Return the whole shape of each input with open axes in a request of `batch_size` samples.

    The first axis of an array counts its samples. Where the model has a batch axis, or the batch
    is larger than 1, samples are joined along it; else a sample is the input as it stands.
    """
    shapes = {}
    for spec in signature.inputs:
        array = arrays.get(spec.name)
        if array and any(axis < 0 for axis in spec.shape):
            joins = spec.has_open_batch or batch_size > 1
            shapes[spec.name] = (batch_size, *array[1:]) if joins else array[1:]
    return shapes
