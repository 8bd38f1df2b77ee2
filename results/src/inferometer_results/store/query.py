"""A search of results: its conditions and its order."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BinaryExpression,
    Column,
    ColumnElement,
    Select,
    UnaryExpression,
    and_,
    cast,
    exists,
    literal,
    not_,
    null,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.sql import visitors

from inferometer_results.store.condition import read_condition
from inferometer_results.store.costs import Costs
from inferometer_results.store.search_fields import SearchError, find_order
from inferometer_results.store.tables import MEASUREMENT, RESULT

_MOST_WORDS = 10
_AGE = (RESULT.c.started_at, RESULT.c.number)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a search requires of a result, and of one of its measurements."""

    of_result: ColumnElement[bool]
    is_narrowed: bool
    """Whether there are conditions on the result besides that on retractions."""
    measured: ColumnElement[bool] | None = None
    """All conditions on figures hold for one and the same measurement."""
    may_lack_measurement: bool = False
    """Whether a result without measurements may meet the condition on one: by an alternative."""

    @property
    def is_measured_alone(self) -> bool:
        """Whether the condition on a measurement names no column of the result."""
        return self.measured is not None and all(
            each.table is MEASUREMENT
            for each in visitors.iterate(self.measured)
            if isinstance(each, Column)
        )

    def has_measurement(self) -> ColumnElement[bool]:
        """Return that a measurement of the result meets the condition on it."""
        if self.measured is None:
            return true()
        of_result = MEASUREMENT.c.result_number == RESULT.c.number
        found = exists().where(of_result, self.measured).correlate(RESULT)
        if not self.may_lack_measurement or self.is_measured_alone:
            return found
        without = visitors.replacement_traverse(self.measured, {}, _without_figure)
        return or_(found, and_(without, not_(exists().where(of_result).correlate(RESULT))))


@dataclass(frozen=True, slots=True)
class Search:
    """Which results, in which order. Raises SearchError when it is used."""

    where: str = ""
    sort: str = "-started"
    """A field; with a minus sign the largest comes first.

    A figure is that of the best VALID scenario; results without one come last. Of equal results the
    newest comes first, and in the opposite order last.
    """
    limit: int | None = None
    offset: int = 0
    with_retracted: bool = False
    text: str = ""
    """Words that the names, labels, tags or reasons of a result all contain."""
    after: str = ""
    """The ID of a result, or its beginning: the list continues after it. Its offset is ignored."""
    before: str = ""
    """The same: the list ends before it."""
    costs: Costs | None = None
    """For conditions on the cost, and its order."""

    def parts(
        self, condition: ColumnElement[bool], place: "Place | None" = None, *, is_few: bool = False
    ) -> list[Select[str]]:
        """Return the queries for the IDs of the results: those of the first come first, and so on.

        `condition` is that of the search; limit and offset are left aside. With a place, only what
        follows it, or what precedes it, the nearest first, if the search has `before`. With
        `is_few` the results that match are sorted, rather than looked for along an index.
        """
        name, is_backward = self.sort.removeprefix("-"), bool(self.before)
        order = find_order(name, self.costs)
        is_falling = self.sort.startswith("-") != is_backward
        query = select(RESULT.c.id).where(condition)
        if is_few:
            # The same for all: no index begins with it.
            query = query.order_by(RESULT.c.number.is_(None))
        if order is RESULT.c.started_at:
            return [_by_age(query, place, newest_first=is_falling)]
        value = order.desc() if is_falling else order.asc()
        ages = _ages(newest_first=not is_falling)
        missing = query.where(order.is_(None))
        missing_first = not is_backward
        if place is not None and place.value is None:
            found = [_by_age(missing, place, newest_first=missing_first)]
            if is_backward:
                found.append(query.where(order.is_not(None)).order_by(value, *ages))
            return found
        if place is None:
            found = [query.where(order.is_not(None)).order_by(value, *ages)]
        else:
            beyond = order < place.value if is_falling else order > place.value
            same = query.where(order == place.value)
            found = [
                _by_age(same, place, newest_first=not is_falling),
                query.where(beyond).order_by(value, *ages),
            ]
        if _is_optional(order) and not is_backward:
            found.append(_by_age(missing, None, newest_first=True))
        return found

    def conditions(self) -> "Conditions":
        """Return the conditions on a result, apart from those on a figure. Raises SearchError."""
        given = self._given()
        is_narrowed = len(given) > (not self.with_retracted)
        if not self.where.strip():
            return Conditions(and_(True, *given), is_narrowed=is_narrowed)
        own, measured = read_condition(self.where, self.costs)
        return Conditions(
            and_(True, *given, *own),
            is_narrowed=is_narrowed or bool(own),
            measured=and_(*measured) if measured else None,
            may_lack_measurement=not any(isinstance(each, BinaryExpression) for each in measured),
        )

    def _given(self) -> list[ColumnElement[bool]]:
        """Return the conditions that do not stand in `where`."""
        found: list[ColumnElement[bool]] = []
        if not self.with_retracted:
            found.append(RESULT.c.retracted.is_(None))
        words = dict.fromkeys(self.text.lower().split())
        if len(words) > _MOST_WORDS:
            raise SearchError(
                f"A search has at most {_MOST_WORDS} words, and this one has {len(words)}."
            )
        return [*found, *(RESULT.c.words.contains(each, autoescape=True) for each in words)]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a result stands in an order."""

    value: Any
    started_at: str
    number: int


def _without_figure(element: Any, **_: Any) -> Any:
    """Return NULL for a column of a measurement, with its type, and None for the rest."""
    is_figure = isinstance(element, Column) and element.table is MEASUREMENT
    return cast(null(), element.type) if is_figure else None


def _by_age(query: Select[str], place: Place | None, *, newest_first: bool) -> Select[str]:
    """Return the results of a query by age: those beyond a place, if there is one."""
    if place is not None:
        started = literal(place.started_at, RESULT.c.started_at.type)
        age, other = tuple_(*_AGE), tuple_(started, literal(place.number))
        query = query.where(age < other if newest_first else age > other)
    return query.order_by(*_ages(newest_first=newest_first))


def _ages(*, newest_first: bool) -> list[UnaryExpression[Any]]:
    return [each.desc() if newest_first else each.asc() for each in _AGE]


def _is_optional(value: ColumnElement[Any]) -> bool:
    return not isinstance(value, Column) or bool(value.nullable)
