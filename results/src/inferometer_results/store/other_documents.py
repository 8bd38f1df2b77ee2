"""Documents of other kinds than results, each kept once."""

import hashlib
from dataclasses import dataclass

from pydantic import ValidationError

from inferometer_api.results.reading import UnreadableDocumentError, read_versioned
from inferometer_results.store.database import describing
from inferometer_results.store.documents import Kind, insert_document
from inferometer_results.store.index_rows import Origin
from inferometer_results.store.store import Kept, Store
from inferometer_results.store.tables import content_columns


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """What a document is about; with its origin, a place that one document or its versions take."""

    kind: str
    run_uid: str
    """The execution or the measurement."""
    name: str
    """The suite or the node."""
    words: tuple[str, ...]
    """What separates places of one namespace."""


def read_document(model: type[Kind], content: bytes, what: str) -> Kind:
    """Return a document. Raises UnreadableDocumentError if it is no `what` that can be read."""
    try:
        return read_versioned(model, content, source="The document").document
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UnreadableDocumentError(
            f"The document is no {what}: {where}: {first['msg']}."
        ) from error


def keep_document(
    store: Store, content: bytes, place: DocumentPlace, origin: Origin, *, has_versions: bool
) -> Kept:
    """Keep a document; of one that has versions, each that differs is kept next to the others."""
    columns = content_columns(content)
    words = (place.kind, origin.cluster_uid, origin.namespace_uid, *place.words)
    if has_versions:
        words = (*words, columns["sha256"])
    id_ = hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]
    row = {
        "id": id_,
        "kind": place.kind,
        "cluster_uid": origin.cluster_uid,
        "run_uid": place.run_uid[:200],
        "namespace": origin.namespace,
        "namespace_uid": origin.namespace_uid,
        "name": place.name[:200],
        "source": origin.source,
        "received_at": origin.received_at,
        **columns,
    }
    with describing(store.address), store.engine.begin() as connection:
        return Kept(id_, is_new=insert_document(connection, row) is not None)
