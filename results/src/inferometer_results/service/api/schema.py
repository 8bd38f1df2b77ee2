"""The answers of the API, for its OpenAPI description."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, create_model
from sqlalchemy import Column

from inferometer_results.store.tables import LABEL, MEASUREMENT, SHOWN

_STRICT = ConfigDict(extra="forbid")


def _model_of(name: str, columns: Iterable[Column[Any]], **more: Any) -> type[BaseModel]:
    """Return the model of a row with these columns, without the number of its result."""
    fields: dict[str, Any] = {
        column.name: _field(column)
        for column in columns
        if column.name not in {"result_number", "number"}
    }
    return create_model(name, __config__=_STRICT, **fields, **more)


def _field(column: "Column[Any]") -> Any:
    kind = column.type.python_type
    return (kind | None, None) if column.nullable else (kind, ...)


Measurement = _model_of("Measurement", MEASUREMENT.columns, cost_per_million=(float | None, None))
"""A step of a scenario; what a million inferences cost is left out without prices."""
Label = _model_of("Label", LABEL.columns)
"""A label of the run, or a tag of a person."""
Result = _model_of(
    "Result",
    SHOWN,
    measurements=(list[Measurement], ...),  # type: ignore[valid-type]
    labels=(list[Label], ...),  # type: ignore[valid-type]
)
"""A result with its measurements; times in nanoseconds, energies in microjoules."""


class ResultList(BaseModel):
    """A part of the results that a search finds."""

    model_config = _STRICT

    total: int
    """How many results the search finds."""
    total_is_exact: bool
    """False if it finds more."""
    limit: int
    offset: int
    next: str | None
    """The ID after which the list continues; null at its end."""
    items: list[Result]  # type: ignore[valid-type]


class SearchField(BaseModel):
    """A field of `where` and `sort`."""

    model_config = _STRICT

    name: str
    kind: str
    help: str
    sorts: bool
    """Whether `sort` can name it."""


class ErrorBody(BaseModel):
    """Why a request is not answered."""

    model_config = _STRICT

    error: str
    """A sentence with what to do."""


class Stored(BaseModel):
    """What became of a document that was sent."""

    model_config = _STRICT

    id: str
    is_new: bool
    """False if the store had it already."""
    page: str
    """Path of its page."""


class Changed(BaseModel):
    """A result that was changed."""

    model_config = _STRICT

    id: str


class JournalEntry(BaseModel):
    """What a person added to a result."""

    model_config = _STRICT

    id: str
    """Of the result."""
    at: str
    by: str
    action: str
    text: str


class Side(BaseModel):
    """One of two results."""

    model_config = _STRICT

    id: str
    name: str
    started_at: str
    verdict: str


class ConditionRow(BaseModel):
    """A condition of the comparability key that differs; "" is an unknown value."""

    model_config = _STRICT

    name: str
    a: str
    b: str


class DifferenceRow(ConditionRow):
    """A field of specification or environment that differs."""

    part: str


class FigureRow(BaseModel):
    """A figure of both results: a rate per second, nanoseconds, microjoules, or a cost."""

    model_config = _STRICT

    scenario: str
    step: str
    verdict_a: str
    verdict_b: str
    figure: str
    kind: Literal["rate", "time", "energy", "cost"]
    a: float | None
    a_low: float | None
    a_high: float | None
    b: float | None
    b_low: float | None
    b_high: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    ratio_confidence: float | None
    judgement: str
    """better, worse, equal, inconclusive, or why it is not judged."""
    caveats: str


class ComparisonDocument(BaseModel):
    """Two results side by side; `a` is the baseline."""

    model_config = _STRICT

    a: Side
    b: Side
    comparable: bool
    """Whether no condition differs."""
    conditions: list[ConditionRow]
    differences: list[DifferenceRow]
    figures: list[FigureRow]
    only_a: list[str]
    only_b: list[str]
    margin: float
    confidence: float
