"""The store: keeps documents once, finds them, and takes what people say about them."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from sqlalchemy import ColumnElement, Connection, Select, delete, insert, select
from sqlalchemy.exc import DataError

from inferometer_api.results.reading import read_result
from inferometer_results.store.costs import Price
from inferometer_results.store.database import (
    DatabaseFailedError,
    NoSuchResultError,
    StoreError,
    describing,
    open_database,
)
from inferometer_results.store.documents import (
    RESULT_KIND,
    DamagedDocument,
    IndexCallback,
    StoredDocument,
    damaged_others,
    document_id,
    entry_of,
    ignore_count,
    ignore_fault,
    in_order,
    index_again,
    index_documents,
    insert_document,
    journal_of,
    journal_row,
    lock_documents,
    next_documents,
    readable_rows,
    repair_document,
    rows_of_document,
    source_name,
    stored_document,
    stored_or_damaged,
)
from inferometer_results.store.find_ids import (
    MOST_COUNTED,
    Matches,
    count_matches,
    find_ids,
    find_matches,
    priced,
    resolve,
)
from inferometer_results.store.index_rows import JournalRow, Origin, index_rows, storable
from inferometer_results.store.index_tables import (
    PAGE,
    attach,
    clear,
    insert_rows,
    plain_rows,
    rows_by_id,
)
from inferometer_results.store.layer_timings import insert_measured
from inferometer_results.store.query import Search
from inferometer_results.store.search_fields import SearchError
from inferometer_results.store.tables import (
    DOCUMENT,
    INDEX_TABLES,
    JOURNAL,
    LABEL,
    MEASUREMENT,
    RESULT,
    content_columns,
)
from inferometer_results.store.visibility import Readable, limit_reading


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a document that was handed over."""

    id: str
    is_new: bool
    """False if the store had it already."""
    is_repaired: bool = False
    """Whether what the store had was damaged, and is whole again."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the results of a search, and how many there are."""

    rows: list[dict[str, Any]]
    total: int
    is_exact: bool
    """False if there are more than `total`: conditions are not counted without end."""
    has_previous: bool = False
    has_next: bool = False


