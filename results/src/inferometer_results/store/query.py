"""The conditions and the order of a search: `model=resnet50 and p99<50ms`."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

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

from inferometer_results.store.tables import LABEL, MEASUREMENT, RESULT

Kind = Literal["text", "number", "time", "energy", "date"]

_MOST_CHARACTERS = 4096
_MOST_NESTING = 32
_MOST_WORDS = 10
_TOKEN = re.compile(
    r"""\s*(?:(?P<operator><=|>=|!=|[=<>~])|(?P<bracket>[()])|"(?P<quoted>[^"]*)"|"""
    r"""(?P<word>[^\s()=<>!~"]+))"""
)
_QUANTITY = re.compile(
    r"(?P<number>[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(?P<unit>[a-zµ]*)", re.IGNORECASE
)
_UNITS: dict[str, dict[str, float]] = {
    "number": {"": 1, "k": 1e3, "m": 1e6},
    "time": {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9},
    "energy": {"uj": 1, "µj": 1, "mj": 1e3, "j": 1e6},
}
_EXAMPLES = {
    "number": "100 or 2.5k",
    "time": "50ms, with its unit: ns, us, ms or s",
    "energy": "80mJ, with its unit: uJ, mJ or J",
}


class SearchError(ValueError):
    """A search that cannot be understood; the message is a sentence with what to do."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field to search by: where it is, and what its values are."""

    column: ColumnElement[Any]
    kind: Kind
    help: str

    @property
    def is_measured(self) -> bool:
        """Whether it belongs to one measurement of a result."""
        return getattr(self.column, "table", None) is MEASUREMENT


FIELDS: Mapping[str, Field] = {
    "id": Field(RESULT.c.id, "text", "ID of the result"),
    "run": Field(RESULT.c.name, "text", "name of the run"),
    "namespace": Field(RESULT.c.namespace, "text", "namespace of the run"),
    "cluster": Field(RESULT.c.cluster_uid, "text", "UID of the cluster"),
    "source": Field(RESULT.c.source, "text", "who stored it: run, import, operator or user"),
    "started": Field(RESULT.c.started_at, "date", "when the run started: 2026-11-24"),
    "outcome": Field(RESULT.c.outcome, "text", "Complete, Failed, ..."),
    "verdict": Field(RESULT.c.verdict, "text", "VALID, INVALID, or how the run ended"),
    "suite": Field(RESULT.c.suite, "text", "suite of the run"),
    "model": Field(RESULT.c.model, "text", "name of the model"),
    "model.version": Field(RESULT.c.model_version, "text", "version of the model"),
    "model.sha256": Field(RESULT.c.model_sha256, "text", "checksum of the model file"),
    "runtime": Field(RESULT.c.runtime, "text", "OnnxRuntime, External, ..."),
    "engine": Field(RESULT.c.engine, "text", "engine and its version"),
    "server": Field(RESULT.c.server, "text", "server and its version"),
    "device": Field(RESULT.c.device, "text", "CPU or GPU"),
    "protocol": Field(RESULT.c.protocol, "text", "HTTP or GRPC"),
    "node": Field(RESULT.c.node, "text", "node of the server"),
    "node.cpu": Field(RESULT.c.cpu, "text", "CPU model of the node"),
    "node.gpu": Field(RESULT.c.gpu, "text", "GPU models of the node"),
    "scenario": Field(MEASUREMENT.c.scenario, "text", "name of the scenario"),
    "kind": Field(MEASUREMENT.c.kind, "text", "singleStream, server, ..."),
    "step": Field(MEASUREMENT.c.step, "text", "step of the scenario: batch 8"),
    "scenario.verdict": Field(MEASUREMENT.c.verdict, "text", "VALID or INVALID"),
    "reason": Field(MEASUREMENT.c.reasons, "text", "rules that the scenario broke"),
    "batch": Field(MEASUREMENT.c.batch_size, "number", "samples in each request"),
    "clients": Field(MEASUREMENT.c.clients, "number", "outstanding queries of a closed loop"),
    "queries": Field(MEASUREMENT.c.queries, "number", "queries of the window"),
    "errors": Field(MEASUREMENT.c.errors, "number", "failed queries"),
    "qps": Field(MEASUREMENT.c.qps, "number", "queries answered per second"),
    "samples": Field(MEASUREMENT.c.samples_per_second, "number", "inferences per second"),
    "peak": Field(MEASUREMENT.c.peak_qps, "number", "highest rate within the bound"),
    "p50": Field(MEASUREMENT.c.p50_nanoseconds, "time", "latency"),
    "p90": Field(MEASUREMENT.c.p90_nanoseconds, "time", "latency"),
    "p99": Field(MEASUREMENT.c.p99_nanoseconds, "time", "latency"),
    "p99.9": Field(MEASUREMENT.c.p999_nanoseconds, "time", "latency"),
    "energy": Field(MEASUREMENT.c.microjoules_per_inference, "energy", "energy per inference"),
    "key": Field(MEASUREMENT.c.key, "text", "digest of the comparability key"),
    "spec": Field(RESULT.c.spec_digest, "text", "digest of the specification"),
    "text": Field(RESULT.c.words, "text", "all names, labels, tags and reasons, in lower case"),
}
"""What a search can name; `tag` and `label.NAME` in addition."""

