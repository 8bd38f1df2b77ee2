"""Characteristics of nodes in the store: documents of a kind of their own, next to results."""

import hashlib
import zlib

from pydantic import ValidationError
from sqlalchemy import insert, select
from sqlalchemy.dialects import postgresql, sqlite

from inferometer_api.nodes.characteristics import KIND, NodeCharacteristics
from inferometer_api.results.reading import UnreadableResultError
from inferometer_results.store.database import describing
from inferometer_results.store.index_rows import Origin
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

    Raises UnreadableResultError if it is none.
    """
    try:
        document = NodeCharacteristics.read_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UnreadableResultError(
            f"The document is no measurement of a node: {where}: {first['msg']}."
        ) from error
    place = f"{origin.cluster_uid}\0{origin.namespace_uid}\0{document.id}"
    id_ = hashlib.sha256(f"{KIND}\0{place}".encode()).hexdigest()[:32]
    row = {
        "id": id_,
        "kind": KIND,
        "cluster_uid": origin.cluster_uid,
        "run_uid": document.id[:200],
        "namespace": origin.namespace,
        "namespace_uid": origin.namespace_uid,
        "name": document.machine.hostname[:200],
        "source": origin.source,
        "received_at": origin.received_at,
        **content_columns(content),
    }
    dialect = postgresql if store.engine.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(DOCUMENT).values(row).on_conflict_do_nothing()
    with describing(store.address), store.engine.begin() as connection:
        known = connection.scalar(select(DOCUMENT.c.id).where(DOCUMENT.c.id == id_))
        connection.execute(statement)
    return Kept(id_, is_new=known is None)


def visible_characteristics(store: Store) -> list[NodeCharacteristics]:
    """Return all measurements that the caller of a service may read."""
    rows = store.select(select(DOCUMENT.c.content).where(DOCUMENT.c.kind == KIND))
    return [NodeCharacteristics.read_json(zlib.decompress(row["content"])) for row in rows]


def known_characteristics(store: Store, hostname: str | None = None) -> list[NodeCharacteristics]:
    """Return all measurements in the order in which they were kept, or those of one node."""
    query = select(DOCUMENT.c.content).where(DOCUMENT.c.kind == KIND).order_by(DOCUMENT.c.number)
    if hostname is not None:
        query = query.where(DOCUMENT.c.name == hostname[:200])
    with describing(store.address), store.engine.connect() as connection:
        return [
            NodeCharacteristics.read_json(zlib.decompress(content))
            for content in connection.scalars(query)
        ]
