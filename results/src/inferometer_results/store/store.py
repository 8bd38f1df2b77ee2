"""The store: keeps documents once, finds them, and takes what people say about them."""

import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from inferometer_api.results.reading import UnreadableResultError, read_result
from inferometer_results.store.database import (
    NoSuchResultError,
    StoreError,
    describing,
    open_database,
)
from inferometer_results.store.find_ids import fast_condition, find_ids
from inferometer_results.store.index_rows import (
    ACCEPT_CHANGE,
    REJECT_CHANGE,
    Entry,
    IndexRows,
    Origin,
    index_rows,
)
from inferometer_results.store.index_tables import (
    PAGE,
    attach,
    clear,
    insert_rows,
    plain,
    rows_by_id,
)
from inferometer_results.store.query import Search
from inferometer_results.store.scenario_rows import short_id
from inferometer_results.store.tables import (
    DOCUMENT,
    INDEX_TABLES,
    JOURNAL,
    LABEL,
    MEASUREMENT,
    RESULT,
)
from inferometer_results.store.visibility import Readable, limit_reading

_KIND = "BenchmarkResult"
_SHORTEST_PREFIX = 4


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a document that was handed over."""

    id: str
    is_new: bool
    """False if the store had it already."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as it was received."""

    id: str
    origin: Origin
    name: str
    content: bytes