_COMPARISONS: dict[str, Callable[[Any, Any], ColumnElement[bool]]] = {
    "=": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
    "~": lambda column, value: func.lower(column).contains(value.lower(), autoescape=True),
}


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

    @property
    def is_by_figure(self) -> bool:
        """Whether the order is that of a figure. Raises SearchError."""
        return _field(self.sort.removeprefix("-")).is_measured

    def parts(self, condition: ColumnElement[bool], *, is_broad: bool) -> list[Select[str]]:
        """Return the queries for the IDs of the results: those of the first come first, and so on.

        `condition` is that of the search; limit and offset are left aside. With `is_broad` the
        order of a figure is that of its index, which is fast if many results match.
        """
        name, is_descending = self.sort.removeprefix("-"), self.sort.startswith("-")
        field = _field(name)
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

    def condition(self, *, each_result: bool = False) -> ColumnElement[bool]:
        """Return the condition on a result. Raises SearchError.

        With `each_result` it is fast if few results meet the conditions that are not on figures.
        """
        where, _ = self._read(each_result=each_result)
        return and_(*self._given(), where)

    def of_result(self) -> ColumnElement[bool] | None:
        """Return the conditions that are not on figures, if there are both. Raises SearchError."""
        where, has_both = self._read(of_result_only=True)
        return and_(*self._given(), where) if has_both else None

    def _read(
        self, *, each_result: bool = False, of_result_only: bool = False
    ) -> tuple[ColumnElement[bool], bool]:
        if not self.where.strip():
            return true(), False
        parser = _Parser(self.where)
        found = parser.condition(each_result=each_result, of_result_only=of_result_only)
        return found, parser.has_both

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


def _field(name: str) -> Field:
    found = FIELDS.get(name)
    if found is not None:
        return found
    near = get_close_matches(name, [*FIELDS, "tag"], 1)
    hint = f"Did you mean {near[0]}? " if near else ""
    raise SearchError(
        f"There is no field {name!r}. {hint}The fields are {', '.join(FIELDS)}, tag and label.NAME."
    )


class _Parser:
    """Reads a condition: comparisons with `and`, `or`, `not` and brackets."""

    def __init__(self, text: str) -> None:
        if len(text) > _MOST_CHARACTERS:
            raise SearchError(f"A condition has at most {_MOST_CHARACTERS} characters.")
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        self._is_measured = False
        self.has_both = False
        """Whether it has conditions on figures and others, once it is read."""

    def condition(self, *, each_result: bool, of_result_only: bool) -> ColumnElement[bool]:
        alternatives = [self._conjuncts()]
        while self._takes("or"):
            alternatives.append(self._conjuncts())
        if self._at < len(self._tokens):
            raise SearchError(f"{self._peek()!r} stands where and, or, or the end was expected.")
        if len(alternatives) > 1:
            alternatives = [[(or_(*map(_joined, alternatives)), self._is_measured)]]
        # All conditions on figures hold for one and the same measurement. Those on the result stand
        # outside, so that the database can begin with them.
        (parts,) = alternatives
        measured = [part for part, is_measured in parts if is_measured]
        found = [part for part, is_measured in parts if not is_measured]
        self.has_both = bool(measured and found)
        if measured and not of_result_only:
            found.append(_has_measurement(and_(*measured), each_result=each_result))
        return and_(True, *found)

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
            return not_(self._nested(self._one))
        if self._takes("("):
            found = self._nested(self._any)
            if not self._takes(")"):
                raise SearchError("A bracket is not closed.")
            return found
        return self._comparison()

    def _nested(self, part: Callable[[], ColumnElement[bool]]) -> ColumnElement[bool]:
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
        field = _field(name)
        self._is_measured = self._is_measured or field.is_measured
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
        quoted = match["quoted"]
        word = match["operator"] or match["bracket"] or match["word"] or ""
        found.append((False, word) if quoted is None else (True, quoted))
        at = match.end()
    return found


def _has_measurement(condition: ColumnElement[bool], *, each_result: bool) -> ColumnElement[bool]:
    """Return that a measurement of the result meets a condition.

    With `each_result` the measurements of each result are looked at, otherwise all at once.
    """
    if each_result or any(each.table is RESULT for each in _columns(condition)):
        of_result = MEASUREMENT.c.result_id == RESULT.c.id
        return exists().where(of_result, condition).correlate(RESULT)
    return RESULT.c.id.in_(select(MEASUREMENT.c.result_id).where(condition))


def _columns(condition: ColumnElement[bool]) -> list[Column[Any]]:
    return [each for each in visitors.iterate(condition) if isinstance(each, Column)]


def _labelled(origin: str, operator: str, name: str, value: str | None) -> ColumnElement[bool]:
    if operator not in {"=", "!="}:
        raise SearchError(f"Tags and labels are compared with = and !=, not with {operator}.")
    matches = [LABEL.c.origin == origin, LABEL.c.name == name]
    if value is not None:
        matches.append(LABEL.c.value == value)
    found = RESULT.c.id.in_(select(LABEL.c.result_id).where(*matches))
    return found if operator == "=" else not_(found)


def _value(name: str, field: Field, operator: str, text: str) -> str | float:
    if field.kind in {"text", "date"}:
        return text
    if operator == "~":
        raise SearchError(f"{name} is a figure: compare it with = != < <= > or >=.")
    match = _QUANTITY.fullmatch(text)
    size = None if match is None else _UNITS[field.kind].get(match["unit"].lower())
    if match is None or size is None:
        raise SearchError(f"{name} is compared with {_EXAMPLES[field.kind]}; {text!r} is not that.")
    return float(match["number"]) * size
