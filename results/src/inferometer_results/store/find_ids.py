"""Runs a search: its condition in the form that is fast for the results at hand, and the IDs.

Conditions that few results or measurements meet are looked up once, and replaced by the IDs of
these results. If many meet them, a list is filled soon by looking at one result after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select

from inferometer_results.store.query import Search
from inferometer_results.store.tables import MEASUREMENT, RESULT

_FEW = 2000
MOST_COUNTED = 10_000
"""Results that meet conditions are counted so far."""


@dataclass(frozen=True, slots=True)
class Matches:
    """The condition of a search in the form that is fast."""

    condition: ColumnElement[bool]
    is_few: bool
    """Whether only few results meet it. Otherwise a list in the order of a figure follows the index
    of the figure."""
    is_everything: bool = False
    """Whether there is no condition besides that on retractions."""


def find_matches(connection: Connection, search: Search) -> Matches:
    """Return which results a search finds. Raises SearchError."""
    found = search.conditions()
    condition = found.of_result
    if found.is_narrowed:
        ids = _few(connection, select(RESULT.c.id).where(condition))
        if ids is not None:
            return Matches(and_(RESULT.c.id.in_(ids), found.has_measurement()), is_few=True)
    if found.measured is None:
        return Matches(condition, is_few=False, is_everything=not found.is_narrowed)
    if found.is_measured_alone:
        # Not DISTINCT: to that end SQLite would read in the order of the IDs.
        ids = _few(connection, select(MEASUREMENT.c.result_id).where(found.measured))
        if ids is not None:
            return Matches(and_(condition, RESULT.c.id.in_(ids)), is_few=True)
    return Matches(and_(condition, found.has_measurement()), is_few=False)


def _few(connection: Connection, query: Select[str]) -> Sequence[str] | None:
    """Return the IDs that a query finds, None if they are many."""
    ids = connection.scalars(query.limit(_FEW + 1)).all()
    return list(dict.fromkeys(ids)) if len(ids) <= _FEW else None


def find_ids(connection: Connection, search: Search, matches: Matches) -> list[str]:
    """Return the IDs of a search, in its order."""
    found: list[str] = []
    offset = search.offset
    for query in search.parts(matches.condition, is_broad=not matches.is_few):
        if search.limit is None:
            found += connection.scalars(query).all()
            continue
        limited = query.limit(search.limit - len(found)).offset(offset)
        some = connection.scalars(limited).all()
        found += some
        if len(found) == search.limit:
            break
        if offset and not some:
            passed = select(func.count()).select_from(query.order_by(None).subquery())
            offset = max(0, offset - (connection.scalar(passed) or 0))
        else:
            offset = 0
    return found


def count_matches(connection: Connection, matches: Matches, most: int | None = None) -> int:
    """Return how many results match; with `most` no more are counted, if there is a condition."""
    query = select(func.count()).select_from(RESULT).where(matches.condition)
    if most is not None and not matches.is_everything:
        limited = select(RESULT.c.id).where(matches.condition).limit(most)
        query = select(func.count()).select_from(limited.subquery())
    return connection.scalar(query) or 0