class Store:
    """Results in one database. Every method is atomic and raises StoreError."""

    def __init__(self, address: str, readable: Callable[[], Readable] = lambda: None) -> None:
        """Open the database at an address; see `open_database`.

        Before each read, `readable` returns the namespaces that it is limited to.
        """
        self.address = address
        self._readable = readable
        self.engine = open_database(address, _index_again)
        limit_reading(self.engine)

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database."""
        self.engine.dispose()

    def add(self, content: bytes, origin: Origin, *, source: str) -> Kept:
        """Keep a result document; `source` names it in messages.

        A document is the same if cluster, namespace, run and checksum are. Raises
        UnreadableResultError if it is none.
        """
        read = read_result(content, source=source)
        sha256 = hashlib.sha256(content).hexdigest()
        run_uid = read.document.run_id
        id_ = _id(origin, run_uid, sha256)
        row = {
            "id": id_,
            "kind": _KIND,
            "cluster_uid": origin.cluster_uid,
            "run_uid": run_uid,
            "namespace": origin.namespace or read.document.run.metadata.namespace or "",
            "namespace_uid": origin.namespace_uid,
            "name": read.document.run.name,
            "source": origin.source,
            "received_at": origin.received_at,
            "sha256": sha256,
            "bytes": len(content),
            "content": zlib.compress(content, 9),
        }
        with self._writing() as connection:
            number = _insert_new(connection, row)
            if number is None:
                return Kept(id_, is_new=False)
            journal = _journal(connection, [id_]).get(id_, [])
            insert_rows(connection, [index_rows(id_, number, read, origin, journal)])
        return Kept(id_, is_new=True)

    def resolve(self, prefix: str) -> str:
        """Return the one ID that begins so."""
        wanted = prefix.lower()
        if len(wanted) < _SHORTEST_PREFIX or set(wanted) - set("0123456789abcdef"):
            raise NoSuchResultError(
                f"{prefix!r} is not the ID of a result. Give at least {_SHORTEST_PREFIX} of its "
                "characters, as `inferometer results list` prints them."
            )
        with self._reading() as connection:
            query = select(DOCUMENT.c.id).where(
                DOCUMENT.c.kind == _KIND, DOCUMENT.c.id.startswith(wanted)
            )
            found = connection.scalars(query.limit(2)).all()
        if not found:
            raise NoSuchResultError(f"No result has an ID that begins with {prefix}.")
        if len(found) > 1:
            raise NoSuchResultError(f"More than one ID begins with {prefix}. Give more characters.")
        return str(found[0])

    def read(self, id_: str) -> StoredDocument:
        """Return a document, checked against its checksum."""
        with self._reading() as connection:
            row = connection.execute(select(DOCUMENT).where(DOCUMENT.c.id == id_)).one_or_none()
        if row is None:
            raise NoSuchResultError(f"There is no result {id_}.")
        return _stored(row)

    def documents(self) -> Iterator[StoredDocument]:
        """Yield every document in the order in which it was kept."""
        rows: Sequence[Any] = ()
        while True:
            with self._reading() as connection:
                rows = _next_documents(connection, rows)
            if not rows:
                return
            yield from map(_stored, rows)

    def find(self, search: Search) -> list[dict[str, Any]]:
        """Return the results of a search with their measurements and labels, in its order."""
        with self._reading() as connection:
            ids = find_ids(connection, search)
            found = rows_by_id(connection, ids)
            rows = [found[id_] for id_ in ids]
            attach(
                connection,
                rows,
                "measurements",
                select(MEASUREMENT).order_by(MEASUREMENT.c.result_id, MEASUREMENT.c.position),
            )
            attach(connection, rows, "labels", select(LABEL).order_by(*LABEL.primary_key))
        return rows

    def select(self, query: Select[Any]) -> list[dict[str, Any]]:
        """Return the rows of a query of the index, by the plain names of their columns."""
        with self._reading() as connection:
            return list(map(plain, connection.execute(query).mappings()))

    def count(self, search: Search) -> int:
        """Return how many results a search finds, its limit left aside."""
        with self._reading() as connection:
            condition = fast_condition(connection, search)
            query = select(func.count()).select_from(RESULT).where(condition)
            return connection.scalar(query) or 0

    def condition(self, search: Search) -> ColumnElement[bool]:
        """Return the condition of a search on the table of results. Raises SearchError."""
        with self._reading() as connection:
            return fast_condition(connection, search)

    def note(self, id_: str, entry: Entry) -> None:
        """Add an entry to the journal of a result."""
        with self._writing() as connection:
            row = connection.execute(select(DOCUMENT).where(DOCUMENT.c.id == id_)).one_or_none()
            if row is None:
                raise NoSuchResultError(f"There is no result {id_}.")
            connection.execute(insert(JOURNAL).values(_journal_row(id_, entry)))
            clear(connection, [id_])
            insert_rows(connection, [_rows_of(row, _journal(connection, [id_]).get(id_, []))])

    def journal(self) -> list[tuple[str, Entry]]:
        """Return every entry of the journal in order, each with the ID of its result."""
        with self._reading() as connection:
            rows = connection.execute(select(JOURNAL).order_by(JOURNAL.c.number)).all()
        return [(row.document_id, _entry(row)) for row in rows]

    def restore_journal(self, entries: Sequence[tuple[str, Entry]]) -> None:
        """Add the entries of another store's journal, those that this one lacks."""
        known = set(self.journal())
        for id_, entry in entries:
            if (id_, entry) not in known:
                self.note(id_, entry)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents with all that was said about them; return how many there were."""
        deleted = 0
        with self._writing() as connection:
            for start in range(0, len(ids), PAGE):
                some = list(ids[start : start + PAGE])
                clear(connection, some)
                connection.execute(delete(JOURNAL).where(JOURNAL.c.document_id.in_(some)))
                gone = connection.execute(delete(DOCUMENT).where(DOCUMENT.c.id.in_(some)))
                deleted += gone.rowcount
        return deleted

    def dispensable(self, started_before: str | None, most_bytes: int | None) -> list[str]:
        """Return the results that may go and are older than a time, oldest first.

        With `most_bytes` as many more as must go until the rest takes no more than that. Those with
        a tag stay, and those with which a judged change begins.
        """
        tagged = exists().where(LABEL.c.result_id == RESULT.c.id, LABEL.c.origin == "tag")
        judged = exists().where(
            JOURNAL.c.document_id == RESULT.c.id,
            JOURNAL.c.action.in_([ACCEPT_CHANGE, REJECT_CHANGE]),
        )
        size = func.length(DOCUMENT.c.content)
        query = select(
            RESULT.c.id,
            RESULT.c.started_at,
            size.label("size"),
            or_(tagged, judged).label("is_baseline"),
        )
        query = query.join(DOCUMENT, DOCUMENT.c.id == RESULT.c.id).order_by(RESULT.c.started_at)
        with self._reading() as connection:
            rows = connection.execute(query).all()
        excess = 0 if most_bytes is None else sum(row.size for row in rows) - most_bytes
        chosen = []
        for row in rows:
            is_old = started_before is not None and row.started_at < started_before
            if not row.is_baseline and (is_old or excess > 0):
                chosen.append(row.id)
                excess -= row.size
        return chosen

    def reindex(self) -> Iterator[int]:
        """Make the index anew from documents and journal; yield how many are done.

        Readers see the old index until the end.
        """
        with self._writing() as connection:
            for table in INDEX_TABLES:
                connection.execute(delete(table))
            rows: Sequence[Any] = ()
            done = 0
            while rows := _next_documents(connection, rows):
                journal = _journal(connection, [row.id for row in rows])
                insert_rows(connection, [_rows_of(row, journal.get(row.id, [])) for row in rows])
                done += len(rows)
                yield done

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with describing(self.address), self.engine.connect() as connection:
            yield connection.execution_options(read_only=True, readable=self._readable())

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with describing(self.address), self.engine.begin() as connection:
            yield connection


def _id(origin: Origin, run_uid: str, sha256: str) -> str:
    place = f"{origin.cluster_uid}\0{origin.namespace_uid}"
    return hashlib.sha256(f"{place}\0{run_uid}\0{sha256}".encode()).hexdigest()[:32]


def _insert_new(connection: Connection, row: dict[str, Any]) -> int | None:
    """Insert a document; return its number, None if it is there already."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(DOCUMENT).values(row)
    statement = statement.on_conflict_do_nothing(index_elements=["id"])
    found = connection.execute(statement.returning(DOCUMENT.c.number)).one_or_none()
    return None if found is None else int(found[0])


