"""A search of results: its conditions and its order."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    FromClause,
    Select,
    and_,
    exists,
    func,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.sql import visitors

from inferometer_results.store.condition import find_field, read_condition
from inferometer_results.store.tables import MEASUREMENT, RESULT

_MOST_WORDS = 10


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a search requires of a result, and of one of its measurements."""

    of_result: ColumnElement[bool]
    is_narrowed: bool
    """Whether there are conditions on the result besides that on retractions."""
    measured: ColumnElement[bool] | None = None
    """All conditions on figures hold for one and the same measurement."""

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
        of_result = MEASUREMENT.c.result_id == RESULT.c.id
        return exists().where(of_result, self.measured).correlate(RESULT)


@dataclass(frozen=True, slots=True)
class Search:
    """Which results, in which order. Raises SearchError when it is used."""

    where: str = ""
    sort: str = "-started"
    """A field; with a minus sign the largest comes first. Results without a value come last."""
    limit: int | None = None
    offset: int = 0
    with_retracted: bool = False
    text: str = ""
    """Words that the names, labels, tags or reasons of a result all contain."""

    def parts(self, condition: ColumnElement[bool], *, is_broad: bool) -> list[Select[str]]:
        """Return the queries for the IDs of the results: those of the first come first, and so on.

        `condition` is that of the search; limit and offset are left aside. With `is_broad` the
        order of a figure is that of its index, which is fast if many results match.
        """
        name, is_descending = self.sort.removeprefix("-"), self.sort.startswith("-")
        field = find_field(name)
        if field.is_measured and is_broad:
            return _by_figure(field.column, condition, is_descending=is_descending)
        value: ColumnElement[Any] = field.column
        if field.is_measured:
            best = func.max(value) if is_descending else func.min(value)
            of_result = and_(MEASUREMENT.c.result_id == RESULT.c.id, _ranked(MEASUREMENT))
            value = select(best).where(of_result).correlate(RESULT).scalar_subquery()
        elif self.text.strip() or "~" in self.where:
            # No index finds a part of a text. All results are looked at in the order of the table,
            # which is faster than in that of an index.
            value = func.coalesce(value, "")
        ordered = value.desc() if is_descending else value.asc()
        query = select(RESULT.c.id).where(condition)
        return [query.order_by(ordered.nulls_last(), RESULT.c.number.desc())]

    def conditions(self) -> "Conditions":
        """Return the conditions on a result, apart from those on a figure. Raises SearchError."""
        given = self._given()
        is_narrowed = len(given) > (not self.with_retracted)
        if not self.where.strip():
            return Conditions(and_(True, *given), is_narrowed=is_narrowed)
        own, measured = read_condition(self.where)
        return Conditions(
            and_(True, *given, *own),
            is_narrowed=is_narrowed or bool(own),
            measured=and_(*measured) if measured else None,
        )

    def _given(self) -> list[ColumnElement[bool]]:
        """Return the conditions that do not stand in `where`."""
        found: list[ColumnElement[bool]] = []
        if not self.with_retracted:
            found.append(RESULT.c.retracted.is_(None))
        words = self.text.lower().split()[:_MOST_WORDS]
        return [*found, *(RESULT.c.words.contains(each, autoescape=True) for each in words)]


def _by_figure(
    column: ColumnElement[Any], condition: ColumnElement[bool], *, is_descending: bool
) -> list[Select[str]]:
    """Return the results in the order of an index on a figure, then those without the figure.

    Of several scenarios the best counts: the first that the index meets.
    """
    met, other = MEASUREMENT.alias(), MEASUREMENT.alias()
    value, its = met.c[column.name], other.c[column.name]
    is_before = its > value if is_descending else its < value
    same = and_(its == value, other.c.position < met.c.position)
    earlier = exists().where(
        other.c.result_id == met.c.result_id, _ranked(other), or_(is_before, same)
    )
    of_result = RESULT.c.id == met.c.result_id
    number = select(RESULT.c.number).where(of_result).scalar_subquery()
    # Not as a join: the database is to begin with the figures, whatever the condition.
    first = (
        select(met.c.result_id)
        .where(
            _ranked(met),
            value.is_not(None),
            exists().where(of_result, condition).correlate(met),
            not_(earlier.correlate(met)),
        )
        .order_by(value.desc() if is_descending else value.asc(), number.desc())
    )
    has_value = exists().where(of_result, _ranked(met), value.is_not(None)).correlate(RESULT)
    rest = select(RESULT.c.id).where(condition, not_(has_value)).order_by(RESULT.c.number.desc())
    return [first, rest]


def _ranked(measurement: FromClause) -> ColumnElement[bool]:
    """Return which measurements count in the order of a figure: an INVALID one never ranks."""
    return and_(measurement.c.headline, measurement.c.verdict == "VALID")
