"""Archives of data sets: unpacked within limits, never outside their folder."""

import bz2
import gzip
import lzma
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
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
_MOST_HEADER_BYTES = 1 << 20
"""Of all headers of one file in a tar. Readers of tar files hold them in memory."""
_MOST_GLOBAL_BYTES = 1 << 16
"""Of the pax records that count for all files of a tar: each file gets a copy."""
_MOST_HEADERS = 16
"""Of one file in a tar. GNU tar writes at most four: two long names, a pax header, its own."""
_MANY_DIGITS = re.compile(rb"\d{256}")
"""No record of pax holds such a number, and tarfile takes quadratic time to look through it."""
_PAX_RECORD = re.compile(rb"([1-9]\d{0,6}) [^=\n]+=")
_DRIVE = re.compile("[A-Za-z]:")
"""How absolute paths of Windows begin."""
_ZIP_BEGINS = b"PK\x03\x04"
_TEXT = re.compile(rb"[\t\n\r -~\x80-\xff]+")
"""Bytes of a text in UTF-8, without control characters."""
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


class _Content(_Readable, Protocol):
    def __enter__(self) -> object: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> object: ...


class _ExpandingReader:
    """A file of a zip in bz2 or LZMA, expanded as far as it is read.

    zipfile expands all of what it has read at once: a few bytes can be many megabytes.
    """

    def __init__(
        self, file: bz2.BZ2File | lzma.LZMAFile, packed: IO[bytes], size: int, crc: int
    ) -> None:
        self._file = file
        self._packed = packed
        self._left = size
        self._wanted_crc = crc
        self._crc = 0

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self._file.close()
        self._packed.close()

    def read(self, size: int, /) -> bytes:
        """Read a part; raises BadZipFile if the checksum of all parts is another one."""
        chunk = self._file.read(min(size, self._left))
        if self._left and not chunk:
            raise EOFError("the compressed data end early")
        self._left -= len(chunk)
        self._crc = zlib.crc32(chunk, self._crc)
        if not self._left and self._crc != self._wanted_crc:
            raise zipfile.BadZipFile("bad CRC-32")
        return chunk


class _HeaderReader:
    """The headers of one file in a tar: raises TaskRefusedError if they would fill the memory.

    tarfile reads a header in one piece, however large it says it is.
    """

    def __init__(self, file: IO[bytes], path: str) -> None:
        self.headers = 0
        self.is_pax_next = False
        """Whether the next read is the content of a pax header."""
        self._file = file
        self._path = path
        self._left = _MOST_HEADER_BYTES

    def tell(self) -> int:
        """Return the position in the unpacked tar."""
        return self._file.tell()

    def read(self, size: int) -> bytes:
        """Read a part of a header."""
        if size < 0:
            raise tarfile.ReadError("a header has a negative size")
        self._left -= size
        if self._left < 0:
            raise _bomb(self._path, f"a header of more than {_MOST_HEADER_BYTES >> 20} MiB")
        content = self._file.read(size)
        if self.is_pax_next:
            self.is_pax_next = False
            _check_pax(content)
        return content

    def count_header(self) -> None:
        """Count a header that stands before the same file."""
        self.headers += 1
        if self.headers > _MOST_HEADERS:
            raise _bomb(self._path, f"more than {_MOST_HEADERS} headers of one file")


def _check_pax(content: bytes) -> None:
    """Raise ReadError if records overlap: tarfile copies all that follows for each of them."""
    if _MANY_DIGITS.search(content):
        raise tarfile.ReadError("a pax header has a number of more than 255 digits")
    place = 0
    while place < len(content) and content[place]:
        record = _PAX_RECORD.match(content, place)
        end = place + int(record[1]) if record else 0
        if record is None or not record.end() < end <= len(content) or content[end - 1] != 0x0A:
            raise tarfile.ReadError("a pax header has a record of another length than it says")
        place = end


