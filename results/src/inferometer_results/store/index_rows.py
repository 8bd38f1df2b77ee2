"""The rows of the index for a document: a pure function of it and of the journal."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferometer_api.results.reading import ReadResult
from inferometer_api.results.result import ResultDocument, ScenarioResult, Step, nanoseconds_at
from inferometer_api.results.scenario_summary import representative_step
from inferometer_api.scenarios.table import PROFILED
from inferometer_api.spec.digest import spec_digest
from inferometer_results.headline import headline, model_of
from inferometer_results.profile import is_profiled
from inferometer_results.store.comparability import comparability_keys, key_digest
from inferometer_results.store.server_machine import node_labels, server_machine
from inferometer_results.store.tables import FIGURES, best_column, unix_milliseconds

SUITE_LABEL = "inferometer.dev/suite"
_SEARCHED = (
    "name", "namespace", "outcome", "verdict", "suite", "model", "runtime", "engine", "server",
    "device", "protocol", "node", "cpu", "gpu",
)  # fmt: skip
USER = "user"
"""The source of a result that a person stored in a cluster's store; see `Origin`."""
ACCEPT_CHANGE, REJECT_CHANGE = "accept-change", "reject-change"
"""What interleaved runs showed about a change point that begins with a result; see `history`."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a document came from."""

    source: str
    """run, import, operator or user."""
    received_at: str
    cluster_uid: str = ""
    namespace: str = ""
    namespace_uid: str = ""
    """A later namespace of the same name is another one. Empty outside of a cluster."""


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One entry of the journal: what a person added to a result."""

    at: str
    by: str
    action: str
    """tag, untag, retract, restore, accept-change or reject-change."""
    text: str
    """The tag, the reason, or the finding about the change."""


@dataclass(frozen=True, slots=True)
class IndexRows:
    """The rows of one result."""

    result: dict[str, Any]
    measurements: list[dict[str, Any]] = field(default_factory=list)
    labels: list[dict[str, Any]] = field(default_factory=list)
    conditions: list[dict[str, Any]] = field(default_factory=list)
    """The comparability keys of the measurements, each once."""
    node_sets: list[dict[str, Any]] = field(default_factory=list)
    """The nodes that served it."""


def index_rows(
    result_id: str, number: int, read: ReadResult, origin: Origin, journal: Sequence[JournalRow]
) -> IndexRows:
    """Return the rows of a document that was kept as the `number`th."""
    document = read.document
    keys = comparability_keys(document, (each.name for each in document.scenarios))
    digests = {name: key_digest(key) for name, key in keys.items()}
    result = _result_row(document, origin, journal)
    result |= {"id": result_id, "number": number, "notice": read.notice}
    result = _storable(result)
    measurements = list(map(_storable, _measurement_rows(document, digests)))
    labels = list(map(_storable, _label_rows(document, journal)))
    nodes = node_set(result, labels)
    result |= {"words": _words(result, measurements, labels), "node_set": nodes["key"]}
    return IndexRows(
        result | best_figures(measurements if _may_rank(document, origin) else []),
        [
            {"result_number": number, "position": position} | row
            for position, row in enumerate(measurements)
        ],
        [{"result_number": number} | row for row in labels],
        [
            # JSON escapes NUL.
            {"key": digests[name], "content": json.dumps(key, sort_keys=True)}
            for name, key in keys.items()
        ],
        [nodes],
    )


def node_set(result: Mapping[str, Any], labels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row of the nodes that served a result, by what a price list can name."""
    content = {name: result[name] for name in ("node", "cpu", "gpu")}
    own = [dict(each) for each in labels if each["origin"] == "node"]
    text = json.dumps(content | {"labels": own}, sort_keys=True)
    return {"key": hashlib.sha256(text.encode()).hexdigest()[:16], "content": text}


def best_figures(measurements: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the figures by which a result is sorted: those of its best VALID scenario.

    The best latency or energy is the smallest, the best of every other figure the largest. A result
    without any, such as one that a user stored, that is not complete or has a profile, comes last.
    """
    ranked = [each for each in measurements if each["headline"] and each["verdict"] == "VALID"]
    found: dict[str, float | None] = {}
    for figure, column in FIGURES.items():
        values = [each[column] for each in ranked if each[column] is not None]
        best = min if column.endswith(("_nanoseconds", "microjoules_per_inference")) else max
        found[best_column(figure)] = best(values, default=None)
    return found


def _may_rank(document: ResultDocument, origin: Origin) -> bool:
    with_profile = is_profiled(each.kind for each in document.scenarios)
    return document.outcome.state == "Complete" and origin.source != USER and not with_profile


def storable(text: str) -> str:
    """Return a text as every database can hold it: PostgreSQL's have no NUL."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _storable(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: storable(value) if isinstance(value, str) else value for name, value in row.items()
    }


