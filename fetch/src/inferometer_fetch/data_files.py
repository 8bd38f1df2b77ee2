"""Fetches the inputs, recorded traces, data sets and manifest of a pod."""

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from inferometer_fetch.addresses import checked_address
from inferometer_fetch.mounts import mounted_file
from inferometer_fetch.transfer import file_chunks, transfer_to_file
from inferometer_models.errors import ModelRefusedError

MAX_TRACE_BYTES = 128_000_000
"""The largest trace that the load generator accepts."""


def fetch_trace(
    uri: str, target: Path, *, sources: Path | None, max_bytes: int, sha256: str | None = None
) -> Path:
    """Fetch the CSV file at `uri` to the path `target`, and return that; see `fetch_inputs`.

    The load generator checks its content.
    """
    what = f"trace {uri}"
    most = min(max_bytes, MAX_TRACE_BYTES)
    _transfer(what, uri, target, sources, max_bytes=most, sha256=sha256)
    return target


def fetch_data(
    uri: str, target: Path, *, sources: Path | None, max_bytes: int, sha256: str | None = None
) -> Path:
    """Fetch the manifest or data set at `uri` to the path `target`; see `fetch_inputs`.

    The load generator checks its content.
    """
    _transfer(f"data file {uri}", uri, target, sources, max_bytes=max_bytes, sha256=sha256)
    return target


def fetch_inputs(
    uri: str, target: Path, *, sources: Path | None, max_bytes: int, sha256: str | None = None
) -> Path:
    """Fetch the .npz file at `uri` to the path `target`, and return that.

    Claims and ConfigMaps are below the folder `sources`. Raises ModelRefusedError if there is no
    such file, it is larger than `max_bytes`, differs from `sha256`, or is not an .npz file, and if
    it comes from https:// without `sha256`; FetchFailedError if the network fails; OSError if it
    cannot be written.
    """
    what = f"inputs file {uri}"
    _transfer(what, uri, target, sources, max_bytes=max_bytes, sha256=sha256)
    if not _has_arrays(target):
        target.unlink()
        raise ModelRefusedError(
            f"The {what} is not an .npz file with arrays: save one with numpy.savez, one array "
            "for each input of the model."
        )
    return target


def _transfer(
    what: str,
    uri: str,
    target: Path,
    sources: Path | None,
    *,
    max_bytes: int,
    sha256: str | None,
) -> None:
    if sha256 is None and uri.startswith("https://"):
        raise ModelRefusedError(
            f"The {what} has no sha256: give the checksum of the file, so that it is identified."
        )
    found = transfer_to_file(what, _stream(what, uri, sources), target, max_bytes=max_bytes)
    if sha256 is not None and found != sha256.lower():
        target.unlink()
        raise ModelRefusedError(
            f"The {what} should have the sha256 {sha256}, but has another: it is another file. "
            "Correct the checksum or the address."
        )


def _stream(what: str, uri: str, sources: Path | None) -> Callable[[], Iterable[bytes]]:
    found = checked_address(uri)
    if found is None:
        if not uri.startswith("https://"):
            raise ModelRefusedError(
                f"The {what} has an address that pods cannot reach: use "
                "configmap://NAME/KEY, pvc://CLAIM/PATH, https://... or s3://BUCKET/KEY."
            )
        from inferometer_fetch.https import https_stream  # noqa: PLC0415 - only where it is needed

        return lambda: https_stream(what, uri)
    if found.kind == "s3":
        from inferometer_fetch.object_store import (  # noqa: PLC0415 - only where it is needed
            object_stream,
            store_from,
        )

        return object_stream(what, store_from(what, os.environ), found.place, found.path)
    path = mounted_file(what, found, sources)
    return lambda: _content(what, path)


def _content(what: str, path: Path) -> Iterator[bytes]:
    try:
        yield from file_chunks(path)
    except OSError as error:
        raise ModelRefusedError(f"The {what} cannot be read: {error.strerror or error}.") from error


def _has_arrays(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False