class _CheckedTarInfo(tarfile.TarInfo):
    """A header of a tar file that must be whole and small.

    tarfile takes a damaged one as the end.
    """

    @classmethod
    @override
    def fromtarfile(cls, archive: tarfile.TarFile, /) -> Self:
        """Return the next header; raises ReadError if it is damaged or the end is missing.

        Raises TaskRefusedError if it would fill the memory.
        """
        file = archive.fileobj
        if isinstance(file, _HeaderReader):  # a header before the file's own
            return cls._check(archive)
        reader = _HeaderReader(file, str(archive.name))  # type: ignore[arg-type] # has what it calls
        archive.fileobj = reader  # type: ignore[assignment] # has what headers are read with
        try:
            found = cls._check(archive)
        finally:
            archive.fileobj = file
        if found.size < 0:
            raise tarfile.ReadError(f"header at byte {found.offset:,}: negative size")
        if sum(map(len, [*archive.pax_headers, *archive.pax_headers.values()])) > (
            _MOST_GLOBAL_BYTES
        ):
            raise _bomb(archive.name, f"more than {_MOST_GLOBAL_BYTES >> 10} KiB of global headers")
        return found

    @classmethod
    def _check(cls, archive: tarfile.TarFile) -> Self:
        if isinstance(archive.fileobj, _HeaderReader):
            archive.fileobj.count_header()
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined] # the zeros at the end
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"header at byte {archive.offset:,}: {error}") from error

    def _proc_pax(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """Read a pax header, as tarfile does, after a check of its records."""
        if isinstance(archive.fileobj, _HeaderReader):
            archive.fileobj.is_pax_next = True
        found: tarfile.TarInfo = super()._proc_pax(archive)  # type: ignore[misc] # not in its stub
        return found


def _bomb(path: object, what: str) -> TaskRefusedError:
    return TaskRefusedError(f"The archive {path} has {what}: it may be a bomb, and is refused.")


def is_archive(path: Path) -> bool:
    """Return whether a file is a tar or zip archive, or begins like one that is cut short.

    Raises TaskRefusedError for a tar whose first header would fill the memory.
    """
    return _begin(path).startswith(_BEGINNINGS) or zipfile.is_zipfile(path) or _is_tar(path)


def _is_tar(path: Path) -> bool:
    """Return whether a file begins with a header of tar, perhaps in a compressed one."""
    try:
        with tarfile.open(path, tarinfo=_CheckedTarInfo):
            return True
    except tarfile.TarError:
        return False


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
        if not is_zip and _is_compressed_text(path):
            raise TaskRefusedError(
                f"{path} is a compressed text, and no archive: decompress it, or pack it as tar or "
                "zip."
            ) from error
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


def _is_compressed_text(path: Path) -> bool:
    """Return whether a file in gzip or xz begins with text; a header of tar has zeros."""
    try:
        for opened in (gzip.open, lzma.open):
            with suppress(OSError, lzma.LZMAError), opened(path) as file:
                return _TEXT.fullmatch(file.read(512)) is not None
    except (EOFError, zlib.error):
        pass
    return False


def _write(
    members: Iterator[tuple[str, _Content]], path: Path, folder: Path, most_files: int, budget: int
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


def _zip_members(path: Path) -> Iterator[tuple[str, _Content]]:
    with zipfile.ZipFile(path) as archive:
        for each in archive.infolist():
            if each.is_dir():
                continue
            if each.external_attr >> 16 & 0o170000 == 0o120000:
                raise TaskRefusedError(_link(path, each.filename))
            if each.flag_bits & 1:
                raise TaskRefusedError(f"The archive {path} is encrypted: unpack it first.")
            yield each.filename, _open_in_zip(archive, each)


def _open_in_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Content:
    """Return the content of a file of a zip."""
    if info.compress_type not in {zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA}:
        return archive.open(info)
    stored = copy(info)
    stored.compress_type, stored.file_size = zipfile.ZIP_STORED, info.compress_size
    stored.CRC = None  # type: ignore[assignment] # that of the expanded file
    packed = archive.open(stored)
    file = (
        bz2.BZ2File(packed)
        if info.compress_type == zipfile.ZIP_BZIP2
        else lzma.LZMAFile(  # noqa: SIM115 - closed by the reader
            packed, format=lzma.FORMAT_RAW, filters=[_lzma_filter(packed)]
        )
    )
    return _ExpandingReader(file, packed, info.file_size, info.CRC)


def _lzma_filter(packed: _Readable) -> dict[str, int]:
    """Read the properties that stand before LZMA in a zip; raises struct.error."""
    _, _, length, packed_bits, dictionary = struct.unpack("<BBHBI", packed.read(9))
    if length != 5:
        raise zipfile.BadZipFile(f"properties of LZMA with {length} bytes")
    return {
        "id": lzma.FILTER_LZMA1,
        "lc": packed_bits % 9,
        "lp": packed_bits // 9 % 5,
        "pb": packed_bits // 45,
        "dict_size": dictionary,
    }


def _tar_members(path: Path) -> Iterator[tuple[str, _Content]]:
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
