"""Runs a search: its condition in the form that is fast for the results at hand, and the IDs."""

from sqlalchemy import ColumnElement, Connection, func, select

from inferometer_results.store.query import Search
from inferometer_results.store.tables import RESULT

_BROAD = 2000
"""From so many matches on, a list in the order of a figure follows the index of the figure."""
_MANY = 20_000
"""From so many results on, it is faster to begin with their figures than to look at each."""


def fast_condition(connection: Connection, search: Search) -> ColumnElement[bool]:
    """Return the condition of a search, in the form that is fast for the results at hand."""
    of_result = search.of_result()
    few = of_result is not None and not _has(_MANY, connection, of_result)
    return search.condition(each_result=few)


def _has(count: int, connection: Connection, condition: ColumnElement[bool]) -> bool:
    """Return whether so many results meet a condition."""
    matches = select(RESULT.c.id).where(condition).limit(count).subquery()
    return connection.scalar(select(func.count()).select_from(matches)) == count


def find_ids(connection: Connection, search: Search) -> list[str]:
    """Return the IDs of a search, in its order."""
    found: list[str] = []
    offset = search.offset
    condition = fast_condition(connection, search)
    is_broad = search.is_by_figure and _has(_BROAD, connection, condition)
    for query in search.parts(condition, is_broad=is_broad):
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
