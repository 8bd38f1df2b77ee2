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
        # The message of numpy is left out, because it quotes the content of the file.
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
    """Return the shape of each input with open axes in a request of `batch_size` samples.

    `arrays` has shapes by the name of the input; the first axis of each counts the samples. An
    input with an open batch axis, or any input if `batch_size` is above 1, gets `batch_size` as its
    first axis, followed by the axes of a sample. Other inputs get the axes of a sample alone.
    Inputs without an array are left out.
    """
    shapes = {}
    for spec in signature.inputs:
        array = arrays.get(spec.name)
        if array and any(axis < 0 for axis in spec.shape):
            joins = spec.has_open_batch or batch_size > 1
            shapes[spec.name] = (batch_size, *array[1:]) if joins else array[1:]
    return shapes
