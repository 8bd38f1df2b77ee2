"""Data sets are read row by row, and nothing in them leaves their folder."""

import gzip
import io
import lzma
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from inferometer_tasks.datasets.archive import ArchiveLimits, unpack
from inferometer_tasks.datasets.dataset import DIGITS, Dataset, UnreadableSample, open_dataset
from inferometer_tasks.datasets.digest import SampleDigest
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.sample import Sample

MANIFEST = """\
apiVersion: inferometer.dev/v1alpha1
kind: DatasetManifest
name: words
version: 1.2.0
license: CC0-1.0
samples: samples.csv
classes: 3
"""


def a_folder(folder: Path, rows: str = "id,file,label\na,x/1.txt,0\nb,x/2.txt,2\n") -> Path:
    """Write a data set of two files and return its folder."""
    (folder / "x").mkdir(parents=True)
    (folder / "dataset.yaml").write_text(MANIFEST)
    (folder / "samples.csv").write_text(rows)
    (folder / "x/1.txt").write_text("one")
    (folder / "x/2.txt").write_text("two")
    return folder


def opened(path: Path, tmp_path: Path) -> Dataset:
    """Open a data set at a path."""
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    return open_dataset("file:x", path, unpacked)


def zipped(folder: Path, target: Path) -> Path:
    """Pack a folder as zip."""
    with zipfile.ZipFile(target, "w") as archive:
        for each in folder.rglob("*"):
            archive.write(each, each.relative_to(folder))
    return target


def tarred(folder: Path, target: Path) -> Path:
    """Pack a folder as compressed tar, with one folder around all."""
    with tarfile.open(target, "w:gz") as archive:
        archive.add(folder, "around")
    return target


@pytest.mark.parametrize(
    "pack", [lambda folder, _: folder, zipped, tarred], ids=["folder", "zip", "tar"]
)
def test_a_data_set_is_the_same_however_it_is_packed(
    pack: Callable[[Path, Path], Path], tmp_path: Path
) -> None:
    """Name, licence, samples and labels; it can be read again and again."""
    path = pack(a_folder(tmp_path / "data"), tmp_path / "packed")
    dataset = opened(path, tmp_path)
    assert (dataset.name, dataset.version, dataset.license) == ("words", "1.2.0", "CC0-1.0")
    for _ in range(2):
        assert list(dataset.read()) == [
            Sample("a", b"one", "0"),
            Sample("b", b"two", "2"),
        ]
    assert (dataset.count, [each.id for each in dataset.first(1)]) == (2, ["a"])
    assert digest_of(dataset) == digest_of(opened(tmp_path / "data", tmp_path / "data"))


def digest_of(dataset: Dataset) -> str:
    """Return the SHA-256 of all samples of a data set."""
    digest = SampleDigest()
    assert len(list(digest.read(dataset.read()))) == dataset.count
    return digest.value


def test_the_digest_depends_on_every_part_of_every_sample() -> None:
    """Identity, content with its type and shape, label, context, and the order."""
    pixels = np.arange(4, dtype=np.uint8)
    lists: list[list[Sample | UnreadableSample]] = [
        [Sample("a", b"one", "0"), Sample("b", b"two", "1")],
        [Sample("b", b"two", "1"), Sample("a", b"one", "0")],
        [Sample("a", b"one", "0")],
        [Sample("ab", b"one", "0")],
        [Sample("a", "one", "0")],
        [Sample("a", b"one", 0)],
        [Sample("a", b"one", "0", "c")],
        [Sample("a", pixels)],
        [Sample("a", pixels.reshape(2, 2))],
        [Sample("a", pixels.astype(np.int64))],
        [Sample("a", b"", pixels)],
        [UnreadableSample("a", "It is broken.")],
        [],
    ]

    def value(samples: list[Sample | UnreadableSample]) -> str:
        digest = SampleDigest()
        assert list(digest.read(iter(samples))) == samples
        return digest.value

    assert len({value(each) for each in lists}) == len(lists)


def test_a_jsonl_file_holds_texts_and_numbers(tmp_path: Path) -> None:
    """A row may have a text, a text with its context, or numbers of any shape."""
    path = tmp_path / "samples.jsonl"
    path.write_text(
        '{"text": "who?", "context": "ada did", "label": ["ada"]}\n\n'
        '{"id": 7, "values": [[1, 2], [3, 4]], "label": 1}\n{"values": [1, "x"]}\n'
    )
    question, numbers, broken = opened(path, tmp_path).read()
    assert question == Sample("1", "who?", ["ada"], "ada did")
    assert isinstance(numbers, Sample)
    assert (numbers.id, numbers.label) == ("7", 1)
    assert np.array_equal(np.asarray(numbers.content), [[1, 2], [3, 4]])
    assert isinstance(broken, UnreadableSample)
    assert "not a list of numbers" in broken.message


