"""The truth of a store: documents as they were received, and the journal of what people added."""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import Connection, func, select, text, update
from sqlalchemy.dialects import postgresql, sqlite

from inferometer_api.document import Document
from inferometer_api.results.reading import UnreadableDocumentError, read_result, read_versioned
from inferometer_results.store.database import StoreError
from inferometer_results.store.index_rows import IndexRows, JournalRow, Origin, index_rows
from inferometer_results.store.index_tables import PAGE, clear, insert_rows
from inferometer_results.store.scenario_rows import short_id
from inferometer_results.store.tables import DOCUMENT, JOURNAL

RESULT_KIND = "BenchmarkResult"

Kind = TypeVar("Kind", bound=Document)
IndexCallback = Callable[[int, int], None]
"""Receives how many results are indexed by now, and how many there are."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as it was received."""

    id: str
    origin: Origin
    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class DamagedDocument:
    """A document whose content no longer has its checksum."""

    id: str
    fault: str
    """A sentence with what to do."""


def document_id(origin: Origin, run_uid: str, sha256: str) -> str:
    """Return the ID of a document: equal for one that is delivered again."""
    place = f"{origin.cluster_uid}\0{origin.namespace_uid}"
    return hashlib.sha256(f"{place}\0{run_uid}\0{sha256}".encode()).hexdigest()[:32]


def source_name(id_: str) -> str:
    """Return what a kept document is called in messages."""
    return f"Result {id_}"


def insert_document(connection: Connection, row: dict[str, Any]) -> int | None:
    """Insert a document; return its number, None if it is there already."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(DOCUMENT).on_conflict_do_nothing(index_elements=["id"])
    found = connection.execute(statement.returning(DOCUMENT.c.number), row).one_or_none()
    return None if found is None else int(found[0])


def repair_document(connection: Connection, row: dict[str, Any]) -> Any | None:
    """Replace the content of a kept document if it is damaged; return its row then.

    The content in `row` has the checksum in `row`, which has to be that of the kept document.
    """
    query = select(DOCUMENT).where(DOCUMENT.c.id == row["id"]).with_for_update()
    kept = connection.execute(query).one_or_none()
    if kept is None or kept.sha256 != row["sha256"]:
        return None
    if content_of(kept.content, kept.sha256) is not None:
        return None
    change = update(DOCUMENT).where(DOCUMENT.c.id == row["id"])
    connection.execute(change.values(bytes=row["bytes"], content=row["content"]))
    return connection.execute(query).one()


def lock_documents(connection: Connection) -> None:
    """Have every other writer wait for the end of this transaction; readers go on.

    A writer takes a row of this table before any other row, so none of them holds what the owner of
    the lock needs. In SQLite there is one writer at a time in any case.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE document IN EXCLUSIVE MODE"))


def index_again(connection: Connection, on_indexed: IndexCallback) -> None:
    """Fill the index after a change of its tables; what is damaged keeps its old rows."""
    for _ in index_documents(connection, ignore_fault, on_indexed, is_empty=False):
        pass


def index_documents(
    connection: Connection,
    on_fault: Callable[[str], object],
    on_indexed: IndexCallback,
    *,
    is_empty: bool,
) -> Iterator[int]:
    """Index all results that can be read; yield how many are done.

    `on_fault` gets why one cannot be read. Its old rows stay, if the index is not empty.
    """
    done = read = number = 0
    total = kept_count(connection)
    while rows := next_documents(connection, number):
        number = rows[-1].number
        readable = readable_rows(connection, rows, on_fault)
        if not is_empty:
            clear(connection, [each.result["id"] for each in readable])
        if readable:
            insert_rows(connection, readable)
        done += len(readable)
        read += len(rows)
        on_indexed(read, total)
        yield done


def kept_count(connection: Connection) -> int:
    """Return how many results are kept, also those that the index left out."""
    query = select(func.count()).select_from(DOCUMENT).where(DOCUMENT.c.kind == RESULT_KIND)
    return connection.scalar(query) or 0


def ignore_count(_: int, __: int) -> None:
    """Show no progress."""


def ignore_fault(_: str) -> None:
    """Do nothing about a document that cannot be read."""


