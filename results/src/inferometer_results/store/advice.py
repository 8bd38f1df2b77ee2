"""Advice on models in the store: documents of a kind of their own, next to results."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from inferometer_api.layers.advice import KIND, ModelAdvice
from inferometer_api.layers.timings import LayerTimings
from inferometer_results.store.documents import content_of, read_content
from inferometer_results.store.index_rows import Origin
from inferometer_results.store.layer_timings import KIND as TIMINGS_KIND
from inferometer_results.store.layer_timings import read_timings
from inferometer_results.store.other_documents import DocumentPlace, keep_document
from inferometer_results.store.store import Store
from inferometer_results.store.tables import DOCUMENT


@dataclass(frozen=True, slots=True)
class AdviceSource:
    """Advice that was kept, or timings of a run from which advice may follow."""

    document: ModelAdvice | LayerTimings
    received_at: str


def keep_advice(store: Store, advice: ModelAdvice, origin: Origin) -> None:
    """Keep the advice on a model, next to that of other times."""
    content = advice.model_dump_json(exclude_none=True).encode()
    place = DocumentPlace(KIND, "", advice.model, (advice.model, origin.received_at))
    keep_document(store, content, place, origin, has_versions=True)


def advice_sources(store: Store) -> Iterator[AdviceSource]:
    """Yield the documents that the caller of a service may read, oldest first."""
    columns = (DOCUMENT.c.kind, DOCUMENT.c.content, DOCUMENT.c.sha256, DOCUMENT.c.received_at)
    kinds = (KIND, TIMINGS_KIND)
    query = select(*columns).where(DOCUMENT.c.kind.in_(kinds)).order_by(DOCUMENT.c.number)
    for row in store.select(query):
        found = _read(row)
        if found is not None:
            yield AdviceSource(found, row["received_at"])


def _read(row: Mapping[str, Any]) -> ModelAdvice | LayerTimings | None:
    if row["kind"] == KIND:
        return read_content(ModelAdvice, row)
    content = content_of(row["content"], row["sha256"])
    return None if content is None else read_timings(content)
