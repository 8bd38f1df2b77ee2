"""Archives of data sets: unpacked within limits, never outside their folder."""

import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

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
_ZIP_BEGINS = b"PK\x03\x04"
_BEGINNINGS = (_ZIP_BEGINS, b"\x1f\x8b", b"\xfd7zXZ")
"""First bytes of zip files and of tar files in gzip and xz: no text begins so."""


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
    written = 0
    try:
        for count, (name, content) in enumerate(members, 1):
            if count > limits.most_files:
                raise TaskRefusedError(
                    f"The archive {path} has more than {limits.most_files:,} files."
                )
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
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError) as error:
        raise TaskRefusedError(f"The archive {path} is damaged: {error}.") from error
    except FileExistsError as error:
        raise TaskRefusedError(f"The archive {path} has the file {error.filename} twice.") from None


def _safe(name: str, path: Path) -> Path:
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or not parts.parts or ":" in name:
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
    with tarfile.open(path, "r:*") as archive:
        for each in archive:
            if each.isdir():
                continue
            content = archive.extractfile(each) if each.isreg() else None
            if content is None:
                raise TaskRefusedError(_link(path, each.name))
            yield each.name, content
            archive.members = []  # type: ignore[attr-defined] # else each header stays in memory


def _link(path: Path, name: str) -> str:
    return (
        f"The archive {path} has a member {name!r} that is no plain file (a link or a device): "
        "pack plain files."
    )
