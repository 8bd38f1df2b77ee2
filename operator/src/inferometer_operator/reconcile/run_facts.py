"""Facts about a run for the operator's metrics.

They are derived from the cluster: a restarted operator exports the same.
"""

import json
from dataclasses import dataclass
from hashlib import sha256

from pydantic import ValidationError

from inferometer_api.document import API_VERSION
from inferometer_api.spec.resolve import fill_defaults
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.status.run_status import (
    ConditionType,
    Phase,
    RunStatus,
    ScenarioSummary,
    ServerTimeSummary,
)
from inferometer_api.timestamps import parse_time
from inferometer_operator.reconcile.conditions import find_condition, is_true, read_status
from inferometer_operator.reconcile.observed import Json

_HASH_DIGITS = 12


@dataclass(frozen=True, slots=True)
class ScenarioFacts:
    """The figures of a scenario, in base units; None: unknown."""

    scenario: str
    step: str
    valid: bool
    queries: int | None
    errors: int | None
    queries_per_second: float | None
    latency_seconds: tuple[tuple[str, float], ...]
    """By percentile: "50", "90", "99", "99.9"."""
    server_seconds: tuple[tuple[str, float], ...]
    """By part of a request: "queue", "compute_input", "compute_infer", "compute_output"."""
    step_shares: tuple[tuple[str, float], ...]
    """Share of the mean latency by step of the manifest in the server, from 0 to 1."""
    cold_start_seconds: float | None
    joules: float | None
    net_joules: float | None
    attribution: str


@dataclass(frozen=True, slots=True)
class FinishedFacts:
    """What a finished run measured."""

    started: float | None
    """Unix time, like every time here."""
    finished: float
    model: str
    runtime: str
    device: str
    protocol: str
    node: str
    outcome: str
    """Complete, or the reason of the condition Failed."""
    spec_hash: str
    result_url: str
    """Permanent address of the stored result; empty if it is not stored."""
    scenarios: tuple[ScenarioFacts, ...]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts about a run."""

    uid: str
    namespace: str
    name: str
    phase: Phase
    begun: bool
    """Whether it has been admitted."""
    since: float
    """When its phase began."""
    deadline: float | None
    """When it must be finished; None before it begins."""
    finished: FinishedFacts | None


def run_facts(raw: Json) -> RunFacts:
    """Return the facts about a raw run, valid or not."""
    metadata, status = raw["metadata"], read_status(raw)
    created = _seconds(metadata.get("creationTimestamp")) or 0.0
    started = _seconds(status.start_time)
    finished = _seconds(status.completion_time) if is_true(status, "Finished") else None
    run = _resolved(raw)
    limit = None if run is None else run.spec.active_deadline_seconds
    return RunFacts(
        uid=str(metadata["uid"]),
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata["name"]),
        phase=status.phase or "Pending",
        begun=started is not None,
        since=_since(status, created),
        deadline=None if started is None or limit is None else started + limit,
        finished=None if finished is None else _finished(run, status, started, finished),
    )


def spec_hash(run: BenchmarkRun) -> str:
    """Return a hash that resolved runs with the same measurement share, whatever their seed."""
    parts = {"model", "server", "load", "scenarios", "validity"}
    spec = run.spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=parts)
    del spec["load"]["seed"]
    canonical = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()[:_HASH_DIGITS]


def _resolved(raw: Json) -> BenchmarkRun | None:
    # The items of a list have no apiVersion and kind.
    data = {
        "apiVersion": API_VERSION,
        "kind": "BenchmarkRun",
        "metadata": {"name": raw["metadata"]["name"]},
        "spec": raw.get("spec"),
    }
    try:
        return fill_defaults(BenchmarkRun.read(data))
    except ValidationError:
        return None


def _finished(
    run: BenchmarkRun | None, status: RunStatus, started: float | None, finished: float
) -> FinishedFacts:
    failure = find_condition(status, "Failed")
    failed = failure is not None and failure.status == "True"
    return FinishedFacts(
        started=started,
        finished=finished,
        model="" if run is None else run.spec.model.served_name,
        runtime="" if run is None else run.spec.server.runtime,
        device="" if run is None else run.spec.server.known_device,
        protocol="" if run is None else run.spec.load.protocol,
        node=status.nodes[0] if status.nodes else "",
        outcome=failure.reason if failure is not None and failed else "Complete",
        spec_hash="" if run is None else spec_hash(run),
        result_url=_result_url(status),
        # Two of one name would be one series.
        scenarios=tuple(
            {(each.name, each.step): _scenario(each) for each in status.scenarios}.values()
        ),
    )


def _result_url(status: RunStatus) -> str:
    stored = None if status.result is None else status.result.stored
    return "" if stored is None else stored.url


def _scenario(summary: ScenarioSummary) -> ScenarioFacts:
    latencies = (
        ("50", summary.p50_microseconds),
        ("90", summary.p90_microseconds),
        ("99", summary.p99_microseconds),
        ("99.9", summary.p999_microseconds),
    )
    return ScenarioFacts(
        scenario=summary.name,
        step=summary.step,
        valid=summary.verdict == "VALID",
        queries=summary.queries,
        errors=summary.errors,
        queries_per_second=_of(summary.achieved_milli_qps, 1e3),
        latency_seconds=tuple((name, us / 1e6) for name, us in latencies if us is not None),
        server_seconds=_server_seconds(summary.server_time),
        step_shares=_step_shares(summary.server_time),
        cold_start_seconds=_of(summary.cold_start_microseconds, 1e6),
        joules=_of(summary.microjoules_per_inference, 1e6),
        net_joules=_of(summary.net_microjoules_per_inference, 1e6),
        attribution=summary.energy_attribution or "",
    )


def _server_seconds(spent: ServerTimeSummary | None) -> tuple[tuple[str, float], ...]:
    if spent is None:
        return ()
    return (
        ("queue", spent.queue_microseconds / 1e6),
        ("compute_input", spent.compute_input_microseconds / 1e6),
        ("compute_infer", spent.compute_infer_microseconds / 1e6),
        ("compute_output", spent.compute_output_microseconds / 1e6),
    )


def _step_shares(spent: ServerTimeSummary | None) -> tuple[tuple[str, float], ...]:
    steps = () if spent is None else spent.steps
    return tuple((each.step, each.share_millionths / 1e6) for each in steps)


def _since(status: RunStatus, created: float) -> float:
    """Return when a run's phase began, as exactly as its conditions show."""
    match status.phase:
        case "Measuring":
            found = _transition(status, "Measuring")
        case "Starting":
            found = _seconds(status.start_time)
        case "Queued" | "Suspended":
            found = _transition(status, "Accepted")
        case "Complete" | "Failed":
            found = _seconds(status.completion_time)
        case _:
            found = None
    return created if found is None else found


def _transition(status: RunStatus, kind: ConditionType) -> float | None:
    found = find_condition(status, kind)
    return None if found is None else _seconds(found.last_transition_time)


def _of(count: int | None, per_unit: float) -> float | None:
    return None if count is None else count / per_unit


def _seconds(text: object) -> float | None:
    found = parse_time(text)
    return None if found is None else found.timestamp()
