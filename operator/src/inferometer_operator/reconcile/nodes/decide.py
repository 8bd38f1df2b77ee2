"""The decision for a NodeBenchmark: what to create, read and delete now, and the status."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from inferometer_api.nodes.benchmark import (
    BenchmarkedNode,
    NodeBenchmarkDisplay,
    NodeBenchmarkSpec,
    NodeBenchmarkStatus,
    NodeState,
)
from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.nodes.wire_rates import POD_TO_POD, WIRE_FIGURES
from inferometer_api.timestamps import format_time, parse_time
from inferometer_api.wording import counted
from inferometer_operator.reconcile.conditions import clip
from inferometer_operator.reconcile.context import is_deleting
from inferometer_operator.reconcile.nodes.draft import NodeBenchmarkDraft, is_true
from inferometer_operator.reconcile.nodes.observed import NodesObserved, end_words, wait_words
from inferometer_operator.reconcile.nodes.summary import memory_span, node_summary
from inferometer_operator.reconcile.nodes.wire import job_keys, peer_of
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.plan import DeletionTarget
from inferometer_operator.reconcile.pods import phase
from inferometer_operator.reconcile.times import add_seconds, seconds_until

OVER: frozenset[NodeState] = frozenset({"Measured", "Failed", "Cancelled"})
_SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True)
class NodesDecision:
    """What to do now, in this order: status, creations, reads, deletions."""

    status: NodeBenchmarkStatus
    create: tuple[str, ...] = ()
    """Nodes whose Job is absent and must exist."""
    read: tuple[str, ...] = ()
    """Nodes whose pod has ended well: its log holds the document."""
    wire: tuple[str, ...] = ()
    """Nodes whose own figures are there, and whose wire is measured now."""
    delete: tuple[DeletionTarget, ...] = ()
    is_expired: bool = False
    """Whether the NodeBenchmark itself is to be deleted."""
    look_again_seconds: float | None = None


def decide(
    spec: NodeBenchmarkSpec, draft: NodeBenchmarkDraft, observed: NodesObserved
) -> NodesDecision:
    """Return what to do for a NodeBenchmark whose nodes stand in its status."""
    rows = draft.status.nodes
    names = [row.node for row in rows]
    if not is_true(draft.status, "Finished"):
        rows = [
            row if row.state in OVER else _next_row(row, names, spec, observed, draft.now)
            for row in rows
        ]
        draft.update(nodes=rows, display=_display(rows))
        draft.set("Accepted", "True", "Accepted", f"The spec matches {counted(len(rows), 'node')}.")
        if all(row.state in OVER for row in rows):
            _finish(spec, draft, rows)
        else:
            _go_on(draft, rows)
    else:
        _retire(spec, draft)
    running = [row.node for row in rows if row.state == "Running"]
    wire = [node for node in running if node in observed.measured]
    ended = [
        node
        for node in running
        if node not in observed.measured and _has_ended_well(observed.pods.get(node))
    ]
    return NodesDecision(
        draft.status,
        create=tuple(
            node for node in running if node not in observed.jobs and node not in (*ended, *wire)
        ),
        read=tuple(ended),
        wire=tuple(wire),
        delete=tuple(
            _target(observed.jobs[key])
            for row in rows
            if row.state in OVER
            for key in job_keys(row.node)
            if key in observed.jobs and not is_deleting(observed.jobs[key])
        ),
        is_expired=_is_expired(spec, draft),
        look_again_seconds=_look_again(spec, draft, rows),
    )


def _retire(spec: NodeBenchmarkSpec, draft: NodeBenchmarkDraft) -> None:
    """Set the condition Current of a finished NodeBenchmark, as its age requires."""
    if not any(row.state == "Measured" for row in draft.status.nodes):
        return
    completed = parse_time(draft.status.completion_time)
    expiry = None if completed is None else add_seconds(completed, spec.expiry_seconds)
    draft.update(expiry_time=None if expiry is None else format_time(expiry))
    if expiry is not None and draft.now >= expiry:
        text = f"The figures are older than {spec.expiry_seconds} s. Create a new NodeBenchmark."
        draft.set("Current", "False", "Expired", text)
    else:
        draft.set("Current", "True", "Measured", "The figures count until status.expiryTime.")


def _next_row(
    row: BenchmarkedNode,
    names: Sequence[str],
    spec: NodeBenchmarkSpec,
    observed: NodesObserved,
    now: datetime,
) -> BenchmarkedNode:
    """Return the next state of a node that is not over."""
    if row.node in observed.kept:
        return _measured(row, names, *observed.kept[row.node], now)
    if row.node in observed.measured:
        return _with_wire(row, observed, now)
    if spec.cancel:
        return _over(row, "Cancelled", "spec.cancel is true.", now)
    if row.state == "Running":
        fault = _fault(row, spec, observed, now)
        words = clip(wait_words(row.node, observed))
        running = row.model_copy(update={"message": words})
        return _over(row, "Failed", fault, now) if fault else running
    if row.node in observed.admitted:
        return row.model_copy(update={"state": "Running", "start_time": format_time(now)})
    return row


def _with_wire(row: BenchmarkedNode, observed: NodesObserved, now: datetime) -> BenchmarkedNode:
    """Return the state of a node whose wire is measured: only its document can be refused."""
    refusal = observed.refused.get(row.node)
    if refusal is not None and refusal.is_final:
        return _over(row, "Failed", refusal.message, now)
    return row.model_copy(
        update={"message": "Its own figures are there. Its wire is measured now."}
    )


def _fault(
    row: BenchmarkedNode, spec: NodeBenchmarkSpec, observed: NodesObserved, now: datetime
) -> str:
    """Return why a node that is measured has failed, empty if it has not."""
    refusal, pod = observed.refused.get(row.node), observed.pods.get(row.node)
    if refusal is not None and refusal.is_final:
        return refusal.message
    if row.node in observed.faults:
        return observed.faults[row.node]
    if pod is not None and phase(pod) == "Failed":
        return end_words(pod)
    started = parse_time(row.start_time)
    is_late = started is not None and now >= add_seconds(started, spec.active_deadline_seconds)
    if is_late and not _has_ended_well(pod):
        why = wait_words(row.node, observed) or row.message
        return f"Not measured within {spec.active_deadline_seconds} s. {why}".strip()
    return ""


def _measured(
    row: BenchmarkedNode,
    names: Sequence[str],
    config_map: str,
    document: NodeCharacteristics,
    now: datetime,
) -> BenchmarkedNode:
    has_peer = document.figure(WIRE_FIGURES[POD_TO_POD][0]) is not None
    return row.model_copy(
        update={
            "state": "Measured",
            "message": "",
            "finish_time": format_time(now),
            "summary": node_summary(document),
            "unavailable": [name[:128] for name in document.unavailable][:32],
            "cautions": [clip(each) for each in document.cautions][:8],
            "config_map": config_map,
            "peer": peer_of(row.node, names) if has_peer else None,
        }
    )


def _over(row: BenchmarkedNode, state: NodeState, why: str, now: datetime) -> BenchmarkedNode:
    update = {"state": state, "message": clip(why), "finish_time": format_time(now)}
    return row.model_copy(update=update)


def _has_ended_well(pod: Json | None) -> bool:
    return pod is not None and phase(pod) == "Succeeded"


def _go_on(draft: NodeBenchmarkDraft, rows: Sequence[BenchmarkedNode]) -> None:
    queued = all(row.state == "Waiting" for row in rows)
    draft.update(phase="Queued" if queued else "Running")
    text = "Nodes wait in the queue of runs." if queued else "Nodes are measured."
    draft.set("Finished", "False", "Running", text)


def _finish(
    spec: NodeBenchmarkSpec, draft: NodeBenchmarkDraft, rows: Sequence[BenchmarkedNode]
) -> None:
    failed = [row for row in rows if row.state == "Failed"]
    cancelled = [row for row in rows if row.state == "Cancelled"]
    measured = len(rows) - len(failed) - len(cancelled)
    if cancelled:
        text = f"spec.cancel is true: {measured} of {len(rows)} nodes were measured."
        draft.end("Failed", "Cancelled", text)
    elif failed:
        names = ", ".join(row.node for row in failed[:_SHOWN_NAMES])
        more = f" and {len(failed) - _SHOWN_NAMES} more" if len(failed) > _SHOWN_NAMES else ""
        text = f"{len(failed)} of {len(rows)} nodes failed: {names}{more}. {failed[0].message}"
        draft.end("Failed", "SomeFailed", text)
    else:
        draft.end("Complete", "Measured", f"Measured: {counted(measured, 'node')}.")
    _retire(spec, draft)


def _display(rows: Sequence[BenchmarkedNode]) -> NodeBenchmarkDisplay:
    counts = {
        "failed": sum(row.state == "Failed" for row in rows),
        "with cautions": sum(bool(row.cautions) for row in rows),
    }
    return NodeBenchmarkDisplay(
        nodes=f"{sum(row.state in OVER for row in rows)}/{len(rows)}",
        problems=", ".join(f"{count} {what}" for what, count in counts.items() if count),
        memory=memory_span(row.summary for row in rows),
    )


def _deletion_time(spec: NodeBenchmarkSpec, status: NodeBenchmarkStatus) -> datetime | None:
    completed = parse_time(status.completion_time)
    if completed is None or not is_true(status, "Finished"):
        return None
    return add_seconds(completed, spec.ttl_seconds_after_finished)


def _is_expired(spec: NodeBenchmarkSpec, draft: NodeBenchmarkDraft) -> bool:
    at = _deletion_time(spec, draft.status)
    return at is not None and draft.now >= at


def _look_again(
    spec: NodeBenchmarkSpec, draft: NodeBenchmarkDraft, rows: Sequence[BenchmarkedNode]
) -> float | None:
    """Return in how many seconds time alone changes the decision."""
    starts = (parse_time(row.start_time) for row in rows if row.state == "Running")
    return seconds_until(
        draft.now,
        *(add_seconds(each, spec.active_deadline_seconds) for each in starts if each is not None),
        parse_time(draft.status.expiry_time),
        _deletion_time(spec, draft.status),
    )


def _target(job: Json) -> DeletionTarget:
    return DeletionTarget("Job", str(job["metadata"]["name"]), str(job["metadata"]["uid"]))
