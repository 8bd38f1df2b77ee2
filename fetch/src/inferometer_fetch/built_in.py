"""Writes a built-in model: its graph from the package, its weights made on the spot."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.transfer import write_atomically
from inferometer_models import zoo
from inferometer_models.zoo import ZooEntry


def zoo_cache() -> Path:
    """Return the folder in which this user's built-in models are kept.

    Raises FetchFailedError if the user has no home.
    """
    users = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not users.is_absolute():  # as the XDG specification says of such a value
        try:
            users = Path.home() / ".cache"
        except RuntimeError as error:
            raise FetchFailedError(
                "Built-in models are kept in the user's cache, but this user has no home: set "
                "XDG_CACHE_HOME to an absolute path."
            ) from error
    return users / "inferometer" / "zoo"


def cached_model(entry: ZooEntry, cache: Path) -> Path:
    """Return the ONNX file of a built-in model in a cache; make it if it is not there, or damaged.

    Processes that need the same model at once wait for the one that makes it. Raises
    FetchFailedError if the cache cannot be written, DamagedModelError if the package is damaged.
    """
    folder = cache / f"{entry.name}-{entry.sha256[:12]}"
    path = folder / f"{entry.bare_name}.onnx"
    if _is_whole(entry, path):
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder):
            if not _is_whole(entry, path):
                for abandoned in folder.glob(".*.partial"):  # of a process that was killed
                    abandoned.unlink()
                write_model(entry, path)
    except OSError as error:
        megabytes = entry.weights_bytes // 1_000_000 + 1
        raise FetchFailedError(
            f"Cannot write the model zoo://{entry.name} ({megabytes:,} MB) to {folder}: "
            f"{error.strerror or error}. Make room there, or set XDG_CACHE_HOME to another folder."
        ) from error
    return path


def write_model(entry: ZooEntry, path: Path) -> Path:
    """Write the ONNX file of a built-in model to `path`, after its weights next to it.

    Raises OSError if they cannot be written, FetchFailedError if the weights come out different
    from those that the index names, DamagedModelError if the package is damaged.
    """
    write_atomically(path.with_name(entry.weights_file), _checked_weights(entry))
    return write_atomically(path, (zoo.read_onnx(entry.name),))


def _checked_weights(entry: ZooEntry) -> Iterator[bytes]:
    digest = hashlib.sha256()
    for chunk in zoo.weight_chunks(entry.name):
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != entry.weights_sha256:
        raise FetchFailedError(
            f"The weights of zoo://{entry.name} should have the sha256 {entry.weights_sha256}, but "
            f"those made here have {digest.hexdigest()}: install Inferometer and numpy again."
        )


def _is_whole(entry: ZooEntry, path: Path) -> bool:
    files = {path: entry.sha256, path.with_name(entry.weights_file): entry.weights_sha256}
    try:
        return all(_sha256(file) == sha256 for file, sha256 in files.items())
    except OSError:
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Wait until no other process holds the folder; the lock ends with its holder."""
    with (folder / ".lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