def readable_rows(
    connection: Connection, rows: Sequence[Any], on_fault: Callable[[str], object]
) -> list[IndexRows]:
    """Return the rows of the index for documents; `on_fault` gets why one cannot be read."""
    journal = journal_of(connection, [row.id for row in rows])
    found = []
    for row in rows:
        try:
            found.append(rows_of_document(row, journal.get(row.id, [])))
        except (StoreError, UnreadableDocumentError) as error:
            on_fault(str(error))
    return found


def next_documents(connection: Connection, number: int, most: int = PAGE) -> Sequence[Any]:
    """Return the rows of the documents that were kept after the `number`th."""
    query = select(DOCUMENT).where(DOCUMENT.c.kind == RESULT_KIND, DOCUMENT.c.number > number)
    query = query.order_by(DOCUMENT.c.number)
    return connection.execute(query.limit(most)).all()


def content_of(compressed: bytes, sha256: str) -> bytes | None:
    """Return the content of a document, None if it does not have this checksum."""
    try:
        content = zlib.decompress(compressed)
    except zlib.error:
        return None
    return content if hashlib.sha256(content).hexdigest() == sha256 else None


def read_content(model: type[Kind], row: Mapping[str, Any]) -> Kind | None:
    """Return the document in the content of a row; None if it cannot be read.

    `reindex` names what is damaged. An archive can bring what no document of this kind is.
    """
    content = content_of(row["content"], row["sha256"])
    try:
        if content is None:
            return None
        return read_versioned(model, content, source="The document").document
    except (ValidationError, UnreadableDocumentError):
        return None


def damage_of_other(row: Mapping[str, Any]) -> str:
    """Return that a document that is no result is damaged, as a sentence; "" if it is not."""
    if content_of(row["content"], row["sha256"]) is not None:
        return ""
    return (
        f"The {row['kind']} document {row['id']} is damaged: its checksum differs. Import a backup."
    )


def damaged_others(connection: Connection) -> Iterator[str]:
    """Yield a sentence for each damaged document that is no result."""
    query = select(*(DOCUMENT.c[each] for each in ("kind", "id", "sha256", "content")))
    query = query.where(DOCUMENT.c.kind != RESULT_KIND).order_by(DOCUMENT.c.number)
    rows = connection.execute(query.execution_options(yield_per=PAGE))
    yield from filter(None, (damage_of_other(row._asdict()) for row in rows))


def stored_document(row: Any) -> StoredDocument:
    """Return the document in a row, checked against its checksum. Raises StoreError."""
    content = content_of(row.content, row.sha256)
    if content is None:
        raise StoreError(
            f"The document of result {row.id} is damaged: its checksum differs. Import its file or "
            f"a backup, or delete it: inferometer results delete {short_id(row.id)}"
        )
    place = (row.cluster_uid, row.namespace, row.namespace_uid)
    origin = Origin(row.source, row.received_at, *place)
    return StoredDocument(row.id, origin, row.name, content)


def stored_or_damaged(row: Any) -> StoredDocument | DamagedDocument:
    """Return the document in a row, or why it cannot be read."""
    try:
        return stored_document(row)
    except StoreError as error:
        return DamagedDocument(row.id, str(error))


def rows_of_document(row: Any, journal: Sequence[JournalRow]) -> IndexRows:
    """Return the rows of the index for the document in a row."""
    stored = stored_document(row)
    read = read_result(stored.content, source=source_name(row.id))
    return index_rows(row.id, row.number, read, stored.origin, journal)


def journal_of(connection: Connection, ids: Sequence[str]) -> dict[str, list[JournalRow]]:
    """Return the entries of results in order, by ID."""
    query = select(JOURNAL).where(JOURNAL.c.document_id.in_(list(ids)))
    found: dict[str, list[JournalRow]] = {}
    for row in in_order(connection.execute(query).all()):
        found.setdefault(row.document_id, []).append(entry_of(row))
    return found


def in_order(rows: Iterable[Any]) -> list[Any]:
    """Return rows of the journal in the order in which the entries apply: that of their times.

    An import may add older entries to newer ones. Those of one time apply as they were added.
    """
    return sorted(rows, key=lambda row: (row.at, row.number))


def entry_of(row: Any) -> JournalRow:
    """Return the entry in a row of the journal."""
    return JournalRow(row.at, row.by, row.action, row.text)


def journal_row(id_: str, entry: JournalRow) -> dict[str, str]:
    """Return the row of an entry."""
    return {
        "at": entry.at,
        "by": entry.by,
        "action": entry.action,
        "document_id": id_,
        "text": entry.text,
    }
