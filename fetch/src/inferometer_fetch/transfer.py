"""Bounded transfers: a stream becomes a whole file, with retries."""

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

from inferometer_fetch.errors import FetchFailedError
from inferometer_models.errors import ModelRefusedError

CHUNK_BYTES = 1 << 20
_PAUSES_SECONDS = (0.5, 1.5)
"""Before the second and the third try: a short network fault should not end a run."""


class TransientError(Exception):
    """A fault that may not occur at the next try; the message says what happened."""


def transfer_to_file(
    what: str, open_stream: Callable[[], Iterable[bytes]], target: Path, *, max_bytes: int
) -> str:
    """Write a stream to the file `target`; return its sha256.

    `what` names the content in messages: "model https://host/m.onnx". Raises ModelRefusedError if
    it is larger than `max_bytes`, FetchFailedError if every try raised a TransientError, and
    OSError if the file cannot be written.
    """
    for pause_seconds in (*_PAUSES_SECONDS, None):
        digest = hashlib.sha256()
        try:
            write_atomically(target, _hash_within(what, open_stream(), max_bytes, digest))
        except TransientError as fault:
            if pause_seconds is None:
                tries = len(_PAUSES_SECONDS) + 1
                raise FetchFailedError(
                    f"The {what} could not be fetched in {tries} tries: {fault}. "
                    "Check the address and the network."
                ) from fault
            time.sleep(pause_seconds)
        else:
            break
    return digest.hexdigest()


def _hash_within(
    what: str, chunks: Iterable[bytes], max_bytes: int, digest: "hashlib._Hash"
) -> Iterator[bytes]:
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > max_bytes:
            raise ModelRefusedError(
                f"The {what} is larger than the {max_bytes:,} bytes that are allowed: "
                "raise the limit or take a smaller one."
            )
        digest.update(chunk)
        yield chunk


def file_chunks(path: Path) -> Iterator[bytes]:
    """Yield the content of a file. Raises OSError."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def path_below(folder: Path, name: str) -> Path:
    """Return the path of the file `name` in a folder; raise ModelRefusedError if it lies elsewhere.

    Links to folders are followed within the folder only.
    """
    relative = PurePosixPath(name)
    is_inside = not relative.is_absolute() and ".." not in relative.parts and "\0" not in name
    path = folder / relative
    try:
        is_inside = is_inside and path.parent.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a loop of links
        is_inside = False
    if not is_inside or not relative.name:
        raise ModelRefusedError(
            f"The file {name!r} is not below {folder}: give a relative path of a file, without "
            "'..' and without links that lead out of the folder."
        )
    return path


def write_atomically(path: Path, chunks: Iterable[bytes]) -> Path:
    """Write to a temporary file and rename it: `path` never holds a partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path
