"""Outcomes of suites in the store: documents of a kind of their own, next to results."""

from dataclasses import dataclass

from sqlalchemy import select

from inferometer_api.suite.outcome import SuiteOutcome
from inferometer_results.store.documents import read_content
from inferometer_results.store.index_rows import Origin
from inferometer_results.store.other_documents import (
    DocumentPlace,
    keep_document,
    read_document,
)
from inferometer_results.store.store import Kept, Store
from inferometer_results.store.tables import DOCUMENT

OUTCOME_KIND = "SuiteOutcome"
_EXECUTION = ("cluster_uid", "namespace_uid", "run_uid")
_AGE = ("received_at", "number")


@dataclass(frozen=True, slots=True)
class StoredOutcome:
    """An outcome and the namespace of its suite."""

    namespace: str
    outcome: SuiteOutcome


def keep_outcome(store: Store, content: bytes, origin: Origin) -> Kept:
    """Keep the outcome of an execution, next to earlier ones; `find_outcomes` returns the last.

    Raises UnreadableDocumentError if it is none.
    """
    outcome = read_document(SuiteOutcome, content, "outcome of a suite")
    words = (outcome.suite, outcome.execution)
    place = DocumentPlace(OUTCOME_KIND, outcome.execution, outcome.suite, words)
    return keep_document(store, content, place, origin, has_versions=True)


def find_outcomes(store: Store, suite: str) -> list[StoredOutcome]:
    """Return the last outcome of each execution of a suite, the newest first.

    If the last one is damaged, an earlier one does not stand for it: its gate may differ.
    """
    columns = (*_EXECUTION, *_AGE, "namespace", "content", "sha256")
    query = select(*(DOCUMENT.c[each] for each in columns))
    rows = store.select(
        query.where(DOCUMENT.c.kind == OUTCOME_KIND, DOCUMENT.c.name == suite[:200])
    )
    # An import may bring an older outcome after a newer one.
    rows.sort(key=lambda row: [row[each] for each in _AGE])
    last = {tuple(row[each] for each in _EXECUTION): row for row in rows}
    found = [
        StoredOutcome(row["namespace"], outcome)
        for row in last.values()
        if (outcome := read_content(SuiteOutcome, row)) is not None
    ]
    return sorted(found, key=lambda each: each.outcome.finished_at, reverse=True)
