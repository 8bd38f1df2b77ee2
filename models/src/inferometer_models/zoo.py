"""The zoo: the list of the built-in models, their descriptions, graphs and weights."""

import csv
import hashlib
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from inferometer_api.spec.zoo_address import zoo_model

Shape = tuple[int | str, ...]
"""Integers for fixed dimensions, a name ("batch") for an open one."""

DATA_SUFFIX = ".onnx.data"
"""The weights of NAME.onnx are expected next to it in NAME.onnx.data."""

INDEX_COLUMNS = (
    "name",
    "task",
    "input_type",
    "input_shape",
    "output_type",
    "output_shape",
    "operators",
    "parameters",
    "macs",
    "opset",
    "onnx_bytes",
    "xz_bytes",
    "sha256",
    "weights_bytes",
    "weights_sha256",
    "origin",
    "weights",
)
"""The header of graphs/index.csv."""


class DamagedModelError(RuntimeError):
    """A packaged graph that is missing, or whose bytes are not those that the index names."""


@dataclass(frozen=True, slots=True)
class ZooEntry:
    """One row of the index: what a caller may know about a model before it loads the model."""

    name: str
    """The task and the model, as in a `zoo://` address: "classification/resnet50"."""
    task: str
    input_datatype: str
    """The Open Inference Protocol's word for the datatype of the one input, "input"."""
    input_shape: Shape
    output_datatype: str
    """As input_datatype, of the one output, "output"."""
    output_shape: Shape
    operators: int
    """Nodes of the graph without Constant and ConstantOfShape."""
    parameters: int
    """Numbers that training would learn: the weights without the statistics of normalisations."""
    macs: int
    """Multiply-accumulate operations of one sample, in convolutions and matrix products."""
    opset: int
    """Version of the default ONNX operator set."""
    onnx_bytes: int
    """Size of the ONNX file, which holds the graph."""
    xz_bytes: int
    """Size of the compressed ONNX file, as it is packaged."""
    sha256: str
    """Checksum of the decompressed ONNX file, 64 lower-case hexadecimal digits. The file contains
    weights_sha256, so this identifies graph and weights."""
    weights_bytes: int
    """Size of the file of the weights."""
    weights_sha256: str
    """Checksum of the file of the weights."""
    origin: str
    """The public library that the graph was exported from, and its licence."""
    weights: str
    """How the weights are drawn, as `weights.read_draws` reads it."""

    @property
    def bare_name(self) -> str:
        """The name without the task."""
        return self.name.rpartition("/")[2]

    @property
    def size_bytes(self) -> int:
        """Size of the ONNX file and its weights together."""
        return self.onnx_bytes + self.weights_bytes

    @property
    def weights_file(self) -> str:
        """The name of the file of the weights, which has to lie next to the ONNX file."""
        return f"{self.bare_name}{DATA_SUFFIX}"


def names() -> tuple[str, ...]:
    """Return the full names of all built-in models, sorted."""
    return tuple(_index())


def entries() -> tuple[ZooEntry, ...]:
    """Return the entries of all built-in models, in the order of `names`."""
    return tuple(_index().values())


def entry(name: str) -> ZooEntry:
    """Return the entry of a full name ("classification/resnet50") or of a bare one ("resnet50").

    Raises UnknownModelError if no model has that name, or several share the bare one.
    """
    return _index()[zoo_model(name)]


def read_onnx(name: str) -> bytes:
    """Return the decompressed ONNX file of a model named as for `entry`, without its weights.

    Its checksum has been compared with the index. Raises UnknownModelError, or DamagedModelError
    where the packaged file is missing, cannot be decompressed or has another checksum.
    """
    found = entry(name)
    file = _graphs().joinpath(found.task, f"{found.bare_name}.onnx.xz")
    remedy = "install Inferometer again."
    try:
        content = lzma.decompress(file.read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise DamagedModelError(
            f'The built-in model "{found.name}" cannot be read from {file} ({error}): {remedy}'
        ) from error
    checksum = hashlib.sha256(content).hexdigest()
    if checksum != found.sha256:
        raise DamagedModelError(
            f'The built-in model "{found.name}" should have the sha256 {found.sha256}, but '
            f"{file} has {checksum}: {remedy}"
        )
    return content


def weight_chunks(name: str) -> Iterator[bytes]:
    """Yield the file of a model's weights piece by piece; raises UnknownModelError.

    The pieces are made here, the same on every machine; the index has the checksum of the whole.
    """
    from inferometer_models import weights  # noqa: PLC0415 - numpy, which a cached model spares

    return weights.chunks(weights.read_draws(entry(name).weights))


@cache
def _index() -> dict[str, ZooEntry]:
    """Read the index once; the keys are full names in sorted order."""
    lines = _graphs().joinpath("index.csv").read_text(encoding="utf-8").splitlines()
    rows = [_entry(row) for row in csv.DictReader(lines)]
    return {row.name: row for row in sorted(rows, key=lambda row: row.name)}


def _entry(row: dict[str, str]) -> ZooEntry:
    return ZooEntry(
        name=f"{row['task']}/{row['name']}",
        task=row["task"],
        input_datatype=row["input_type"],
        input_shape=_shape(row["input_shape"]),
        output_datatype=row["output_type"],
        output_shape=_shape(row["output_shape"]),
        operators=int(row["operators"]),
        parameters=int(row["parameters"]),
        macs=int(row["macs"]),
        opset=int(row["opset"]),
        onnx_bytes=int(row["onnx_bytes"]),
        xz_bytes=int(row["xz_bytes"]),
        sha256=row["sha256"],
        weights_bytes=int(row["weights_bytes"]),
        weights_sha256=row["weights_sha256"],
        origin=row["origin"],
        weights=row["weights"],
    )


def _shape(written: str) -> Shape:
    """Read "batchx3x224x224"; no dimension's name holds an "x"."""
    return tuple(int(part) if part.isdecimal() else part for part in written.split("x"))


def _graphs() -> Traversable:
    return resources.files(__package__).joinpath("graphs")
