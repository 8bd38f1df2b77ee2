"""Outcomes of suites in the store: documents of a kind of their own, next to results."""

import hashlib
import zlib
from dataclasses import dataclass

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from inferometer_api.results.reading import UnreadableResultError
from inferometer_api.suite.outcome import SuiteOutcome
from inferometer_results.store.database import describing
from inferometer_results.store.index_rows import Origin
from inferometer_results.store.store import Kept, Store
from inferometer_results.store.tables import DOCUMENT, content_columns

OUTCOME_KIND = "SuiteOutcome"


@dataclass(frozen=True, slots=True)
class StoredOutcome:
    """An outcome and the namespace of its suite."""

    namespace: str
    outcome: SuiteOutcome


def keep_outcome(store: Store, content: bytes, origin: Origin) -> Kept:
    """Keep the outcome of an execution; a later one of the same execution takes its place.

    Raises UnreadableResultError if it is none.
    """
    try:
        outcome = SuiteOutcome.read_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UnreadableResultError(
            f"The document is no outcome of a suite: {where}: {first['msg']}."
        ) from error
    place = f"{origin.cluster_uid}\0{origin.namespace_uid}\0{outcome.suite}\0{outcome.execution}"
    id_ = hashlib.sha256(f"{OUTCOME_KIND}\0{place}".encode()).hexdigest()[:32]
    changing = {
        "received_at": origin.received_at,
        **content_columns(content),
    }
    row = {
        "id": id_,
        "kind": OUTCOME_KIND,
        "cluster_uid": origin.cluster_uid,
        "run_uid": outcome.execution,
        "namespace": origin.namespace,
        "namespace_uid": origin.namespace_uid,
        "name": outcome.suite,
        "source": origin.source,
        **changing,
    }
    dialect = postgresql if store.engine.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(DOCUMENT).values(row)
    with describing(store.address), store.engine.begin() as connection:
        known = connection.scalar(select(DOCUMENT.c.id).where(DOCUMENT.c.id == id_))
        connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=changing))
    return Kept(id_, is_new=known is None)


def find_outcomes(store: Store, suite: str) -> list[StoredOutcome]:
    """Return the outcomes of the executions of a suite, the newest first."""
    query = select(DOCUMENT.c.namespace, DOCUMENT.c.content)
    rows = store.select(query.where(DOCUMENT.c.kind == OUTCOME_KIND, DOCUMENT.c.name == suite))
    found = [
        StoredOutcome(row["namespace"], SuiteOutcome.read_json(zlib.decompress(row["content"])))
        for row in rows
    ]
    return sorted(found, key=lambda each: each.outcome.finished_at, reverse=True)
