"""Prints the locations of the external data of the ONNX model on standard input, as JSON.

The graph is read without its weights, so that the memory it takes does not grow with them.
"""

import json
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from onnx import ModelProto, TensorProto

from inferometer_fetch.cache.errors import GRAPH_TOO_LARGE_EXIT
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import external_files

if TYPE_CHECKING:  # only the library's stubs define it
    from google._upb._message import Descriptor as UpbDescriptor
    from google.protobuf.descriptor import Descriptor

_MODEL = Path("/proc/self/fd/0")
_GRAPH_BYTES = 32 << 20
_MEMORY_BYTES = 512 << 20
"""For a graph of that size, in the parser's form."""
_LONGEST_BYTES = 64 << 10
"""Longer values are weights in attributes, or texts."""
_KEPT_OF_TENSORS = frozenset({"name", "external_data", "data_location"})
_NUMBER, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_FIXED_BYTES = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}


def main() -> int:
    """Print the locations relative to the model; return the exit code."""
    _limit_memory()
    graph = _MODEL
    try:
        with suppress(_NoMessageError):  # the parser says what the file is
            graph = _without_weights()
        files = external_files(graph)
    except ModelRefusedError as error:
        sys.stderr.write(f"{error}\n".replace(str(graph), "of the volume"))
        return 2
    except (MemoryError, RecursionError):
        sys.stderr.write(
            f"The graph of the model has over {_GRAPH_BYTES >> 20} MiB without its weights, or is "
            "nested too deeply, for the model cache to read: fetch it without the cache.\n"
        )
        return GRAPH_TOO_LARGE_EXIT
    folder = graph.parent.resolve()
    sys.stdout.write(json.dumps([file.relative_to(folder).as_posix() for file in files]))
    return 0


class _NoMessageError(Exception):
    """A file is no message of Protocol Buffers."""


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + _MEMORY_BYTES
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _without_weights() -> Path:
    """Return a file in memory with the model on standard input, but without its weights."""
    with os.fdopen(os.dup(0), "rb") as model:
        content = _read_kept(model, os.fstat(0).st_size, ModelProto.DESCRIPTOR)
    descriptor = os.memfd_create("graph")
    with os.fdopen(os.dup(descriptor), "wb") as copy:
        copy.write(content)
    return Path(f"/proc/self/fd/{descriptor}")


def _read_kept(file: BinaryIO, end: int, form: "Descriptor | UpbDescriptor") -> bytearray:
    """Return the message of a form from a file's position to `end`, without long values."""
    kept = bytearray()
    is_tensor = form.full_name == TensorProto.DESCRIPTOR.full_name
    while file.tell() < end:
        tag = _read_varint(file)
        field, kind = form.fields_by_number.get(tag >> 3), tag & 7
        is_kept = field is not None and (not is_tensor or field.name in _KEPT_OF_TENSORS)
        if kind == _NUMBER:
            content = _varint(_read_varint(file))
        elif kind == _LENGTH:
            length = _read_varint(file)
            until = file.tell() + length
            if until > end:
                raise _NoMessageError
            inner = field.message_type if field is not None and is_kept else None
            is_kept = is_kept and (inner is not None or length <= _LONGEST_BYTES)
            if inner is not None:
                value: bytes | bytearray = _read_kept(file, until, inner)
            else:
                value = file.read(length) if is_kept else b""
            file.seek(until)
            content = _varint(len(value)) + bytes(value)
        elif kind in _FIXED_BYTES:
            content = file.read(_FIXED_BYTES[kind])
        else:
            raise _NoMessageError
        if is_kept:
            kept += _varint(tag) + content
            if len(kept) > _GRAPH_BYTES:
                raise MemoryError
    if file.tell() != end:
        raise _NoMessageError
    return kept


def _read_varint(file: BinaryIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        read = file.read(1)
        if not read:
            raise _NoMessageError
        value |= (read[0] & 0x7F) << shift
        if read[0] < 0x80:
            return value
    raise _NoMessageError


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


if __name__ == "__main__":
    sys.exit(main())
