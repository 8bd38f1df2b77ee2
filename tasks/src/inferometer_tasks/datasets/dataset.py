"""Opens a data set: built in, a folder, an archive, or a list of samples."""

import csv
import gzip
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path

import numpy as np

from inferometer_api.manifest.dataset_manifest import DATASET_MANIFEST, DatasetManifest
from inferometer_api.spec.reading import InvalidRunError, parse_document
from inferometer_tasks.assets import path_within
from inferometer_tasks.datasets.archive import is_archive, unpack
from inferometer_tasks.datasets.rows import read_rows, sample_id, sample_of
from inferometer_tasks.errors import SampleError, TaskRefusedError, confine_to_sample
from inferometer_tasks.sample import Sample, class_number

BUILT_IN = "builtin://"
DIGITS = f"{BUILT_IN}digits"
_UNKNOWN = "not stated"
_MOST_HASHES = 4_000_000
"""Ids that are compared, of the first samples: their hashes take 8 bytes each."""


@dataclass(frozen=True, slots=True)
class UnreadableSample:
    """A row whose sample cannot be read, and why: a sentence."""

    id: str
    message: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set whose samples are read one at a time, as often as needed."""

    name: str
    version: str
    license: str
    count: int
    read: Callable[[], Iterator[Sample | UnreadableSample]]
    classes: int | None = None

    def first(self, count: int | None) -> Iterator[Sample | UnreadableSample]:
        """Yield the first samples; all if `count` is None."""
        return islice(self.read(), count)


def open_dataset(uri: str, path: Path | None, unpacked: Path) -> Dataset:
    """Return the data set at an address; `path` is its file or folder if it is not built in.

    An archive is unpacked into the empty folder `unpacked`. The list of samples is read once, row
    by row, to refuse a broken one. Raises TaskRefusedError.
    """
    if path is None:
        return _built_in(uri)
    if path.is_dir():
        return _of_folder(path)
    if is_archive(path):
        unpack(path, unpacked)
        return _of_folder(_root(unpacked))
    return _of_list(path, path.parent)


def _root(unpacked: Path) -> Path:
    """Return the folder with the manifest: an archive may have one folder around all.

    macOS adds another one for attributes of files.
    """
    if (unpacked / DATASET_MANIFEST).exists():
        return unpacked
    inner = [each for each in unpacked.iterdir() if each.is_dir() and each.name != "__MACOSX"]
    return inner[0] if len(inner) == 1 else unpacked


def _of_folder(folder: Path) -> Dataset:
    file = folder / DATASET_MANIFEST
    try:
        text = file.read_text(encoding="utf-8")
        manifest = parse_document(text, DatasetManifest, source=str(file))
    except OSError as error:
        raise TaskRefusedError(
            f"The data set {folder} has no {DATASET_MANIFEST} that can be read: {error.strerror}."
        ) from error
    except UnicodeDecodeError as error:
        raise TaskRefusedError(f"{file} is not UTF-8 text.") from error
    except InvalidRunError as error:
        raise TaskRefusedError(str(error)) from error
    return _of_list(path_within(folder, manifest.samples, f"samples of {file}"), folder, manifest)


def _of_list(path: Path, folder: Path, manifest: DatasetManifest | None = None) -> Dataset:
    classes = None if manifest is None else manifest.classes
    count, hashes = 0, array("q")
    for number, row in read_rows(path):
        count += 1
        _check_class(path, number, row.get("label"), classes)
        if "id" in row and not hashes:
            # Rows without an id have their number as one; until here all had.
            hashes.extend(hash(str(each)) for each in range(1, min(count, _MOST_HASHES + 1)))
        if ("id" in row or hashes) and len(hashes) < _MOST_HASHES:
            hashes.append(hash(sample_id(count, row)))
    if not count:
        raise TaskRefusedError(f"The data set {path} has no samples.")
    _check_ids(path, hashes)

    def read() -> Iterator[Sample | UnreadableSample]:
        for number, (_, row) in enumerate(read_rows(path), 1):
            try:
                with confine_to_sample("the reader of samples"):
                    sample = sample_of(number, row, folder)
            except SampleError as error:
                yield UnreadableSample(sample_id(number, row), str(error))
            else:
                yield sample

    return Dataset(
        name=path.name if manifest is None else manifest.name,
        version=_UNKNOWN if manifest is None else manifest.version,
        license=_UNKNOWN if manifest is None else manifest.license,
        count=count,
        read=read,
        classes=classes,
    )


def _check_ids(path: Path, hashes: "array[int]") -> None:
    """Raise TaskRefusedError if two rows have one id, given hashes of the ids."""
    ordered = np.sort(np.frombuffer(hashes, np.int64))
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return
    suspect, lines = int(repeated[0]), dict[str, int]()
    for count, (number, row) in enumerate(read_rows(path), 1):
        name = sample_id(count, row)
        if hash(name) != suspect:
            continue
        if name in lines:
            raise TaskRefusedError(
                f"Lines {lines[name]} and {number} of {path} have the same id {name!r}: give each "
                "sample its own. The id of a row without one is its number."
            )
        lines[name] = number


def _check_class(path: Path, number: int, label: object, classes: int | None) -> None:
    found = class_number(label)
    if classes is not None and found is not None and not 0 <= found < classes:
        raise TaskRefusedError(
            f"Line {number} of {path} has the label {label}, but the data set has {classes} "
            f"classes, from 0 to {classes - 1}."
        )


def check_built_in(uri: str) -> None:
    """Raise TaskRefusedError if the address is that of a built-in data set that does not exist."""
    if uri.startswith(BUILT_IN) and uri != DIGITS:
        raise TaskRefusedError(f"There is no built-in data set {uri}: there is {DIGITS}.")


def _built_in(uri: str) -> Dataset:
    check_built_in(uri)
    return Dataset(
        name="Optical recognition of handwritten digits (E. Alpaydin, UCI, test set)",
        version="1998",
        license="CC-BY-4.0",
        count=1797,
        read=_digits,
        classes=10,
    )


def _digits() -> Iterator[Sample]:
    """Yield the digits: 8 rows of 8 values from 0 to 16."""
    packed = files("inferometer_tasks.datasets").joinpath("digits.csv.gz")
    with packed.open("rb") as raw, gzip.open(raw, "rt", encoding="ascii") as lines:
        for number, row in enumerate(csv.reader(lines)):
            *values, label = (int(float(each)) for each in row)
            yield Sample(str(number), np.array(values, np.uint8).reshape(8, 8), label)
