"""The answers of the API about many results, for its OpenAPI description."""

from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from inferometer_results.store.summaries import FACETS

_STRICT = ConfigDict(extra="forbid")


class FacetValue(BaseModel):
    """A value of a facet, and how many results have it."""

    model_config = _STRICT

    value: str
    count: int


_FACETS: dict[str, Any] = dict.fromkeys(FACETS, (list[FacetValue], ...))
Facets = create_model("Facets", __config__=_STRICT, **_FACETS)
"""The most frequent values of each facet."""


class ListedModel(BaseModel):
    """A model, and how many results it has."""

    model_config = _STRICT

    model: str
    count: int
    newest: str
    """When the newest one started."""


class ListedSuite(BaseModel):
    """A suite, and how many results it has."""

    model_config = _STRICT

    suite: str
    count: int
    newest: str
    """When the newest one started."""


class ListedExecution(BaseModel):
    """An execution of a suite; null stands for what its outcome says, until that is stored."""

    model_config = _STRICT

    execution: str
    finished_at: str | None
    planned: int | None
    """Runs that it consists of."""
    gate: str | None
    """PASS, FAIL, INCONCLUSIVE or CouldNotRun."""


class SlowerFigure(BaseModel):
    """A figure that is shown to be slower than the baseline's."""

    model_config = _STRICT

    cell: str
    scenario: str
    step: str
    """Empty if the scenario has one step, and of a peak."""
    figure: str
    ratio_parts_per_million: int
    low_parts_per_million: int
    high_parts_per_million: int


class DecidedGate(BaseModel):
    """What the gate of an execution decided."""

    model_config = _STRICT

    outcome: str
    armed: bool
    """Whether enough A/A pairs exist; before that the outcome is advisory."""
    judged: int
    """Figures that were compared."""
    detectable_parts_per_million: int | None
    slower: list[SlowerFigure]
    """At most 20 of them, the worst first."""
    slower_count: int | None
    """All of them; null in outcomes of older versions."""
    reasons: list[str]
    invalid_blocks: list[str]


class SuiteRunRow(BaseModel):
    """A run of an execution."""

    model_config = _STRICT

    run: str
    cell: str
    values: dict[str, str]
    """Axes and their values."""
    system: str
    repeat: int
    role: str
    """cell, or opening and closing for the anchor's runs."""
    state: str
    """VALID, INVALID, failed, deleted or skipped."""
    reason: str
    result_id: str
    """Empty if it left no result."""
    figures: dict[str, dict[str, float]]
    """By scenario: qps in queries per second, p50 in seconds."""


class SuiteDocument(BaseModel):
    """A suite with one of its executions."""

    model_config = _STRICT

    suite: str
    executions: list[ListedExecution]
    """All, the newest first."""
    execution: str
    """The one that is shown."""
    gate: DecidedGate | None
    note: str
    """What the database lacks of it, in a sentence."""
    runs: list[SuiteRunRow]


class ListedNode(BaseModel):
    """A node with its hardware, and the models that ran there."""

    model_config = _STRICT

    node: str
    count: int
    newest: str
    models: list[str]
    cpu: str
    gpu: str


class ListedTrend(BaseModel):
    """A specification that ran several times on a node."""

    model_config = _STRICT

    spec_digest: str
    node: str
    count: int
    newest: str
    name: str
    model: str


class ListedSpec(BaseModel):
    """A specification, and on how many nodes it ran."""

    model_config = _STRICT

    spec_digest: str
    nodes: int
    count: int
    newest: str
    name: str
    model: str


class ModelGroup(BaseModel):
    """Measurements of one step under the same conditions on one node, by the newest that ranks."""

    model_config = _STRICT

    scenario: str
    step: str
    batch_size: int
    stack: str
    node: str
    key: str
    result_id: str
    started_at: str
    verdict: str
    excluded: str
    """Why none ranks."""
    results: int
    """How many rank."""
    samples_per_second: float
    qps: float
    p50_nanoseconds: int | None
    p90_nanoseconds: int | None
    p99_nanoseconds: int | None
    p999_nanoseconds: int | None
    microjoules_per_inference: int | None
    p99_lowest: int | None
    """Over those that rank."""
    p99_highest: int | None
    cost_per_million: float | None
    on_front: bool
    batch_of_most_throughput: int | None
    batch_at_knee: int | None
    cold_start_nanoseconds: float | None
    """Median of the cold start, of other kinds of the newest one of the stack on the node."""
    cold_start_state: str | None
    """What the node held before it."""


class ModelDocument(BaseModel):
    """The measurements of a scenario of a model."""

    model_config = _STRICT

    model: str
    scenario: str
    ranked: bool
    """False if conditions differ and `mixed` does not allow it."""
    differing: dict[str, list[str]]
    currency: str | None
    groups: list[ModelGroup]


class TrendRow(BaseModel):
    """A point of a trend."""

    model_config = _STRICT

    result_id: str
    started_at: str
    step: str
    repeats: int
    figure: str
    value: float
    excluded: str
    change: float | None
    """The ratio of the levels, if one is taken to begin here."""
    state: str | None
    """Of the change: candidate, or accepted or rejected by interleaved runs."""
    changed: str
    tags: str


class NodeRow(BaseModel):
    """A figure on one node."""

    model_config = _STRICT

    node: str
    figure: str
    median: float
    results: int
    ratio: float
    """To the median over all nodes with the conditions of most."""
    deviations: float | None
    outlier: bool
    differing: str
    """The conditions in which it differs from most nodes: theirs, and its own."""
