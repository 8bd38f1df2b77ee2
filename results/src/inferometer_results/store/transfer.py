"""Carries results out of a store and into one: whole stores, tables of figures, folders."""

import base64
import csv
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from inferometer_api.results.reading import UnreadableDocumentError
from inferometer_results.annotation import AnnotationError, check_entry
from inferometer_results.export.rows import without_formulas
from inferometer_results.store.database import StoreError
from inferometer_results.store.documents import (
    RESULT_KIND,
    DamagedDocument,
    StoredDocument,
    damage_of_other,
)
from inferometer_results.store.index_rows import JournalRow, Origin
from inferometer_results.store.scenario_rows import short_id, tags
from inferometer_results.store.store import Store
from inferometer_results.store.tables import DOCUMENT, MEASUREMENT, RESULT, SHOWN

ARCHIVE_SUFFIX = ".jsonl"
_DAMAGED_LINE = '{"damaged": '
_OTHER_KINDS = {
    each.name: each.type.python_type
    for each in DOCUMENT.columns
    if each.name not in {"number", "content"}
}
_OF_NO_CELL = frozenset({"number", "measurements", "labels", "words"})
"""What a table of figures leaves out: the place in a store, lists, and the lines of searches."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of one file or line."""

    source: str
    id: str = ""
    is_new: bool = False
    is_repaired: bool = False
    """Whether the store had it damaged, and has it whole now."""
    fault: str = ""
    """Why it was not kept, as a sentence."""


