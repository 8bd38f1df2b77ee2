"""Runs a search: its condition in the form that is fast for the results at hand, and the IDs.

Conditions that few results or measurements meet are looked up once, and replaced by the numbers of
these results. If many meet them, a list is filled soon by looking at one result after the other.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    and_,
    any_,
    case,
    func,
    literal,
    select,
    true,
)

from inferometer_results.store.costs import Price, read_costs
from inferometer_results.store.database import NoSuchResultError
from inferometer_results.store.documents import RESULT_KIND
from inferometer_results.store.query import Conditions, Place, Search
from inferometer_results.store.search_fields import COST, find_order
from inferometer_results.store.tables import DOCUMENT, MEASUREMENT, RESULT

_FEW = 2000
_MOST_MEASURED = 8_000
"""So many measurements are looked at to count their results, before these are looked at instead."""
_SHORTEST_PREFIX = 4
MOST_COUNTED = 2_000
"""Results that meet conditions are counted so far."""


@dataclass(frozen=True, slots=True)
class Matches:
    """The condition of a search in the form that is fast."""

    condition: ColumnElement[bool]
    is_few: bool
    """Whether only few results meet it."""
    count: int | None = None
    """How many results meet it, if that is known by now."""
    is_everything: bool = False
    """Whether there is no condition besides that on retractions."""
    measured: Conditions | None = None
    """The conditions, if that on a measurement finds them by itself."""

    def in_order(self, dialect: str) -> ColumnElement[bool]:
        """Return the condition as it is fast for the first results of a list that meet it.

        If many do, one result after the other is looked at. In SQLite an index on the condition
        would find all of them, to be sorted; PostgreSQL knows how many they are.
        """
        if self.is_few or self.is_everything or dialect != "sqlite":
            return self.condition
        return case((self.condition, 1), else_=0) == 1


def priced(connection: Connection, search: Search, price: Price | None) -> Search:
    """Return a search with the costs that it names."""
    if price is None or not (COST in search.where or search.sort.endswith(COST)):
        return search
    return replace(search, costs=read_costs(connection, price))


def find_matches(connection: Connection, search: Search) -> Matches:
    """Return which results a search finds. Raises SearchError."""
    found = search.conditions()
    condition = found.of_result
    if found.is_narrowed or connection.get_execution_options().get("readable") is not None:
        few = _few(connection, select(RESULT.c.number).where(condition))
        if few is not None:
            count = len(few) if found.measured is None else None
            these = _is_any(connection, few)
            return Matches(and_(these, found.has_measurement()), is_few=True, count=count)
    if found.measured is None:
        return Matches(condition, is_few=False, is_everything=not found.is_narrowed)
    if found.is_measured_alone:
        # Not DISTINCT: to that end SQLite would read in the order of the numbers.
        few = _few(connection, select(MEASUREMENT.c.result_number).where(found.measured))
        if few is not None:
            return Matches(and_(condition, _is_any(connection, few)), is_few=True)
    measured = found if found.is_measured_alone else None
    return Matches(and_(condition, found.has_measurement()), is_few=False, measured=measured)


def _few(connection: Connection, query: Select[int]) -> Sequence[int] | None:
    """Return the numbers of results that a query finds, None if they are many."""
    numbers = connection.scalars(query.limit(_FEW + 1)).all()
    return list(dict.fromkeys(numbers)) if len(numbers) <= _FEW else None


def _is_any(connection: Connection, numbers: Sequence[int]) -> ColumnElement[bool]:
    """Return that a result has one of these numbers.

    They are one parameter: a statement with thousands takes longer to be written than to be run.
    """
    if connection.dialect.name == "sqlite":
        each = func.json_each(json.dumps(numbers)).table_valued("value")
        return RESULT.c.number.in_(select(each.c.value))
    return RESULT.c.number == any_(literal(numbers, ARRAY(BigInteger)))


@dataclass(frozen=True, slots=True)
class FoundIds:
    """The IDs of one part of a list, in its order, and whether the list continues."""

    ids: list[str]
    has_previous: bool
    has_next: bool


def find_ids(connection: Connection, search: Search, matches: Matches) -> FoundIds:
    """Return the IDs of a search. Raises SearchError and NoSuchResultError."""
    neighbour = search.after or search.before
    place = _place(connection, search, neighbour) if neighbour else None
    condition = matches.in_order(connection.dialect.name)
    most = None if search.limit is None else search.limit + 1
    offset = 0 if neighbour else search.offset
    found: list[str] = []
    for query in search.parts(condition, place, is_few=matches.is_few):
        if most is None:
            found += connection.scalars(query).all()
            continue
        some = connection.scalars(query.limit(most - len(found)).offset(offset)).all()
        found += some
        if len(found) == most:
            break
        if offset and not some:
            passed = select(func.count()).select_from(query.order_by(None).subquery())
            offset = max(0, offset - (connection.scalar(passed) or 0))
        else:
            offset = 0
    goes_on = most is not None and len(found) == most
    ids = found[: search.limit]
    if search.before:
        return FoundIds(ids[::-1], has_previous=goes_on, has_next=True)
    return FoundIds(ids, has_previous=bool(neighbour or search.offset), has_next=goes_on)


def _place(connection: Connection, search: Search, id_: str) -> Place:
    """Return where a result stands in the order of a search."""
    columns = (
        find_order(search.sort.removeprefix("-"), search.costs),
        RESULT.c.started_at,
        RESULT.c.number,
    )
    query = select(*columns).where(RESULT.c.id == resolve(connection, id_))
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NoSuchResultError(f"Result {id_} is in no list.")
    return Place(*row)


def resolve(connection: Connection, prefix: str) -> str:
    """Return the one ID of a result that begins so. Raises NoSuchResultError."""
    wanted = prefix.lower()
    if len(wanted) < _SHORTEST_PREFIX or set(wanted) - set("0123456789abcdef"):
        raise NoSuchResultError(
            f"{prefix!r} is not the ID of a result. Give at least {_SHORTEST_PREFIX} of its "
            "characters (0 to 9, a to f), as `inferometer results list` prints them."
        )
    # Neither LIKE nor the index of kinds would find it without a look at every document.
    query = select(DOCUMENT.c.id).where(
        DOCUMENT.c.id >= wanted,
        DOCUMENT.c.id < f"{wanted}g",
        func.coalesce(DOCUMENT.c.kind, "") == RESULT_KIND,
    )
    found = connection.scalars(query.limit(2)).all()
    if not found:
        raise NoSuchResultError(f"No result has an ID that begins with {prefix}.")
    if len(found) > 1:
        raise NoSuchResultError(f"More than one ID begins with {prefix}. Give more characters.")
    return str(found[0])


def count_matches(connection: Connection, matches: Matches, most: int | None = None) -> int:
    """Return how many results match; with `most` no more are counted, if there is a condition."""
    if matches.count is not None:
        return matches.count
    query = select(func.count()).select_from(RESULT).where(matches.condition)
    if most is not None and not matches.is_everything:
        if matches.measured is not None and connection.dialect.name == "sqlite":
            count = _count_by_measurement(connection, matches.measured, most)
            if count is not None:
                return count
        limited = select(RESULT.c.id).where(matches.condition).limit(most)
        query = select(func.count()).select_from(limited.subquery())
    return connection.scalar(query) or 0


def _count_by_measurement(connection: Connection, given: Conditions, most: int) -> int | None:
    """Return the same from an index of measurements; None if too many would have to be read.

    SQLite would otherwise look up the measurements of one result after the other.
    """
    measured = true() if given.measured is None else given.measured
    query = select(MEASUREMENT.c.result_number).where(measured)
    numbers = query.limit(_MOST_MEASURED).cte("numbers")
    # Not a join: SQLite may begin it with the results, and scan the numbers for each.
    of_these = RESULT.c.number.in_(select(numbers.c.result_number))
    counted = select(RESULT.c.number).where(given.of_result, of_these).limit(most).subquery()
    read, count = connection.execute(
        select(
            select(func.count()).select_from(numbers).scalar_subquery(),
            select(func.count()).select_from(counted).scalar_subquery(),
        )
    ).one()
    return None if read == _MOST_MEASURED and count < most else int(count)
