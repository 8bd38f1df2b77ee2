"""Archives that would fill the memory are refused: large headers in tars, zips in bz2 and LZMA."""

import gzip
import io
import tarfile
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from inferometer_tasks.datasets.archive import unpack
from inferometer_tasks.datasets.dataset import open_dataset
from inferometer_tasks.errors import TaskRefusedError

MIB = 1 << 20
LARGE = 200 * MIB


def header(kind: bytes, size: int) -> bytes:
    """Return one header block of a tar."""
    member = tarfile.TarInfo("x")
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


def a_file(name: str = "x") -> bytes:
    """Return a tar of one file without content, without the end of the archive."""
    return tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT)


def record(name: str, value: str) -> bytes:
    """Return one record of a pax header."""
    rest = f" {name}={value}\n"
    length = len(rest) + len(str(len(rest)))
    return f"{length + (len(str(length)) > len(str(len(rest))))}{rest}".encode()


def pax(content: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """Return a pax header with a content."""
    return header(kind, len(content)) + content + bytes(-len(content) % 512)


def written(path: Path, *parts: bytes) -> Path:
    """Write a compressed tar of some parts, ended as a tar ends."""
    with gzip.open(path, "wb", 1) as file:
        for each in (*parts, bytes(1024)):
            file.write(each)
    return path


def large(kind: bytes) -> list[bytes]:
    """Return a tar whose first header says that it has 200 MiB, and has them."""
    return [header(kind, LARGE), *[b"a" * MIB] * (LARGE // MIB), a_file()]


def peak_of_refusal(path: Path, tmp_path: Path, words: str) -> int:
    """Return how many bytes were allocated at most while a data set was refused."""
    tracemalloc.start()
    try:
        with pytest.raises(TaskRefusedError, match=words):
            open_dataset("file:data", path, tmp_path / "unpacked")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


KINDS = {
    "long name": tarfile.GNUTYPE_LONGNAME,
    "long link": tarfile.GNUTYPE_LONGLINK,
    "pax": tarfile.XHDTYPE,
    "global pax": tarfile.XGLTYPE,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_header_is_not_read_before_its_size_is_known(kind: bytes, tmp_path: Path) -> None:
    """200 MiB in 1 MB: refused with a peak of a few MiB."""
    path = written(tmp_path / "data.tar.gz", *large(kind))
    assert path.stat().st_size < 2 * MIB
    assert peak_of_refusal(path, tmp_path, "header of more than 1 MiB: it may be a bomb") < 8 * MIB


def test_a_plain_tar_with_a_large_header_is_no_list_of_samples(tmp_path: Path) -> None:
    """It is refused as an archive, though it does not begin as a compressed one."""
    path = tmp_path / "data"
    path.write_bytes(b"".join(large(tarfile.GNUTYPE_LONGNAME)))
    assert peak_of_refusal(path, tmp_path, "may be a bomb") < 8 * MIB


def test_the_map_of_a_sparse_file_is_bounded(tmp_path: Path) -> None:
    """Its blocks follow the header one by one, as many as the last byte of each says."""
    sparse = tarfile.TarInfo("x")
    sparse.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(sparse.tobuf(tarfile.GNU_FORMAT))
    block[482] = 1  # more blocks follow
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + 8 * 32 + sum(block[156:]))
    more = (b"%011o\0" % 8) * 42 + b"\1" + bytes(7)
    path = written(tmp_path / "data.tar.gz", bytes(block), *[more * 2048] * 64)
    assert peak_of_refusal(path, tmp_path, "header of more than 1 MiB") < 16 * MIB


def test_global_headers_do_not_add_up(tmp_path: Path) -> None:
    """Each is small, and counts for all files that follow."""
    parts = [
        part
        for number in range(200)
        for part in (pax(record(f"k{number}", "v" * 500_000), tarfile.XGLTYPE), a_file(f"{number}"))
    ]
    path = written(tmp_path / "data.tar.gz", *parts)
    assert peak_of_refusal(path, tmp_path, "more than 64 KiB of global headers") < 8 * MIB


def test_headers_of_one_file_do_not_nest_without_end(tmp_path: Path) -> None:
    """Readers call themselves for the header after a header."""
    name = header(tarfile.GNUTYPE_LONGNAME, 2) + b"n\0" + bytes(510)
    path = written(tmp_path / "data.tar.gz", name * 400, a_file())
    assert peak_of_refusal(path, tmp_path, "more than 16 headers of one file") < MIB


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"5 aa" * 100_000 + b"=\n", "another length than it says"),
        (b"9 a=b\n", "another length than it says"),
        (b"1 a=b\n", "another length than it says"),
        (record("k", "1" * 500_000), "number of more than 255 digits"),
    ],
    ids=["overlapping", "too long", "too short", "digits"],
)
def test_records_of_a_pax_header_must_be_whole(content: bytes, words: str, tmp_path: Path) -> None:
    """Readers would copy the rest of the header for each, or look at it again for each digit."""
    path = written(tmp_path / "data.tar.gz", pax(content), a_file())
    assert peak_of_refusal(path, tmp_path, f"(?s)is damaged: .*{words}") < 8 * MIB


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_negative_size_is_damage(kind: bytes, tmp_path: Path) -> None:
    """To a file it means all that follows."""
    path = written(tmp_path / "data.tar.gz", header(kind, -512), *[bytes(MIB)] * 50)
    assert peak_of_refusal(path, tmp_path, "(?s)is damaged: .*negative size") < 8 * MIB


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["gnu", "pax"])
def test_long_names_and_attributes_are_read(form: int, tmp_path: Path) -> None:
    """As tar programs write them, with global headers as git does."""
    path, name = (
        tmp_path / "data.tar.gz",
        "/".join(["\N{LATIN SMALL LETTER E WITH ACUTE}" * 50] * 30),
    )
    with tarfile.open(path, "w:gz", format=form, pax_headers={"comment": "1" * 40}) as archive:
        for number in range(3):
            member = tarfile.TarInfo(f"{name}/{number}")
            member.pax_headers = {"SCHILY.xattr.user.note": "x=\n" * 10_000}
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))
    unpack(path, tmp_path / "unpacked")
    assert [(tmp_path / "unpacked" / name / f"{n}").read_text() for n in range(3)] == ["abc"] * 3


