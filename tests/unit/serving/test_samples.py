"""The server warms up with the shapes of the samples that it will receive."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.infer.datatypes import DATATYPES
from inferometer_serving.infer.signature import Shape, Signature, TensorSpec
from inferometer_serving.model.samples import array_shapes, sample_shapes


def _signature(**inputs: Shape) -> Signature:
    specs = tuple(TensorSpec(name, DATATYPES["FP32"], shape) for name, shape in inputs.items())
    return Signature(inputs=specs, outputs=())


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_shapes_are_read_from_headers(tmp_path: Path, save: object) -> None:
    """Every array's shape is reported by its name, compressed or not."""
    assert callable(save)
    save(tmp_path / "a.npz", x=np.zeros((5, 3, 7)), y=np.zeros(5, "S4"), z=np.zeros(()))
    assert array_shapes(tmp_path / "a.npz") == {"x": (5, 3, 7), "y": (5,), "z": ()}


def test_a_later_header_is_read(tmp_path: Path) -> None:
    """Numpy's second version of the header, for long ones, is read too."""
    path = tmp_path / "x.npy"
    with path.open("wb") as file:
        npy.write_array(file, np.zeros((2, 9)), version=(2, 0))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.write(path, "x.npy")
    assert array_shapes(tmp_path / "a.npz") == {"x": (2, 9)}


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06" + b"\0" * 18])
def test_another_file_has_no_shapes(tmp_path: Path, content: bytes) -> None:
    """What is no .npz file is refused; an empty one has no arrays."""
    (tmp_path / "a.npz").write_bytes(content)
    if content.startswith(b"PK"):
        assert array_shapes(tmp_path / "a.npz") == {}
        return
    with pytest.raises(ModelRefusedError, match=r"cannot be read as a \.npz file"):
        array_shapes(tmp_path / "a.npz")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """A file that is not there is named."""
    with pytest.raises(ModelRefusedError, match=r"none\.npz cannot be read"):
        array_shapes(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("shape", "array", "batch", "expected"),
    [
        ((-1, 3, -1), (5, 3, 7), 4, (4, 3, 7)),
        ((-1, 3, -1), (5, 3, 7), 1, (1, 3, 7)),
        ((1, -1), (5, 1, 8), 1, (1, 8)),
        ((4, -1), (5, 8), 4, (4, 8)),
        ((-1,), (5,), 2, (2,)),
    ],
)
def test_a_sample_is_shaped_as_it_is_sent(
    shape: Shape, array: Shape, batch: int, expected: Shape
) -> None:
    """The first axis of an array counts samples, and the batch takes its place."""
    assert sample_shapes(_signature(x=shape), batch, {"x": array}) == {"x": expected}


def test_fixed_and_missing_inputs_are_left_alone() -> None:
    """An input without open axes has its shape already; an array of no input says nothing."""
    signature = _signature(fixed=(1, 3), missing=(-1, -1))
    assert sample_shapes(signature, 1, {"fixed": (9, 1, 3), "other": (2, 2)}) == {}
