"""Targets of an export: a folder of an S3-compatible store, or of a mounted claim."""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from inferometer_api.plan.result_folder import claim_folder, export_address
from inferometer_api.spec.address import Address, AddressError
from inferometer_fetch.transfer import CHUNK_BYTES
from inferometer_models.errors import ModelRefusedError

_FIELD = "spec.retention.export.credentialsSecret"
_ADVICE = "Check endpoint, keys and region in the Secret, their permissions, and the bucket."
_PASSING_ERRORS = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EAGAIN, errno.EINTR, errno.ENOMEM),
        *(errno.ESTALE, errno.ETIMEDOUT, errno.EBUSY, errno.EHOSTDOWN, errno.EREMOTEIO),
        *(errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ECONNRESET),
    }
)
"""Errors of a file system that may pass: it is full, or its server does not answer."""

CopyFile = Callable[[str, BinaryIO, str | None], None]
"""Copies a file under a name, if it has the SHA-256 that is given; raises ExportError."""


class ExportError(Exception):
    """An attempt failed; the message is a sentence."""

    def __init__(self, message: str, *, is_transient: bool) -> None:
        super().__init__(message)
        self.is_transient = is_transient


def open_target(target: str, claims: Path, environment: Mapping[str, str]) -> CopyFile:
    """Return the function that copies files to a target; raise ExportError.

    The keys of a store are in `environment`; claims are mounted below the folder `claims`.
    """
    try:
        found = export_address(target)
    except AddressError as error:
        raise ExportError(str(error), is_transient=False) from error
    if found.kind == "s3":
        return _to_store(found, environment)
    return _to_folder(Path(claim_folder(str(claims), found.place)) / found.path)


def open_regular_file(path: Path) -> BinaryIO:
    """Open a file to read; raise OSError if it is a link, or no regular file.

    The load generator writes the folder, and must not make the exporter read anything else.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def _to_store(found: Address, environment: Mapping[str, str]) -> CopyFile:
    from inferometer_fetch.object_store import (  # noqa: PLC0415 - large, and seldom needed
        ObjectStoreError,
        put_object,
        store_from,
    )

    try:
        store = store_from("export", environment, field=_FIELD)
    except ModelRefusedError as error:
        raise ExportError(str(error), is_transient=False) from error

    def copy(name: str, file: BinaryIO, sha256: str | None) -> None:
        _check(name, _chunks(file), sha256)
        file.seek(0)
        try:
            put_object(store, found.place, f"{found.path}/{name}", file)
        except ObjectStoreError as error:
            raise ExportError(f"{error}. {_ADVICE}", is_transient=error.is_transient) from error

    return copy


def _to_folder(folder: Path) -> CopyFile:
    def copy(name: str, file: BinaryIO, sha256: str | None) -> None:
        partial = folder / f".{name}.partial"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as target:
                _check(name, _copy_chunks(file, target), sha256)
                target.flush()
                os.fsync(target.fileno())
            partial.replace(folder / name)
        except OSError as error:
            raise _file_error(error) from error
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)

    return copy


def _file_error(error: OSError) -> ExportError:
    denied = error.errno in {errno.EACCES, errno.EPERM}
    advice = " Give group 10001 write permission on the claim's folder." if denied else ""
    words = f"{error.strerror or error}.{advice}"
    return ExportError(words, is_transient=error.errno in _PASSING_ERRORS)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _copy_chunks(file: BinaryIO, target: BinaryIO) -> Iterator[bytes]:
    for chunk in _chunks(file):
        target.write(chunk)
        yield chunk


def _check(name: str, chunks: Iterator[bytes], sha256: str | None) -> None:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    if sha256 is not None and digest.hexdigest() != sha256:
        raise ExportError(
            f"The load generator lists another checksum of the file {name}.", is_transient=False
        )