def test_the_digits_are_built_in(tmp_path: Path) -> None:
    """1,797 images of 8 x 8, ten classes of about 180, values from 0 to 16."""
    dataset = open_dataset(DIGITS, None, tmp_path)
    samples = [each for each in dataset.read() if isinstance(each, Sample)]
    assert (len(samples), dataset.count, dataset.license) == (1797, 1797, "CC-BY-4.0")
    images = np.stack([np.asarray(each.content) for each in samples])
    assert (images.shape, images.min(), images.max()) == ((1797, 8, 8), 0, 16)
    assert np.bincount([each.label for each in samples]).tolist() == [
        178, 182, 177, 183, 181, 182, 181, 179, 174, 180,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("id,picture\n1,x\n", "one of ['file', 'text', 'values'] is needed"),
        ("file,text\na,b\n", "Line 2 of"),
        ("file,label\nx/1.txt,0,9\n", "more values than columns"),
        ("file,label\nx/1.txt,3\n", "the label 3, but the data set has 3 classes, from 0 to 2"),
        ("file,label\n", "has no samples"),
        ('file,label\n"x/1.txt,0\nx/2.txt,1\n', "Look for a quote that is not closed"),
        ('file,label\nx/1.txt,0\n"x/1.txt" ,0\n', "The row at line 3 of"),
        ('file,"label\nx/1.txt,0\n', "The row at line 1 of"),
        ("file, label\nx/1.txt,0\n", "the column ' label': write 'label'"),
        ("File,file,label\nx/1.txt,x/2.txt,0\n", "the column 'File': write 'file'"),
        ("file,label,label\nx/1.txt,0,1\n", "the column 'label' twice"),
    ],
)
def test_a_broken_list_is_refused_with_its_line(rows: str, words: str, tmp_path: Path) -> None:
    """Before anything is sent."""
    with pytest.raises(TaskRefusedError) as refused:
        opened(a_folder(tmp_path / "data", rows), tmp_path)
    assert words in str(refused.value)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "x/../../secret", "link"])
def test_a_file_outside_the_folder_is_not_read(name: str, tmp_path: Path) -> None:
    """Its sample fails, and says why."""
    (tmp_path / "secret").write_text("secret")
    folder = a_folder(tmp_path / "data", f"file,label\n{name},0\n")
    (folder / "link").symlink_to(tmp_path / "secret")
    (found,) = opened(folder, tmp_path).read()
    assert isinstance(found, UnreadableSample)
    assert "leaves the folder" in found.message


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "..\\evil"])
@pytest.mark.parametrize("form", ["zip", "tar"])
def test_an_archive_that_leaves_its_folder_is_refused(name: str, form: str, tmp_path: Path) -> None:
    """Nothing is written outside."""
    path = tmp_path / "packed"
    if form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, "evil")
    else:
        with tarfile.open(path, "w") as archive:
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"evil"))
    folder = tmp_path / "inner/unpacked"
    folder.mkdir(parents=True)
    with pytest.raises(TaskRefusedError, match="leaves its folder"):
        unpack(path, folder)
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_an_archive_are_refused(kind: bytes, tmp_path: Path) -> None:
    """A link may lead anywhere."""
    path = tmp_path / "packed"
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("link")
        member.type, member.linkname = kind, "/etc/hostname"
        archive.addfile(member)
    (tmp_path / "unpacked").mkdir()
    with pytest.raises(TaskRefusedError, match="no plain file"):
        unpack(path, tmp_path / "unpacked")


def test_a_zip_bomb_is_refused_before_it_fills_the_disk(tmp_path: Path) -> None:
    """300 MB of zeros in 300 kB: no more than the limit is written."""
    path = tmp_path / "bomb.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("zeros", "w") as file,
    ):
        for _ in range(300):
            file.write(bytes(1 << 20))
    (tmp_path / "unpacked").mkdir()
    with pytest.raises(TaskRefusedError, match="may be a bomb"):
        unpack(path, tmp_path / "unpacked")
    written = (tmp_path / "unpacked/zeros").stat().st_size
    assert written <= (64 << 20) + 200 * path.stat().st_size
    with pytest.raises(TaskRefusedError, match="more than 0 files"):
        unpack(path, tmp_path / "unpacked", ArchiveLimits(most_files=0))


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "tar.xz"])
def test_an_archive_that_is_cut_short_is_called_damaged(kind: str, tmp_path: Path) -> None:
    """It is not read as a table, with columns of noise."""
    path = tmp_path / f"data.{kind}"
    content = bytes(range(256)) * 64
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a", content)
    else:
        with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w:xz") as packed:
            member = tarfile.TarInfo("a")
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(TaskRefusedError, match="is damaged"):
        open_dataset("file:data", path, tmp_path / "unpacked")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    """A cut file says so."""
    path = tarred(a_folder(tmp_path / "data"), tmp_path / "packed")
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(TaskRefusedError, match=r"damaged|no dataset\.yaml"):
        opened(path, tmp_path)


TAR_MODES: dict[str, Literal["w", "w:gz", "w:bz2", "w:xz"]] = {
    "tar": "w",
    "tar.gz": "w:gz",
    "tar.bz2": "w:bz2",
    "tar.xz": "w:xz",
}


