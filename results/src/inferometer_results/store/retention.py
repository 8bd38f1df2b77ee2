"""Decides which results may be deleted because they are old, or because there are too many."""

from sqlalchemy import exists, func, or_, select

from inferometer_results.store.index_rows import ACCEPT_CHANGE, REJECT_CHANGE
from inferometer_results.store.store import Store
from inferometer_results.store.tables import DOCUMENT, JOURNAL, LABEL, RESULT


def dispensable(store: Store, started_before: str | None, most_bytes: int | None) -> list[str]:
    """Return the results that may go and are older than a time, oldest first.

    With `most_bytes` as many more as must go until the documents of the rest, compressed, take no
    more than that. Those with a tag stay, and those with which a judged change begins.
    """
    tagged = exists().where(LABEL.c.result_number == RESULT.c.number, LABEL.c.origin == "tag")
    judged = exists().where(
        JOURNAL.c.document_id == RESULT.c.id,
        JOURNAL.c.action.in_([ACCEPT_CHANGE, REJECT_CHANGE]),
    )
    query = (
        select(
            RESULT.c.id,
            RESULT.c.started_at,
            func.length(DOCUMENT.c.content).label("size"),
            or_(tagged, judged).label("is_baseline"),
        )
        .join(DOCUMENT, DOCUMENT.c.id == RESULT.c.id)
        .order_by(RESULT.c.started_at, RESULT.c.number)
    )
    rows = store.select(query)
    excess = 0 if most_bytes is None else sum(row["size"] for row in rows) - most_bytes
    chosen = []
    for row in rows:
        is_old = started_before is not None and row["started_at"] < started_before
        if not row["is_baseline"] and (is_old or excess > 0):
            chosen.append(row["id"])
            excess -= row["size"]
    return chosen
