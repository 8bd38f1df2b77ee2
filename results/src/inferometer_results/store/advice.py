"""Advice on models in the store: documents of a kind of their own, next to results."""

from collections.abc import Iterator

from sqlalchemy import select

from inferometer_api.layers.advice import KIND, ModelAdvice
from inferometer_results.store.documents import read_content
from inferometer_results.store.index_rows import Origin
from inferometer_results.store.other_documents import DocumentPlace, keep_document
from inferometer_results.store.store import Store
from inferometer_results.store.tables import DOCUMENT


def keep_advice(store: Store, advice: ModelAdvice, origin: Origin) -> None:
    """Keep the advice on a model, next to that of other times."""
    content = advice.model_dump_json(exclude_none=True).encode()
    place = DocumentPlace(KIND, "", advice.model, (advice.model, origin.received_at))
    keep_document(store, content, place, origin, has_versions=True)


def all_advice(store: Store) -> Iterator[ModelAdvice]:
    """Yield the documents that the caller of a service may read, oldest first."""
    columns = (DOCUMENT.c.content, DOCUMENT.c.sha256)
    query = select(*columns).where(DOCUMENT.c.kind == KIND).order_by(DOCUMENT.c.number)
    for row in store.select(query):
        found = read_content(ModelAdvice, row)
        if found is not None:
            yield found