def of_zeros(path: Path, method: int) -> Path:
    """Pack 200 MiB of zeros as zip."""
    with zipfile.ZipFile(path, "w", method) as archive, archive.open("zeros", "w") as file:
        for _ in range(LARGE // MIB):
            file.write(bytes(MIB))
    return path


METHODS = {"bz2": zipfile.ZIP_BZIP2, "lzma": zipfile.ZIP_LZMA}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_zip_is_expanded_in_parts(method: int, tmp_path: Path) -> None:
    """200 MiB of zeros have less than 40 kB in both, and would be expanded at once."""
    path = of_zeros(tmp_path / "data.zip", method)
    assert path.stat().st_size < 40_000
    assert peak_of_refusal(path, tmp_path, "unpacks to more than") < 20 * MIB


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_zip_is_read_to_its_checksum(method: int, tmp_path: Path) -> None:
    """Its files are whole, an empty one too; another checksum is damage."""
    path, content = tmp_path / "data.zip", np.random.default_rng(1).bytes(3 * MIB)
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a", content)
        archive.writestr("empty", b"")
    unpack(path, tmp_path / "unpacked")
    assert (tmp_path / "unpacked/a").read_bytes() == content
    assert (tmp_path / "unpacked/empty").read_bytes() == b""
    checksum = zlib.crc32(content).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(checksum, b"abcd"))
    with pytest.raises(TaskRefusedError, match="is damaged: bad CRC-32"):
        unpack(path, tmp_path / "again")
