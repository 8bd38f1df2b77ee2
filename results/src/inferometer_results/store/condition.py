"""Reads the conditions of a search: `model=resnet50 and p99<50ms`."""

import math
import re
from calendar import isleap, monthrange
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Integer, String, and_, func, not_, or_, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from inferometer_api import patterns
from inferometer_api.timestamps import parse_time
from inferometer_results.store.costs import Costs
from inferometer_results.store.search_fields import Field, SearchError, find_field
from inferometer_results.store.tables import LABEL, RESULT, unix_milliseconds

_MOST_CHARACTERS = 4096
_MOST_NESTING = 32
_LARGEST = 2.0**63
_TOKEN = re.compile(
    r"""\s*(?:(?P<operator><=|>=|!=|[=<>~])|(?P<bracket>[()])|"(?P<quoted>(?:[^"]|"")*+)"|"""
    r"""(?P<word>[^\s()=<>!~"]+))"""
)
_QUANTITY = re.compile(
    r"(?P<number>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?P<unit>[A-Za-z\u00b5\u03bc]*)"
)
_UNITS: dict[str, dict[str, float]] = {
    "number": {"": 1, "k": 1e3, "K": 1e3, "M": 1e6},
    "time": {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9},
    "energy": {"uJ": 1, "mJ": 1e3, "J": 1e6, "kJ": 1e9, "MJ": 1e12, "uj": 1, "mj": 1e3, "j": 1e6},
}
"""The sizes of units. Their case counts: m is a thousandth, and M a million."""
_MICRO = str.maketrans({"\u00b5": "u", "\u03bc": "u"})
"""Both signs of micro that keyboards have."""
_DATE = re.compile(
    r"(?P<date>\d{4}(?:-\d{2}(?:-\d{2})?)?)"
    r"(?:[T ](?P<time>\d{2}(?::\d{2}(?::\d{2}(?P<fraction>\.\d{1,6})?)?)?)Z?)?",
    re.ASCII,
)
_FIRST_DAY = "0000-01-01"
_LENGTHS = {
    len("2026-11-24"): timedelta(days=1),
    len("2026-11-24T08"): timedelta(hours=1),
    len("2026-11-24T08:30"): timedelta(minutes=1),
    len("2026-11-24T08:30:15"): timedelta(seconds=1),
}
"""How long a span is whose begin has so many characters."""
_MOMENT = timedelta(milliseconds=1)
_LAST = datetime.max.replace(tzinfo=UTC)
_TIMESTAMP = re.compile(patterns.TIME)
_EXAMPLES = {
    "date": "a date or a time in UTC, such as 2026-11-24 or 2026-11-24T08:30",
    "number": "100, 2.5k or 1M",
    "time": "50ms, with its unit: ns, us, ms or s",
    "energy": "80mJ, with its unit: uJ, mJ or J",
}


_COMPARISONS: dict[str, Callable[[Any, Any], ColumnElement[bool]]] = {
    "=": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
    "~": lambda column, value: _lowered(column, value).contains(value.lower(), autoescape=True),
}


class unicode_lower(GenericFunction[str]):  # noqa: N801 - the name of a function of SQL
    """A text in lower case, letters beyond ASCII too, which SQLite's own function leaves."""

    type = String()
    inherit_cache = True


@compiles(unicode_lower, "postgresql")
def _lower_of_postgresql(element: Any, compiler: SQLCompiler, **options: Any) -> str:
    return f"lower({compiler.process(element.clauses, **options)})"


def _lowered(column: ColumnElement[Any], value: str) -> ColumnElement[Any]:
    """Return a column in lower case: if the value is ASCII, by the function that is faster."""
    return func.lower(column) if value.isascii() else unicode_lower(column)


def quoted(text: str) -> str:
    """Return a text as a value of a condition: in quotation marks, those within it doubled."""
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def read_condition(
    text: str, costs: Costs | None = None
) -> tuple[list[ColumnElement[bool]], list[ColumnElement[bool]]]:
    """Return what `and` joins: the conditions on a result alone, and those on figures.

    Raises SearchError.
    """
    return _Parser(text, costs).conditions()