def figure_rows(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a flat row for each measurement, with the columns of its result."""
    rows = []
    for result in results:
        own = {name: value for name, value in result.items() if name not in _OF_NO_CELL}
        own["tags"] = " ".join(tags(result))
        rows += [
            own | {f"scenario_{key}" if key in own else key: value for key, value in each.items()}
            for each in result["measurements"]
        ]
    return rows


def figure_columns() -> list[str]:
    """Return the columns of `figure_rows`, in their order."""
    own = [each.name for each in SHOWN if each.name not in _OF_NO_CELL] + ["tags"]
    measured = [each.name for each in MEASUREMENT.columns if each.name != "result_number"]
    return own + [f"scenario_{each}" if each in own else each for each in measured]


def as_csv(rows: list[dict[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as CSV with a heading (RFC 4180); an absent value is empty.

    No cell is a formula to a spreadsheet. Without rows, the heading has the columns. The rows of a
    cluster's service of another version have columns of their own.
    """
    written = io.StringIO()
    writer = csv.DictWriter(written, list(rows[0]) if rows else columns)
    writer.writeheader()
    writer.writerows(map(without_formulas, rows))
    return written.getvalue()


def as_json_lines(results: Iterable[dict[str, Any]]) -> str:
    """Return one JSON object a line for each result, with its measurements and labels."""
    return "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in results)


def write_parquet(rows: list[dict[str, Any]], path: Path) -> None:
    """Write rows as a Parquet file."""
    try:
        # It is an extra, and large.
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise StoreError("Parquet needs pyarrow. Install inferometer[parquet].") from error
    # Without rows, a table has the columns of one that is cut off again.
    table = pa.Table.from_pylist(rows or [dict.fromkeys(figure_columns())]).slice(0, len(rows))
    # A column without any value would have the type null.
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    known = {each.name: kinds.get(each.type.python_type) for each in (*RESULT.c, *MEASUREMENT.c)}
    columns = [
        field.with_type(known.get(field.name) or pa.string())
        if pa.types.is_null(field.type)
        else field
        for field in table.schema
    ]
    parquet.write_table(table.cast(pa.schema(columns)), path)


def archive_lines(store: Store) -> Iterator[str]:
    """Yield the truth of a store, line by line: its documents, then its journal.

    `damage_of` recognizes the line of a document that is damaged.
    """
    yield from map(_document_line, store.documents())
    yield from map(_other_line, store.other_documents())
    yield from _journal_lines(store.journal())


def archive_part(store: Store, after: str, most: int) -> Iterator[str]:
    """Yield the lines of the documents that were kept after a result, and of their journal.

    The first part also has those of the documents that are no results.
    """
    if not after:
        yield from map(_other_line, store.other_documents())
    some = store.documents_after(after, most)
    yield from map(_document_line, some)
    yield from _journal_lines(store.journal([each.id for each in some]))


def damage_of(line: str) -> str:
    """Return why a line of an archive has no document, as a sentence; "" for any other line."""
    return str(json.loads(line)["damaged"]) if line.startswith(_DAMAGED_LINE) else ""


def _document_line(stored: StoredDocument | DamagedDocument) -> str:
    if isinstance(stored, DamagedDocument):
        return json.dumps({"damaged": stored.fault, "document": stored.id})
    content = base64.b64encode(zlib.compress(stored.content, 9)).decode()
    return json.dumps({"document": stored.id, **asdict(stored.origin), "content": content})


def _other_line(row: dict[str, Any]) -> str:
    if fault := damage_of_other(row):
        return json.dumps({"damaged": fault})
    content = base64.b64encode(row.pop("content")).decode()
    return json.dumps({"other": row, "content": content})


def _restore_other(store: Store, fields: dict[str, Any], where: str) -> Imported:
    """Keep what `_other_line` wrote. Raises ValueError if it is damaged."""
    row, content = fields["other"], base64.b64decode(fields["content"], validate=True)
    if set(row) != set(_OTHER_KINDS) or row["kind"] == RESULT_KIND:
        raise ValueError(where)
    if not all(isinstance(row[each], _OTHER_KINDS[each]) for each in row):
        raise ValueError(where)
    _check_texts(*(each for each in row.values() if isinstance(each, str)))
    if sha256(zlib.decompress(content)).hexdigest() != row["sha256"]:
        raise ValueError(where)
    kept = store.restore_other(row | {"content": content})
    return Imported(where, kept.id, kept.is_new, kept.is_repaired)


def _check_texts(*values: Any) -> None:
    """Check that values are texts, as a database can hold them. Raises ValueError if one is not."""
    for each in values:
        if not isinstance(each, str) or "\0" in each:
            raise ValueError(each)
        each.encode()


def _journal_lines(entries: Iterable[tuple[str, JournalRow]]) -> Iterator[str]:
    for id_, entry in entries:
        yield json.dumps({"journal": id_, **asdict(entry)})


def import_archive(store: Store, lines: Iterable[str], *, source: str) -> Iterator[Imported]:
    """Keep what `archive_lines` wrote; yield what became of each document, and what is lost.

    Bytes of a line that are not UTF-8 are lone surrogates in it (`errors="surrogateescape"`).
    """
    entries: list[tuple[str, JournalRow]] = []
    for number, line in enumerate(lines, 1):
        where = f"{source}:{number}"
        try:
            line.encode()
            fields = json.loads(line)
            if "journal" in fields:
                id_, entry = fields.pop("journal"), JournalRow(**fields)
                _check_texts(id_, *fields.values())
                check_entry(entry)
                entries.append((id_, entry))
                continue
            if "other" in fields:
                yield _restore_other(store, fields, where)
                continue
            fields.pop("document")
            content = zlib.decompress(base64.b64decode(fields.pop("content"), validate=True))
            origin = Origin(**fields)
            _check_texts(*fields.values())
        except AnnotationError as error:
            fault = f"{where} is not an entry of a journal. {error}"
            yield Imported(where, fault=fault)
            continue
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error):
            yield Imported(where, fault=f"{where} is not a line of an archive.")
            continue
        yield _add(store, content, origin, where)
    for id_, reason in store.restore_journal(entries).items():
        fault = f"{source}: what people added to result {short_id(id_)} was left out. {reason}"
        yield Imported(source, fault=fault)


def import_file(store: Store, path: Path, received_at: str) -> Imported:
    """Keep the result in a file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        return Imported(str(path), fault=f"Cannot read {path}: {error.strerror}.")
    return _add(store, content, Origin("import", received_at), str(path))


def _add(store: Store, content: bytes, origin: Origin, source: str) -> Imported:
    try:
        kept = store.add(content, origin, source=source)
    except UnreadableDocumentError as error:
        return Imported(source, fault=str(error))
    return Imported(source, kept.id, kept.is_new, kept.is_repaired)
