"""Composition of a cold start's record from the evidence of all who saw a part of it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from inferometer_api.plan.load_plan import ObservedPhase, StartEvidence
from inferometer_api.results.cold_start import MODEL_FETCHED, ColdStartRecord, StartPhase
from inferometer_api.spec.scenario import ColdStartState
from inferometer_loadgen.server.readiness import ReadinessCalls

_CLIENT = "the load generator"
_NO_PHASES = "the server does not report the phases of its start"
_CALLS_RESOLUTION_MICROSECONDS = 100_000
"""A call that finds the server ready may take this long: it connects, and loads its modules."""
_NO_BYTES = "a pod's conditions and the states of its containers do not have them"
_PHASES = TypeAdapter(list[ObservedPhase])


@dataclass(frozen=True, slots=True)
class FirstQueries:
    """What the load generator saw of a new server."""

    sent_microseconds: int
    """When the first query was sent, in Unix time."""
    latencies_ns: Sequence[int]
    """In their order; that of the first answer counts from the first send."""
    steady_median_ns: int | None
    readiness: ReadinessCalls | None = None
    """How it found the server ready."""


def read_phases(text: str) -> list[ObservedPhase]:
    """Return the phases that a server reports of its start; none if it reports none."""
    try:
        return _PHASES.validate_json(text) if text else []
    except ValidationError:
        return []


def compose_record(
    state: ColdStartState,
    evidence: StartEvidence,
    reported: Sequence[ObservedPhase],
    queries: FirstQueries,
) -> ColdStartRecord:
    """Return the record of a start; `reported` are the server's own phases."""
    unavailable: dict[str, str] = {}
    phases = [*evidence.phases, *_of_process(evidence, reported, queries)]
    if not reported:
        unavailable["phases of the server"] = _NO_PHASES
    elif not any(each.name == "sessionCreated" and each.parts for each in reported):
        unavailable["parts of sessionCreated"] = "the engine does not report them"
    if evidence.residency_unknown:
        unavailable["residency"] = evidence.residency_unknown
    if any(each.name == MODEL_FETCHED and each.bytes is None for each in phases):
        unavailable["bytes of modelFetched"] = _NO_BYTES
    if evidence.image_unknown and state != "Nothing":
        unavailable["image"] = evidence.image_unknown
    created = evidence.created_microseconds
    reported_ready = max((each.end_microseconds for each in phases), default=created)
    ready = reported_ready + _unready_microseconds(reported_ready, evidence, queries)
    first_ns = queries.latencies_ns[0] if queries.latencies_ns else 0
    answer = StartPhase(
        name="firstAnswer",
        start_nanoseconds=(ready - created) * 1000,
        duration_nanoseconds=first_ns,
        evidence=_CLIENT,
    )
    return ColdStartRecord(
        state=state,
        total_nanoseconds=(ready - created) * 1000 + first_ns,
        phases=[*(_relative(each, created) for each in phases), answer],
        gap_nanoseconds=1000 * _uncovered(phases, created, ready),
        client_delay_nanoseconds=1000 * max(0, queries.sent_microseconds - ready),
        first_queries_nanoseconds=list(queries.latencies_ns),
        steady_median_nanoseconds=queries.steady_median_ns,
        model_bytes=evidence.model_bytes,
        resident_bytes=evidence.resident_bytes,
        unavailable=unavailable,
    )


def _unready_microseconds(since: int, evidence: StartEvidence, queries: FirstQueries) -> int:
    """Return how much longer the server is proven to be unready than its phases say.

    What others see within their resolution proves nothing.
    """
    seen, calls = evidence.ready_microseconds, queries.readiness
    late = 0 if seen is None else seen - since
    # A probe comes once in the resolution, and its time is rounded by the resolution.
    if late <= 2 * (evidence.launched_resolution_microseconds or _CALLS_RESOLUTION_MICROSECONDS):
        late = 0
    unanswered = 0 if calls is None else calls.unready_microseconds(since)
    if unanswered <= _CALLS_RESOLUTION_MICROSECONDS:
        unanswered = 0
    return max(late, unanswered)


def _of_process(
    evidence: StartEvidence, reported: Sequence[ObservedPhase], queries: FirstQueries
) -> list[ObservedPhase]:
    launched = evidence.launched_microseconds
    if launched is None:
        return list(reported)
    name, end, by = "processStarted", 0, "the server"
    if reported:
        end = reported[0].start_microseconds
    else:
        seen = evidence.ready_microseconds
        name, end = "serverStarted", queries.sent_microseconds if seen is None else seen
        by = _CLIENT if seen is None else "its readiness, polled"
    first = ObservedPhase(
        name=name,
        start_microseconds=launched,
        end_microseconds=max(launched, end),
        evidence=by,
        resolution_microseconds=(
            evidence.launched_resolution_microseconds or (1 if reported else 100_000)
        ),
    )
    return [first, *reported]


def _relative(phase: ObservedPhase, created: int) -> StartPhase:
    return StartPhase(
        name=phase.name,
        start_nanoseconds=1000 * max(0, phase.start_microseconds - created),
        duration_nanoseconds=1000 * max(0, phase.end_microseconds - phase.start_microseconds),
        evidence=phase.evidence,
        resolution_nanoseconds=1000 * phase.resolution_microseconds,
        bytes=phase.bytes,
        parts={name: 1000 * each for name, each in phase.parts.items()},
    )


def _uncovered(phases: Sequence[ObservedPhase], begin: int, end: int) -> int:
    """Return how much of an interval no phase covers."""
    gap, reached = 0, begin
    for phase in sorted(phases, key=lambda each: each.start_microseconds):
        gap += max(0, phase.start_microseconds - reached)
        reached = max(reached, phase.end_microseconds)
    return gap + max(0, end - reached)