class Store:
    """Results in one database. Every method is atomic and raises StoreError."""

    def __init__(
        self,
        address: str,
        readable: Callable[[], Readable] = lambda: None,
        on_indexed: IndexCallback = ignore_count,
    ) -> None:
        """Open the database at an address; see `open_database`.

        Before each read, `readable` returns the namespaces that it is limited to. `on_indexed` is
        called while the results of a database with an older schema are indexed again.
        """
        self.address = address
        self._readable = readable
        self.price: Price | None = None
        """For searches by cost."""
        self.engine = open_database(address, partial(index_again, on_indexed=on_indexed))
        limit_reading(self.engine)

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database."""
        self.engine.dispose()

    def add(self, content: bytes, origin: Origin, *, source: str) -> Kept:
        """Keep a result document; `source` names it in messages.

        A document is the same if cluster, namespace, run and checksum are. One that is kept and
        damaged is repaired. Raises UnreadableDocumentError if it is none.
        """
        read = read_result(content, source=source)
        columns = content_columns(content)
        run_uid = read.document.run_id
        id_ = document_id(origin, run_uid, columns["sha256"])
        if read.notice:
            read = read_result(content, source=source_name(id_))
        row = {
            "id": id_,
            "kind": RESULT_KIND,
            "cluster_uid": origin.cluster_uid,
            "run_uid": storable(run_uid),
            "namespace": storable(origin.namespace or read.document.run.metadata.namespace or ""),
            "namespace_uid": origin.namespace_uid,
            "name": storable(read.document.run.name),
            "source": origin.source,
            "received_at": origin.received_at,
            **columns,
        }
        with self._writing() as connection:
            number = insert_document(connection, row)
            if number is None:
                kept = repair_document(connection, row)
                if kept is not None:
                    # A new index left it out.
                    clear(connection, [id_])
                    insert_rows(connection, readable_rows(connection, [kept], ignore_fault))
                return Kept(id_, is_new=False, is_repaired=kept is not None)
            # A journal begins after its document, and is deleted with it.
            insert_rows(connection, [index_rows(id_, number, read, origin, [])])
            insert_measured(connection, read.document, row)
        return Kept(id_, is_new=True)

    def resolve(self, prefix: str) -> str:
        """Return the one ID that begins so."""
        with self._reading() as connection:
            return resolve(connection, prefix)

    def read(self, id_: str) -> StoredDocument:
        """Return a document, checked against its checksum."""
        with self._reading() as connection:
            row = connection.execute(select(DOCUMENT).where(DOCUMENT.c.id == id_)).one_or_none()
        if row is None:
            raise NoSuchResultError(f"There is no result {id_}.")
        return stored_document(row)

    def retraction(self, id_: str) -> str | None:
        """Return why a result is retracted, None if it is not."""
        found = self.select(select(RESULT.c.retracted).where(RESULT.c.id == id_))
        return next((row["retracted"] for row in found), None)

    def retracted_copy(self, content: bytes, run_uid: str) -> tuple[str, str] | None:
        """Return the ID of a kept and retracted copy of a document, of any origin, and why it is.

        None if there is no such copy.
        """
        query = select(RESULT.c.id, RESULT.c.retracted).join(DOCUMENT)
        query = query.where(RESULT.c.run_uid == storable(run_uid), RESULT.c.retracted.is_not(None))
        query = query.where(DOCUMENT.c.sha256 == hashlib.sha256(content).hexdigest())
        return next(((row["id"], row["retracted"]) for row in self.select(query.limit(1))), None)

    def documents(self) -> Iterator[StoredDocument | DamagedDocument]:
        """Yield every document in the order in which it was kept."""
        after = ""
        while some := self.documents_after(after, PAGE):
            yield from some
            after = some[-1].id

    def documents_after(self, id_: str, most: int) -> list[StoredDocument | DamagedDocument]:
        """Return the documents that were kept after a result, "" for the first ones."""
        with self._reading() as connection:
            number = 0
            if id_:
                found = connection.scalar(select(DOCUMENT.c.number).where(DOCUMENT.c.id == id_))
                if found is None:
                    raise NoSuchResultError(f"There is no result {id_}.")
                number = int(found)
            rows = next_documents(connection, number, most)
        return list(map(stored_or_damaged, rows))

    def other_documents(self) -> list[dict[str, Any]]:
        """Return the rows of documents that are no results, without their numbers."""
        columns = [each for each in DOCUMENT.columns if each.name != "number"]
        query = select(*columns).where(DOCUMENT.c.kind != RESULT_KIND).order_by(DOCUMENT.c.number)
        return self.select(query)

    def restore_other(self, row: dict[str, Any]) -> Kept:
        """Keep the row of a document that is no result; one that is damaged is repaired."""
        with self._writing() as connection:
            if insert_document(connection, row) is not None:
                return Kept(row["id"], is_new=True)
            is_repaired = repair_document(connection, row) is not None
            return Kept(row["id"], is_new=False, is_repaired=is_repaired)

    def find_ids(self, search: Search) -> list[str]:
        """Return the IDs of the results of a search, in its order."""
        with self._reading() as connection:
            search = priced(connection, search, self.price)
            return find_ids(connection, search, find_matches(connection, search)).ids

    def find(self, search: Search) -> list[dict[str, Any]]:
        """Return the results of a search with their measurements and labels, in its order."""
        with self._reading() as connection:
            search = priced(connection, search, self.price)
            ids = find_ids(connection, search, find_matches(connection, search)).ids
            return _rows(connection, ids)

    def page(self, search: Search) -> Page:
        """Return the same, and how many results there are without limit and offset."""
        with self._reading() as connection:
            search = priced(connection, search, self.price)
            matches = find_matches(connection, search)
            found = count_matches(connection, matches, MOST_COUNTED + 1)
            is_exact = matches.is_everything or found <= MOST_COUNTED
            total = found if is_exact else MOST_COUNTED
            part = find_ids(connection, search, matches)
            rows = _rows(connection, part.ids)
            return Page(rows, total, is_exact, part.has_previous, part.has_next)

    def select(self, query: Select[Any]) -> list[dict[str, Any]]:
        """Return the rows of a query of the index, by the plain names of their columns."""
        with self._reading() as connection:
            return plain_rows(connection.execute(query))

    def count(self, search: Search) -> int:
        """Return how many results a search finds, its limit left aside."""
        with self._reading() as connection:
            search = priced(connection, search, self.price)
            return count_matches(connection, find_matches(connection, search))

    def matches(self, search: Search) -> Matches:
        """Return the condition of a search in the form that is fast. Raises SearchError."""
        with self._reading() as connection:
            return find_matches(connection, priced(connection, search, self.price))

    def condition(self, search: Search) -> ColumnElement[bool]:
        """Return the condition of a search on the table of results. Raises SearchError."""
        return self.matches(search).condition

    def note(self, id_: str, entry: JournalRow) -> None:
        """Add an entry to the journal of a result; it is no older than the last one there."""
        self._note(id_, entry, is_last=True)

    def _note(self, id_: str, entry: JournalRow, *, is_last: bool) -> None:
        with self._writing() as connection:
            # Other entries of this result, its deletion and a new index wait.
            query = select(DOCUMENT).where(DOCUMENT.c.id == id_).with_for_update()
            row = connection.execute(query).one_or_none()
            if row is None:
                raise NoSuchResultError(f"There is no result {id_}.")
            known = journal_of(connection, [id_]).get(id_, [])
            if is_last and known and known[-1].at > entry.at:
                # The clocks of two machines differ, and the entry is to have an effect.
                entry = replace(entry, at=known[-1].at)
            connection.execute(insert(JOURNAL).values(journal_row(id_, entry)))
            clear(connection, [id_])
            journal = journal_of(connection, [id_])[id_]
            insert_rows(connection, [rows_of_document(row, journal)])

    def journal(self, ids: Sequence[str] | None = None) -> list[tuple[str, JournalRow]]:
        """Return the entries of the journal in order, each with the ID of its result.

        Those of these results, otherwise all.
        """
        query = select(JOURNAL)
        with self._reading() as connection:
            if ids is None:
                rows = connection.execute(query).all()
            else:
                rows = [
                    row
                    for start in range(0, len(ids), PAGE)
                    for row in connection.execute(
                        query.where(JOURNAL.c.document_id.in_(ids[start : start + PAGE]))
                    )
                ]
        return [(row.document_id, entry_of(row)) for row in in_order(rows)]

    def restore_journal(self, entries: Sequence[tuple[str, JournalRow]]) -> dict[str, str]:
        """Add the entries of another store's journal, those that this one lacks.

        Return the results whose entries could not be added, each with the reason as a sentence.
        """
        known = set(self.journal())
        left_out: dict[str, str] = {}
        for id_, entry in entries:
            if (id_, entry) in known:
                continue
            try:
                self._note(id_, entry, is_last=False)
            except DatabaseFailedError:
                raise
            except StoreError as error:
                left_out[id_] = str(error)
        return left_out

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents with all that was said about them; return how many there were."""
        deleted = 0
        # Two that delete the same documents lock them in the same order.
        ids = sorted(ids)
        with self._writing() as connection:
            for start in range(0, len(ids), PAGE):
                some = ids[start : start + PAGE]
                query = select(DOCUMENT.c.id).where(DOCUMENT.c.id.in_(some))
                connection.execute(query.order_by(DOCUMENT.c.id).with_for_update())
                clear(connection, some)
                connection.execute(delete(JOURNAL).where(JOURNAL.c.document_id.in_(some)))
                gone = connection.execute(delete(DOCUMENT).where(DOCUMENT.c.id.in_(some)))
                deleted += gone.rowcount
        return deleted

    def reindex(
        self,
        on_fault: Callable[[str], object] = ignore_fault,
        on_indexed: IndexCallback = ignore_count,
    ) -> Iterator[int]:
        """Make the index anew from documents and journal; yield how many are done.

        A document that cannot be read is left out; `on_fault` gets the reason as a sentence, also
        that of a document that is no result.
        Readers see the old index until the end. Until then every other writer waits, up to a
        minute.
        """
        with self._writing() as connection:
            lock_documents(connection)
            for table in INDEX_TABLES:
                connection.execute(delete(table))
            yield from index_documents(connection, on_fault, on_indexed, is_empty=True)
            for fault in damaged_others(connection):
                on_fault(fault)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with describing(self.address), self.engine.connect() as connection:
            try:
                yield connection.execution_options(read_only=True, readable=self._readable())
            except (DataError, OverflowError) as error:
                raise SearchError("No database can hold a value such as this one.") from error

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with describing(self.address), self.engine.begin() as connection:
            yield connection


def _rows(connection: Connection, ids: Sequence[str]) -> list[dict[str, Any]]:
    found = rows_by_id(connection, ids)
    rows = [found[id_] for id_ in ids]
    attach(
        connection,
        rows,
        "measurements",
        select(MEASUREMENT).order_by(MEASUREMENT.c.result_number, MEASUREMENT.c.position),
    )
    attach(connection, rows, "labels", select(LABEL).order_by(*LABEL.primary_key))
    return rows
