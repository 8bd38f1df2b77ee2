"""Characteristics of nodes in the store: documents of a kind of their own, next to results."""

from sqlalchemy import insert, select

from inferometer_api.nodes.characteristics import KIND, NodeCharacteristics
from inferometer_results.store.database import describing
from inferometer_results.store.documents import read_content
from inferometer_results.store.index_rows import Origin
from inferometer_results.store.other_documents import (
    DocumentPlace,
    keep_document,
    read_document,
)
from inferometer_results.store.store import Kept, Store
from inferometer_results.store.tables import DOCUMENT, content_columns


def keep_characteristics(store: Store, document: NodeCharacteristics) -> None:
    """Keep the measurement of one node."""
    content = document.model_dump_json(by_alias=True, exclude_none=True).encode()
    row = {
        "id": document.id,
        "kind": KIND,
        "cluster_uid": "",
        "run_uid": document.id,
        "namespace": "",
        "name": document.machine.hostname[:200],
        "source": "node",
        "received_at": document.finished_at,
        **content_columns(content),
    }
    with describing(store.address), store.engine.begin() as connection:
        connection.execute(insert(DOCUMENT).values(row))


def keep_measurement(store: Store, content: bytes, origin: Origin) -> Kept:
    """Keep a measurement that an operator sent; one that is sent again is the same.

    Raises UnreadableDocumentError if it is none.
    """
    document = read_document(NodeCharacteristics, content, "measurement of a node")
    place = DocumentPlace(KIND, document.id, document.machine.hostname, (document.id,))
    return keep_document(store, content, place, origin, has_versions=False)


def visible_characteristics(store: Store) -> list[tuple[str, NodeCharacteristics]]:
    """Return all measurements that the caller of a service may read, with their cluster's UID.

    The UID is empty if a measurement comes from no cluster.
    """
    columns = (DOCUMENT.c.cluster_uid, DOCUMENT.c.content, DOCUMENT.c.sha256)
    rows = store.select(select(*columns).where(DOCUMENT.c.kind == KIND))
    return [
        (row["cluster_uid"], document)
        for row in rows
        if (document := read_content(NodeCharacteristics, row)) is not None
    ]


def known_characteristics(store: Store, hostname: str | None = None) -> list[NodeCharacteristics]:
    """Return all measurements in the order in which they were kept, or those of one node."""
    columns = (DOCUMENT.c.content, DOCUMENT.c.sha256)
    query = select(*columns).where(DOCUMENT.c.kind == KIND).order_by(DOCUMENT.c.number)
    if hostname is not None:
        query = query.where(DOCUMENT.c.name == hostname[:200])
    with describing(store.address), store.engine.connect() as connection:
        rows = connection.execute(query)
        found = (read_content(NodeCharacteristics, row._asdict()) for row in rows)
        return [each for each in found if each is not None]
