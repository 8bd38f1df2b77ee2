"""Checks that a file is an ONNX model that is safe to open, and reads its graph."""

import hashlib
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType

import onnx
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from inferometer_models.errors import ModelRefusedError
from inferometer_models.foreign_file import is_lfs_pointer, reason_not_onnx

_CHUNK_BYTES = 1 << 20
_LFS_POINTER_BYTES = 1024
"""A pointer of Git LFS is shorter."""
_NONE_KNOWN: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GraphFile:
    """An ONNX file whose size, form and external data have been checked."""

    path: Path
    sha256: str
    """Of the ONNX file itself."""
    external_sha256: dict[str, str]
    """The hash of each external data file, by its path relative to the model."""
    size_bytes: int
    """The ONNX file and its external data together."""
    model: ModelProto
    """Without the external data."""


def read_graph(
    path: Path, *, max_bytes: int, known_sha256: Mapping[str, str] = _NONE_KNOWN
) -> GraphFile:
    """Return the checked ONNX file at `path`.

    `known_sha256` has checksums that were verified already, by paths relative to the model's
    folder; these files are not read for theirs.

    Raises ModelRefusedError if it is missing, larger than `max_bytes` with its external data,
    no ONNX model, or has external data outside its own folder.
    """
    size_bytes = _size(path, f"The model {path}")
    _check_size(path, size_bytes, max_bytes)
    model = _parse(path)
    ends = _external_ends(model)
    files = {location: _external_file(path, location) for location in ends}
    for location, file in files.items():
        what = f"The external data '{location}' of the model {path}"
        found_bytes = _size(file, what, "copy it to its place next to the model")
        _check_whole(file, what, found_bytes, ends[location])
        size_bytes += found_bytes
    _check_size(path, size_bytes, max_bytes)
    return GraphFile(
        path=path,
        sha256=known_sha256.get(path.name) or sha256_of(path),
        external_sha256={
            location: known_sha256.get(location) or sha256_of(file)
            for location, file in files.items()
        },
        size_bytes=size_bytes,
        model=model,
    )


def external_files(path: Path) -> tuple[Path, ...]:
    """Return where the ONNX file at `path` wants its external data, which need not be there yet.

    Raises ModelRefusedError if it is no ONNX model, or wants them outside its own folder.
    """
    locations = _external_ends(_parse(path))
    return tuple(sorted({_external_file(path, location) for location in locations}))


def sha256_of(path: Path) -> str:
    """Return the checksum of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _size(path: Path, what: str, remedy: str = "check the path") -> int:
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise ModelRefusedError(f"{what} is not there: {remedy}.") from error
    except OSError as error:
        raise ModelRefusedError(f"{what} cannot be read: {error.strerror or error}.") from error
    if not stat.S_ISREG(found.st_mode):
        raise ModelRefusedError(f"{what} is no file: name the file itself.")
    return found.st_size


def _check_size(path: Path, size_bytes: int, max_bytes: int) -> None:
    if size_bytes > max_bytes:
        raise ModelRefusedError(
            f"The model {path} has {size_bytes:,} bytes with its external data, and at most "
            f"{max_bytes:,} are allowed: raise the limit or take a smaller model."
        )


def _check_whole(file: Path, what: str, found_bytes: int, least_bytes: int) -> None:
    if found_bytes >= max(least_bytes, _LFS_POINTER_BYTES):
        return
    with file.open("rb") as opened:
        content = opened.read(_CHUNK_BYTES)
    if is_lfs_pointer(content):
        raise ModelRefusedError(f"{what} cannot be used: {reason_not_onnx(content)}")
    if found_bytes < least_bytes:
        raise ModelRefusedError(
            f"{what} is truncated: it has {found_bytes:,} bytes, and the model reads "
            f"{least_bytes:,}. Download or copy it again."
        )


def _parse(path: Path) -> ModelProto:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelRefusedError(
            f"The model {path} cannot be read: {error.strerror or error}."
        ) from error
    try:
        model = onnx.load_model_from_string(content)
    except DecodeError as error:
        raise _no_model(path, content) from error
    if model.ir_version < 1 or not (model.graph.output or model.graph.node):
        raise _no_model(path, content)
    if not model.graph.output:
        raise ModelRefusedError(
            f"The model {path} has no outputs: export it again with the outputs that it is for."
        )
    return model


def _no_model(path: Path, content: bytes) -> ModelRefusedError:
    return ModelRefusedError(f"The file {path} is not an ONNX model: {reason_not_onnx(content)}")


def _external_ends(model: ModelProto) -> dict[str, int]:
    """Return how many bytes each file of external data has at least, by its location."""
    nodes = (node for function in model.functions for node in function.node)
    ends: dict[str, int] = {}
    for tensor in chain(_tensors(model.graph), _node_tensors(nodes)):
        if tensor.data_location == TensorProto.EXTERNAL:
            entries = {each.key: each.value for each in tensor.external_data}
            location = entries.get("location")
            if location is None:
                raise ModelRefusedError(
                    f"The tensor '{tensor.name}' has external data without a location: "
                    "save the model again."
                )
            end = sum(_bytes(entries.get(key, "")) for key in ("offset", "length"))
            ends[location] = max(ends.get(location, 0), end)
    return dict(sorted(ends.items()))


def _bytes(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """Yield every tensor of a graph, those in attributes and subgraphs included."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for attribute in chain.from_iterable(node.attribute for node in nodes):
        yield attribute.t
        yield from attribute.tensors
        for graph in (attribute.g, *attribute.graphs):
            yield from _tensors(graph)


def _external_file(model: Path, location: str) -> Path:
    """Return the file of external data. Raises ModelRefusedError if it lies elsewhere."""
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).is_absolute()
    folder = model.parent.resolve()
    try:
        file = (folder / location).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelRefusedError(
            f"The model {model} names external data at {location!r}, which is no usable path "
            f"({error}): save the model again."
        ) from error
    if absolute or not file.is_relative_to(folder):
        raise ModelRefusedError(
            f"The model {model} refers to external data at '{location}', outside its own folder "
            f"{folder}: put the data next to the model and save it with a relative location."
        )
    return file
