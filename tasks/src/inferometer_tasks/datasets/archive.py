"""Archives of data sets: unpacked within limits, never outside their folder."""

import lzma
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, Self

from typing_extensions import override

from inferometer_tasks.errors import TaskRefusedError

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """What an archive may become."""

    most_files: int = 2_000_000
    most_bytes: int = 64 << 30
    most_expansion: int = 200
    """Times its own size, beyond the first 64 MiB."""


LIMITS = ArchiveLimits()
_FREE_BYTES = 64 << 20
_DRIVE = re.compile("[A-Za-z]:")
"""How absolute paths of Windows begin."""
_ZIP_BEGINS = b"PK\x03\x04"
_BEGINNINGS = (_ZIP_BEGINS, b"\x1f\x8b", b"\xfd7zXZ")
"""First bytes of zip files and of tar files in gzip and xz: no text begins so."""
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    RecursionError,
    ValueError,
)
"""What readers of archives raise on damaged ones; bz2 and gzip raise OSError without a number."""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _CheckedTarInfo(tarfile.TarInfo):
    """A header of a tar file that must be whole: tarfile takes a damaged one as the end."""

    @classmethod
    @override
    def fromtarfile(cls, archive: tarfile.TarFile, /) -> Self:
        """Return the next header; raises ReadError if it is damaged or the end is missing."""
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined] # the zeros at the end
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"header at byte {archive.offset:,}: {error}") from error


def is_archive(path: Path) -> bool:
    """Return whether a file is a tar or zip archive, or begins like one that is cut short."""
    return (
        _begin(path).startswith(_BEGINNINGS) or zipfile.is_zipfile(path) or tarfile.is_tarfile(path)
    )


def _begin(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(8)


def unpack(path: Path, folder: Path, limits: ArchiveLimits = LIMITS) -> None:
    """Unpack an archive into an empty folder; raises TaskRefusedError if it must not be."""
    budget = min(
        limits.most_bytes, _FREE_BYTES + limits.most_expansion * max(1, path.stat().st_size)
    )
    is_zip = zipfile.is_zipfile(path) or _begin(path).startswith(_ZIP_BEGINS)
    members = _zip_members(path) if is_zip else _tar_members(path)
    try:
        _write(members, path, folder, limits.most_files, budget)
    except TaskRefusedError:  # a ValueError too
        raise
    except _DAMAGE as error:
        raise TaskRefusedError(f"The archive {path} is damaged: {error}.") from error
    except FileExistsError as error:
        raise TaskRefusedError(f"The archive {path} has the file {error.filename} twice.") from None
    except OSError as error:
        if error.errno is None:
            raise TaskRefusedError(f"The archive {path} is damaged: {error}.") from error
        where = f": {error.filename}" if error.filename else ""
        raise TaskRefusedError(
            f"The archive {path} cannot be unpacked: {error.strerror}{where}."
        ) from error


def _write(
    members: Iterator[tuple[str, IO[bytes]]], path: Path, folder: Path, most_files: int, budget: int
) -> None:
    """Write the files of the archive `path` into a folder, `budget` bytes at most."""
    written = 0
    for count, (name, content) in enumerate(members, 1):
        if count > most_files:
            raise TaskRefusedError(f"The archive {path} has more than {most_files:,} files.")
        target = folder / _safe(name, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with content, target.open("xb") as file:
            while chunk := content.read(_CHUNK):
                written += len(chunk)
                if written > budget:
                    raise TaskRefusedError(
                        f"The archive {path} has {path.stat().st_size:,} bytes and unpacks to "
                        f"more than {budget:,}: it may be a bomb, and is refused."
                    )
                file.write(chunk)


def _safe(name: str, path: Path) -> Path:
    parts = PurePosixPath(name.replace("\\", "/"))
    has_drive = _DRIVE.match(name) is not None
    if parts.is_absolute() or ".." in parts.parts or not parts.parts or has_drive:
        raise TaskRefusedError(
            f"The archive {path} has a member {name!r}, which leaves its folder: it is refused."
        )
    return Path(*parts.parts)


def _zip_members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(path) as archive:
        for each in archive.infolist():
            if each.is_dir():
                continue
            if each.external_attr >> 16 & 0o170000 == 0o120000:
                raise TaskRefusedError(_link(path, each.filename))
            if each.flag_bits & 1:
                raise TaskRefusedError(f"The archive {path} is encrypted: unpack it first.")
            yield each.filename, archive.open(each)


def _tar_members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(path, "r:*", tarinfo=_CheckedTarInfo) as archive:
        for each in archive:
            if each.isdir():
                continue
            content = archive.extractfile(each) if each.isreg() else None
            if content is None:
                raise TaskRefusedError(_link(path, each.name))
            yield each.name, content
            archive.members = []  # type: ignore[attr-defined] # else each header stays in memory
        _read_rest(path, archive.fileobj)


def _read_rest(path: Path, file: _Readable | None) -> None:
    """Read what follows the last member: the checksum of a compressed archive comes last."""
    rest = 0
    while file is not None and (chunk := file.read(_CHUNK)):
        rest += len(chunk)
        if rest > _FREE_BYTES:
            raise TaskRefusedError(
                f"The archive {path} has more than {_FREE_BYTES >> 20} MiB after its end: it may "
                "be a bomb, and is refused."
            )


def _link(path: Path, name: str) -> str:
    return (
        f"The archive {path} has a member {name!r} that is no plain file (a link or a device): "
        "pack plain files."
    )
