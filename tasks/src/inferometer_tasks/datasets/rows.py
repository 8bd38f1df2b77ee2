"""Lists of samples in CSV and JSONL, read row by row."""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inferometer_tasks.assets import path_within
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.image_file import opened_image
from inferometer_tasks.sample import Content, Sample

Row = dict[str, Any]
_CONTENT = ("file", "text", "values")
_COLUMNS = frozenset({"id", *_CONTENT, "label", "context"})
_MOST_FILE_BYTES = 256 * 1024 * 1024
_LONGEST_FIELD = 16 * 1024 * 1024


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield each row of a list with its line; raises TaskRefusedError."""
    try:
        if _is_json(path):
            yield from _json_rows(path)
        else:
            yield from _csv_rows(path)
    except OSError as error:
        raise TaskRefusedError(f"The samples {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise TaskRefusedError(f"The samples {path} are not UTF-8 text.") from error


def _is_json(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1024).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def _json_rows(path: Path) -> Iterator[tuple[int, Row]]:
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise TaskRefusedError(
                    f"Line {number} of {path} is not JSON: {error}. A JSONL file has one object a "
                    "line."
                ) from error
            if not isinstance(row, dict):
                raise TaskRefusedError(f"Line {number} of {path} is not a JSON object.")
            _check_columns(path, list(row))
            # Writers of tables, such as pandas, give every row every column.
            found = {key: value for key, value in row.items() if value is not None}
            _check_row(path, number, found)
            yield number, found


def _csv_rows(path: Path) -> Iterator[tuple[int, Row]]:
    csv.field_size_limit(_LONGEST_FIELD)
    with path.open(encoding="utf-8-sig", newline="") as lines:
        # Strict: an open quote would take in all rows behind it.
        rows = csv.DictReader(lines, strict=True)
        begins = 1
        try:
            columns = rows.fieldnames or []
            _check_columns(path, columns)
            if not set(_CONTENT) & set(columns):
                raise TaskRefusedError(
                    f"The samples {path} have the columns {list(columns)}: one of "
                    f"{list(_CONTENT)} is needed, in the first line."
                )
            begins = rows.line_num + 1
            for row in rows:
                if None in row:
                    raise TaskRefusedError(
                        f"Line {rows.line_num} of {path} has more values than columns: quote "
                        "values with commas."
                    )
                found = {key: value for key, value in row.items() if value}
                _check_row(path, rows.line_num, found)
                yield rows.line_num, found
                begins = rows.line_num + 1
        except csv.Error as error:
            raise TaskRefusedError(
                f"The row at line {begins} of {path} is not CSV: {error}. Look for a quote that is "
                "not closed; within quotes, a quote is written twice."
            ) from error


def _check_columns(path: Path, columns: Sequence[str]) -> None:
    for each in columns:
        plain = each.strip().lower()
        if plain in _COLUMNS and each != plain:
            raise TaskRefusedError(
                f"The samples {path} have the column {each!r}: write {plain!r}, or rename it if it "
                "is another one."
            )
        if each in _COLUMNS and columns.count(each) > 1:
            raise TaskRefusedError(f"The samples {path} have the column {each!r} twice.")


def _check_row(path: Path, number: int, row: Row) -> None:
    if sum(each in row for each in _CONTENT) != 1:
        raise TaskRefusedError(
            f"Line {number} of {path} must have exactly one of {list(_CONTENT)}, and null counts "
            f"as absent; it has {sorted(row)}."
        )


def sample_id(number: int, row: Row) -> str:
    """Return the identity of the sample of a row, the `number`-th from 1."""
    return str(row.get("id", number))


def sample_of(number: int, row: Row, folder: Path) -> Sample:
    """Return the sample of a row, the `number`-th from 1; raises SampleError if it cannot be."""
    label = row.get("label")
    return Sample(
        id=sample_id(number, row),
        content=_content(row, folder),
        label=_mask(label, folder) if isinstance(label, str) else label,
        context=row.get("context"),
    )


def _content(row: Row, folder: Path) -> Content:
    if "file" in row:
        return read_file(folder, str(row["file"]))
    if "text" in row:
        return str(row["text"])
    values = row["values"]
    try:
        parsed = json.loads(values) if isinstance(values, str) else values
        found = np.asarray(parsed)
    except (ValueError, RecursionError) as error:
        raise SampleError(f"Its values are not a list of numbers: {error}.") from error
    if found.dtype.kind not in "biuf":
        raise SampleError("Its values are not a list of numbers, all of the same length.")
    return found


def read_file(folder: Path, name: str) -> bytes:
    """Return a file of a data set; raises SampleError if it cannot be read."""
    try:
        path = path_within(folder, name, "Its file")
        if path.stat().st_size > _MOST_FILE_BYTES:
            raise SampleError(f"Its file {name!r} has more than {_MOST_FILE_BYTES >> 20} MiB.")
        return path.read_bytes()
    except TaskRefusedError as error:
        raise SampleError(str(error)) from error
    except OSError as error:
        raise SampleError(f"Its file {name!r} cannot be read: {error.strerror}.") from error


def _mask(label: str, folder: Path) -> Any:
    """Return the classes of a label `mask:FILE`, an image with one class per pixel."""
    if not label.startswith("mask:"):
        return label
    content = read_file(folder, label.removeprefix("mask:"))
    with opened_image(content, "Its mask") as opened:
        if opened.mode == "F":
            raise SampleError("Its mask is an image of floats: save the classes as numbers.")
        return np.asarray(opened).astype(np.int64)