class _Parser:
    """Reads a condition: comparisons with `and`, `or`, `not` and brackets."""

    def __init__(self, text: str, costs: Costs | None) -> None:
        self._costs = costs
        if len(text) > _MOST_CHARACTERS:
            raise SearchError(f"A condition has at most {_MOST_CHARACTERS} characters.")
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        self._is_measured = False

    def conditions(self) -> tuple[list[ColumnElement[bool]], list[ColumnElement[bool]]]:
        """Return what `and` joins: the conditions on the result alone, and those on figures."""
        alternatives = [self._conjuncts()]
        while self._takes("or"):
            alternatives.append(self._conjuncts())
        if self._at < len(self._tokens):
            raise SearchError(f"{self._peek()!r} stands where and, or, or the end was expected.")
        if len(alternatives) > 1:
            alternatives = [[(or_(*map(_joined, alternatives)), self._is_measured)]]
        (parts,) = alternatives
        return (
            [part for part, is_measured in parts if not is_measured],
            [part for part, is_measured in parts if is_measured],
        )

    def _any(self) -> ColumnElement[bool]:
        found = [_joined(self._conjuncts())]
        while self._takes("or"):
            found.append(_joined(self._conjuncts()))
        return or_(*found)

    def _conjuncts(self) -> list[tuple[ColumnElement[bool], bool]]:
        """Return what `and` joins, each with whether it is on a figure."""
        before, found = self._is_measured, []
        while True:
            self._is_measured = False
            found.append((self._one(), self._is_measured))
            before = before or self._is_measured
            if not self._takes("and"):
                self._is_measured = before
                return found

    def _one(self) -> ColumnElement[bool]:
        if self._takes("not"):
            return not_(self._parse_nested(self._one))
        if self._takes("("):
            found = self._parse_nested(self._any)
            if not self._takes(")"):
                raise SearchError("A bracket is not closed.")
            return found
        return self._comparison()

    def _parse_nested(self, part: Callable[[], ColumnElement[bool]]) -> ColumnElement[bool]:
        self._depth += 1
        if self._depth > _MOST_NESTING:
            raise SearchError(f"A condition has at most {_MOST_NESTING} brackets in one another.")
        found = part()
        self._depth -= 1
        return found

    def _comparison(self) -> ColumnElement[bool]:
        name, operator = self._next("a field"), self._next("one of = != < <= > >= ~")
        if operator not in _COMPARISONS:
            raise SearchError(f"After {name!r} one of = != < <= > >= ~ was expected.")
        value = self._next("a value")
        if name == "tag":
            return _labelled("tag", operator, value, None)
        if name.startswith("label."):
            return _labelled("run", operator, name.removeprefix("label."), value)
        field = find_field(name, self._costs)
        self._is_measured = self._is_measured or field.is_measured
        if field.kind == "date":
            return _compared_times(name, field.column, operator, value)
        return _COMPARISONS[operator](field.column, _value(name, field, operator, value))

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _takes(self, word: str) -> bool:
        is_there = self._at < len(self._tokens) and self._tokens[self._at] == (False, word)
        self._at += is_there
        return is_there

    def _next(self, expected: str) -> str:
        if self._at >= len(self._tokens):
            raise SearchError(f"The condition ends where {expected} was expected.")
        self._at += 1
        return self._tokens[self._at - 1][1]


def _joined(parts: Sequence[tuple[ColumnElement[bool], bool]]) -> ColumnElement[bool]:
    return and_(*(part for part, _ in parts))


def _tokens(text: str) -> list[tuple[bool, str]]:
    """Return the words of a condition, each with whether it was quoted."""
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SearchError(f"Cannot read the condition from {text[at : at + 20].strip()!r} on.")
        value = match["quoted"]
        word = match["operator"] or match["bracket"] or match["word"] or ""
        found.append((False, word) if value is None else (True, value.replace('""', '"')))
        at = match.end()
    return found