def standing_tags(journal: Sequence[JournalRow]) -> list[str]:
    """Return the tags that the entries of one result leave, in the order of the alphabet."""
    tags: set[str] = set()
    for entry in journal:
        if entry.action == "tag":
            tags.add(entry.text)
        elif entry.action == "untag":
            tags.discard(entry.text)
    return sorted(tags)


def standing_retraction(journal: Sequence[JournalRow]) -> str | None:
    """Return why a result is retracted, None if it is not."""
    reason: str | None = None
    for entry in journal:
        if entry.action in {"retract", "restore"}:
            reason = entry.text if entry.action == "retract" else None
    return reason


def _result_row(
    document: ResultDocument, origin: Origin, journal: Sequence[JournalRow]
) -> dict[str, Any]:
    spec, found = document.run.spec, document.environment
    server = None if found is None else found.server
    settings = {} if server is None else server.settings
    labels = document.run.metadata.labels
    machine = server_machine(document)
    return {
        "cluster_uid": origin.cluster_uid,
        "namespace": origin.namespace or document.run.metadata.namespace or "",
        "namespace_uid": origin.namespace_uid,
        "name": document.run.name,
        "run_uid": document.run_id,
        "source": origin.source,
        "received_at": origin.received_at,
        "started_at": _existing(document.started_at, origin),
        "finished_at": _existing(document.finished_at, origin),
        "outcome": document.outcome.state,
        "verdict": headline(document).word,
        "retracted": standing_retraction(journal),
        "place": "" if found is None else found.place,
        "suite": labels.get(SUITE_LABEL, ""),
        "model": _model_name(document),
        "model_version": "" if found is None else found.model.version,
        "model_sha256": "" if found is None else found.model.sha256 or "",
        "runtime": spec.server.runtime,
        "engine": f"{settings.get('runtime', '')} {settings.get('runtime_version', '')}".strip(),
        "server": "" if server is None else f"{server.name} {server.version}".strip(),
        "device": spec.server.device,
        "protocol": spec.load.protocol,
        "node": ", ".join(machine.nodes),
        "cpu": machine.cpu,
        "gpu": machine.gpu,
        "inferometer_version": document.inferometer_version,
        "schema_version": document.schema_version,
        "spec_digest": spec_digest(spec),
    }


def _model_name(document: ResultDocument) -> str:
    named = "" if document.environment is None else document.environment.model.name
    return named or model_of(document)


def _measurement_rows(
    document: ResultDocument, keys: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    for scenario in document.scenarios:
        key = {"key": keys[scenario.name]}
        chosen = representative_step(scenario)
        for step in scenario.steps:
            yield (
                _measurement_row(
                    scenario, step, is_headline=step is chosen and scenario.kind not in PROFILED
                )
                | key
            )


def _measurement_row(scenario: ScenarioResult, step: Step, *, is_headline: bool) -> dict[str, Any]:
    peak = scenario.peak if is_headline else None
    return {
        "scenario": scenario.name,
        "kind": scenario.kind,
        "repeat": scenario.repeat,
        "step": step.label,
        "headline": is_headline,
        "verdict": scenario.verdict.state,
        "reasons": " ".join(sorted({each.rule for each in scenario.verdict.reasons})),
        "batch_size": step.batch_size,
        "clients": step.clients,
        "queries": step.counts.queries,
        "errors": step.counts.failed,
        "scheduled_qps": step.scheduled_qps,
        "qps": step.achieved_qps,
        "samples_per_second": step.achieved_samples_per_second,
        "peak_qps": None if peak is None else peak.qps,
        "p50_nanoseconds": nanoseconds_at(step.latency, 50.0),
        "p90_nanoseconds": nanoseconds_at(step.latency, 90.0),
        "p99_nanoseconds": nanoseconds_at(step.latency, 99.0),
        "p999_nanoseconds": nanoseconds_at(step.latency, 99.9),
        "microjoules_per_inference": step.energy.microjoules_per_inference,
    }


def _label_rows(
    document: ResultDocument, journal: Sequence[JournalRow]
) -> Iterator[dict[str, Any]]:
    for name, value in sorted(document.run.metadata.labels.items()):
        yield {"origin": "run", "name": name, "value": value}
    for name, value in sorted(node_labels(document).items()):
        yield {"origin": "node", "name": name, "value": value}
    for tag in standing_tags(journal):
        yield {"origin": "tag", "name": tag, "value": ""}


def _words(
    result: dict[str, Any], measurements: list[dict[str, Any]], labels: list[dict[str, Any]]
) -> str:
    """Return what a search by words looks at: each text once, in lower case."""
    texts = [str(result[name]) for name in _SEARCHED]
    texts += [each[name] for each in measurements for name in ("scenario", "verdict", "reasons")]
    texts += [each[name] for each in labels for name in ("name", "value")]
    return "\n".join(dict.fromkeys(each.lower() for each in texts if each))


def _existing(time: str, origin: Origin) -> str:
    """Return a time of a document, or when it was received if there is no such time."""
    return time if unix_milliseconds(time) is not None else origin.received_at
