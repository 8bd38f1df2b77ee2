"""The fields that a search can name: where they are, what their values are, how they sort."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from sqlalchemy import ColumnElement

from inferometer_results.store.costs import Costs
from inferometer_results.store.tables import (
    FIGURES,
    MEASUREMENT,
    RESULT,
    best_column,
)

Kind = Literal["text", "number", "time", "energy", "date"]


class SearchError(ValueError):
    """A search that cannot be understood; the message is a sentence with what to do."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field to search by: where it is, and what its values are."""

    column: ColumnElement[Any]
    kind: Kind
    help: str
    best: ColumnElement[Any] | None = None
    """What it is of the best scenario, if that is no column."""

    @property
    def is_measured(self) -> bool:
        """Whether it belongs to one measurement of a result."""
        return self.best is not None or getattr(self.column, "table", None) is MEASUREMENT

    @property
    def order(self) -> ColumnElement[Any] | None:
        """The value of a result by which lists are sorted, None if they are not."""
        if self.best is not None:
            return self.best
        if not self.is_measured:
            return None if self.column is RESULT.c.words else self.column
        figure = _FIGURE_OF_COLUMN.get(self.column)
        return None if figure is None else RESULT.c[best_column(figure)]


_FIGURE_OF_COLUMN: dict[ColumnElement[Any], str] = {
    MEASUREMENT.c[column]: figure for figure, column in FIGURES.items()
}

FIELDS: Mapping[str, Field] = {
    "id": Field(RESULT.c.id, "text", "ID of the result; id~ finds a part of it"),
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
SORTING = tuple(name for name, field in FIELDS.items() if field.order is not None)
"""The fields by which lists are sorted: no texts of scenarios, of which a result has several."""

COST = "cost"
"""The field of a search that has prices."""
COST_HELP = "cost of a million inferences, by the price list"


def find_field(name: str, costs: Costs | None = None) -> Field:
    """Return the field of a name. Raises SearchError."""
    if name == COST:
        if costs is None:
            raise SearchError(
                "cost needs a price list: give one to `inferometer results serve --prices`, or to "
                "the chart of the service."
            )
        own, best = MEASUREMENT.c.samples_per_second, RESULT.c[best_column("samples")]
        return Field(costs.per_million(own), "number", COST_HELP, costs.per_million(best))
    found = FIELDS.get(name)
    if found is not None:
        return found
    near = get_close_matches(name, [*FIELDS, "tag"], 1)
    hint = f"Did you mean {near[0]}? " if near else ""
    raise SearchError(
        f"There is no field {name!r}. {hint}The fields are {', '.join(FIELDS)}, tag and label.NAME."
    )


def find_order(name: str, costs: Costs | None = None) -> ColumnElement[Any]:
    """Return the value of results by which a field sorts them. Raises SearchError."""
    is_label = name == "tag" or name.startswith("label.")
    order = None if is_label else find_field(name, costs).order
    if order is None:
        raise SearchError(f"Results are not sorted by {name}, but by: {', '.join(SORTING)}.")
    return order