def _index_again(connection: Connection) -> None:
    """Fill the index after a change of its tables; what is damaged keeps its old rows."""
    rows: Sequence[Any] = ()
    while rows := _next_documents(connection, rows):
        journal = _journal(connection, [row.id for row in rows])
        readable = []
        for row in rows:
            with suppress(StoreError, UnreadableResultError):
                readable.append(_rows_of(row, journal.get(row.id, [])))
        clear(connection, [each.result["id"] for each in readable])
        if readable:
            insert_rows(connection, readable)


def _next_documents(connection: Connection, before: Sequence[Any]) -> Sequence[Any]:
    """Return the rows of the documents that were kept after these, as many as are read at once."""
    after = before[-1].number if before else 0
    query = select(DOCUMENT).where(DOCUMENT.c.kind == _KIND, DOCUMENT.c.number > after)
    query = query.order_by(DOCUMENT.c.number)
    return connection.execute(query.limit(PAGE)).all()


def _stored(row: Any) -> StoredDocument:
    try:
        content = zlib.decompress(row.content)
    except zlib.error:
        content = b""
    if hashlib.sha256(content).hexdigest() != row.sha256:
        raise StoreError(
            f"The document of result {row.id} is damaged: its checksum differs. Restore the "
            f"database from a copy, or delete it: inferometer results delete {short_id(row.id)}"
        )
    place = (row.cluster_uid, row.namespace, row.namespace_uid)
    origin = Origin(row.source, row.received_at, *place)
    return StoredDocument(row.id, origin, row.name, content)


def _rows_of(row: Any, journal: Sequence[Entry]) -> IndexRows:
    stored = _stored(row)
    read = read_result(stored.content, source=f"Result {row.id}")
    return index_rows(row.id, row.number, read, stored.origin, journal)


def _journal(connection: Connection, ids: Sequence[str]) -> dict[str, list[Entry]]:
    query = select(JOURNAL).where(JOURNAL.c.document_id.in_(list(ids))).order_by(JOURNAL.c.number)
    found: dict[str, list[Entry]] = {}
    for row in connection.execute(query):
        found.setdefault(row.document_id, []).append(_entry(row))
    return found


def _entry(row: Any) -> Entry:
    return Entry(row.at, row.by, row.action, row.text)


def _journal_row(id_: str, entry: Entry) -> dict[str, str]:
    return {
        "at": entry.at,
        "by": entry.by,
        "action": entry.action,
        "document_id": id_,
        "text": entry.text,
    }