def packed_noise(path: Path, kind: str) -> bytes:
    """Pack two files of noise and return the archive."""
    noise = np.random.default_rng(3).bytes(20_000)
    if kind.startswith("zip"):
        method = {"deflate": 8, "bz2": 12, "lzma": 14}[kind.removeprefix("zip-")]
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("a", noise)
            archive.writestr("b", noise)
    else:
        with tarfile.open(path, TAR_MODES[kind]) as packed:
            for name in "ab":
                member = tarfile.TarInfo(name)
                member.size = len(noise)
                packed.addfile(member, io.BytesIO(noise))
    return path.read_bytes()


@pytest.mark.parametrize(
    "kind", ["zip-deflate", "zip-bz2", "zip-lzma", "tar.gz", "tar.bz2", "tar.xz"]
)
def test_an_archive_with_zeros_inside_is_called_damaged(kind: str, tmp_path: Path) -> None:
    """Wherever 16 bytes are lost among its files, whatever the compression raises."""
    path = tmp_path / "packed"
    whole = packed_noise(path, kind)
    for number, place in enumerate(range(40, len(whole) - 400, len(whole) // 23)):
        path.write_bytes(whole[:place] + bytes(16) + whole[place + 16 :])
        with pytest.raises(TaskRefusedError, match="is damaged"):
            unpack(path, tmp_path / f"unpacked{number}")


@pytest.mark.parametrize("kept", [20_000, 20_992, 21_100, 30_000, 41_984])
def test_a_plain_tar_that_is_cut_short_is_called_damaged(kept: int, tmp_path: Path) -> None:
    """Within a file, within a header, or between two files: its end is missing."""
    path = tmp_path / "packed"
    path.write_bytes(packed_noise(path, "tar")[:kept])
    with pytest.raises(TaskRefusedError, match="is damaged"):
        unpack(path, tmp_path / "unpacked")


def test_a_damaged_header_is_not_the_end_of_a_tar(tmp_path: Path) -> None:
    """The second file is not left out without a word."""
    path = tmp_path / "packed"
    whole = packed_noise(path, "tar")
    second = whole.index(b"b\0\0\0")
    path.write_bytes(whole[:second] + b"c" + whole[second + 1 :])
    with pytest.raises(TaskRefusedError, match="is damaged: header at byte 20,992: bad checksum"):
        unpack(path, tmp_path / "unpacked")


def test_the_checksum_at_the_end_of_a_compressed_tar_counts(tmp_path: Path) -> None:
    """All files are read by then."""
    path = tmp_path / "packed"
    whole = packed_noise(path, "tar.gz")
    path.write_bytes(whole[:-8] + bytes(4) + whole[-4:])
    with pytest.raises(TaskRefusedError, match="is damaged: CRC check failed"):
        unpack(path, tmp_path / "unpacked")


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress], ids=["gzip", "xz"])
@pytest.mark.parametrize("rows", ["text,label\na,1\n", "text,label\n" + "ä,1\n" * 9999])
def test_a_compressed_list_of_samples_is_no_damaged_archive(
    compress: Callable[[bytes], bytes], rows: str, tmp_path: Path
) -> None:
    """The message says what to do."""
    path = tmp_path / "samples.csv.gz"
    path.write_bytes(compress(rows.encode()))
    with pytest.raises(TaskRefusedError, match="is a compressed text, and no archive: decompress"):
        opened(path, tmp_path)


def test_a_header_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """As any other field of a CSV file is."""
    path = tmp_path / "samples.csv"
    path.write_text(f"text,label{'x' * (17 << 20)}\na,1\n")
    with pytest.raises(TaskRefusedError, match=r"line 1 of \S+ is not CSV: field larger than"):
        opened(path, tmp_path)


def test_zeros_without_end_after_a_tar_are_refused(tmp_path: Path) -> None:
    """They are not read to their end, as a bomb would want."""
    path = tmp_path / "packed"
    with gzip.open(path, "wb", 1) as file:
        for _ in range(70):
            file.write(bytes(1 << 20))
    with pytest.raises(
        TaskRefusedError, match=r"^The archive \S+ has more than 64 MiB after its end"
    ):
        unpack(path, tmp_path / "unpacked")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["x" * 256], "cannot be unpacked: File name too long"),
        (["f", "f/g/h"], "cannot be unpacked: Not a directory"),
        (["f", "f/g"], r"^The archive \S+ has the file \S+ twice"),
        (["f\0g"], "is damaged"),
    ],
)
def test_names_that_no_folder_can_hold_are_refused(
    names: list[str], words: str, tmp_path: Path
) -> None:
    """The message says which and why."""
    path = tmp_path / "packed"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            member = tarfile.TarInfo("short")
            member.pax_headers = {"path": name}
            archive.addfile(member)
    with pytest.raises(TaskRefusedError, match=words):
        unpack(path, tmp_path / "unpacked")


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """Ten times as many rows take no more memory."""
    peaks = []
    for count in (5_000, 50_000):
        path = tmp_path / f"{count}.csv"
        path.write_text("text,label\n" + "some words,1\n" * count)
        tracemalloc.start()
        dataset = open_dataset("file:x", path, tmp_path)
        assert sum(1 for _ in dataset.read()) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 200_000