def _labelled(origin: str, operator: str, name: str, value: str | None) -> ColumnElement[bool]:
    if operator not in {"=", "!="}:
        raise SearchError(f"Tags and labels are compared with = and !=, not with {operator}.")
    matches = [LABEL.c.origin == origin, LABEL.c.name == name]
    if value is not None:
        matches.append(LABEL.c.value == value)
    found = RESULT.c.number.in_(select(LABEL.c.result_number).where(*matches))
    return found if operator == "=" else not_(found)


def _compared_times(
    name: str, column: ColumnElement[Any], operator: str, text: str
) -> ColumnElement[bool]:
    """Return the comparison with a span of time: a year, a day, a minute.

    A time equals a span that it is in, and contains it. Times before it are smaller, those after it
    larger. Raises SearchError.
    """
    span = _span(text)
    if span is None:
        raise SearchError(f"{name} is compared with {_EXAMPLES['date']}; {text!r} is not that.")
    first, after = span
    if operator in {"=", "!=", "~"}:
        is_within = and_(column >= first, column < after)
        return not_(is_within) if operator == "!=" else is_within
    # What is not later than a span began before the next one.
    sign, border = {"<=": ("<", after), ">": (">=", after)}.get(operator, (operator, first))
    return _COMPARISONS[sign](column, border)


def _span(text: str) -> tuple[str, str] | None:
    """Return when a span of time and the one after it begin; None if it is no span that exists."""
    match = _DATE.fullmatch(text)
    if match is not None and match["time"] and len(match["date"]) < len(_FIRST_DAY):
        return None
    if match is None:
        # As a document may have it: of another zone, for example.
        is_time = _TIMESTAMP.fullmatch(text) and unix_milliseconds(text) is not None
        moment = parse_time(text) if is_time else None
        return None if moment is None else _borders(moment, _MOMENT)
    given = match["date"] + (f"T{match['time']}" if match["time"] else "")
    try:
        # The first day of a year or a month.
        first = datetime.fromisoformat(given + _FIRST_DAY[len(given) :]).replace(tzinfo=UTC)
    except ValueError:
        return None
    if len(given) < len(_FIRST_DAY):
        days = monthrange(first.year, first.month)[1]
        year = 366 if isleap(first.year) else 365
        return _borders(first, timedelta(days=year if len(given) == len("2026") else days))
    digits = len(match["fraction"] or ".") - 1
    return _borders(first, _LENGTHS.get(len(given), timedelta(microseconds=10 ** (6 - digits))))


def _borders(first: datetime, length: timedelta) -> tuple[str, str]:
    """Return the begin of a span and that of the next one: times are kept in milliseconds."""
    first = first.astimezone(UTC)
    first = first.replace(microsecond=first.microsecond // 1000 * 1000)
    try:
        after = first + max(length, _MOMENT)
    except OverflowError:
        after = _LAST
    return first.isoformat(), after.isoformat()


def _value(name: str, field: Field, operator: str, text: str) -> str | float:
    if field.kind == "text":
        return text
    if operator == "~":
        raise SearchError(f"{name} is a figure: compare it with = != < <= > or >=.")
    match = _QUANTITY.fullmatch(text)
    size = None if match is None else _UNITS[field.kind].get(match["unit"].translate(_MICRO))
    if match is None or size is None:
        raise SearchError(f"{name} is compared with {_EXAMPLES[field.kind]}; {text!r} is not that.")
    value = float(match["number"]) * size
    return _whole(value, operator) if isinstance(field.column.type, Integer) else value


def _whole(value: float, operator: str) -> float:
    """Return what whole numbers are compared with instead of a value: their index takes it."""
    if not abs(value) < _LARGEST:
        return value
    if value.is_integer():
        return int(value)
    if operator in {"<", ">="}:
        return math.ceil(value)
    return math.floor(value) if operator in {">", "<="} else value
