"""The wire of a node: to itself, and from its pod to a pod on another node of the NodeBenchmark."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from inferometer_api.nodes.benchmark import BenchmarkedNode, NodeBenchmarkSpec
from inferometer_api.nodes.wire_rates import POD_TO_POD, WIRE_FIGURES, is_selected
from inferometer_api.plan.cluster_objects import WIRE_CLIENT, peer_key, wire_key
from inferometer_api.timestamps import parse_time
from inferometer_operator.reconcile.child_faults import has_ended
from inferometer_operator.reconcile.nodes.observed import NodesObserved, end_words, wait_words
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.pods import address, containers, is_over, last_end, phase
from inferometer_operator.reconcile.times import add_seconds

PEER_SECONDS = 120
"""How long the other node may take to have the server."""
WIRE_SECONDS = 180
"""How long the client may take, its image included."""


@dataclass(frozen=True, slots=True)
class WireStep:
    """What to do now for the wire of a node."""

    create: Literal["peer", "wire"] | None = None
    """The Job to create: that of the server on the other node, or that of the client."""
    peer_address: str = ""
    """The address of the server on the other node."""
    no_peer: str = ""
    """Why there is none, although one is wanted, as a clause."""
    read: bool = False
    """Whether the client has ended well: its log holds the figures."""
    failure: str = ""
    """Why there are no figures, as a clause."""
    look_again_seconds: float | None = None


def measures_wire(spec: NodeBenchmarkSpec) -> bool:
    """Return whether a NodeBenchmark has anything of the wire to measure."""
    return any(is_selected(each, spec.only) for each in WIRE_FIGURES)


def job_keys(node: str) -> tuple[str, str, str]:
    """Return the keys of all Jobs that a node is measured by."""
    return node, wire_key(node), peer_key(node)


def peer_of(node: str, names: Sequence[str]) -> str | None:
    """Return the node that the wire of a node is measured to: the next one, None if there is none.

    Each node is so measured from once, and to once.
    """
    other = names[(names.index(node) + 1) % len(names)]
    return None if other == node else other


def startable(rows: Sequence[BenchmarkedNode], spec: NodeBenchmarkSpec) -> list[str]:
    """Return the waiting nodes that can be measured next to those that are.

    One that is measured to is not measured itself, nor measured to by two at a time.
    """
    waiting = [row.node for row in rows if row.state == "Waiting"]
    if not is_selected(POD_TO_POD, spec.only):
        return waiting
    names = [row.node for row in rows]
    busy = {each for row in rows if row.state == "Running" for each in _places(row.node, names)}
    found = []
    for node in waiting:
        places = set(_places(node, names))
        if not places & busy:
            found.append(node)
            busy |= places
    return found


def _places(node: str, names: Sequence[str]) -> Iterator[str]:
    yield node
    peer = peer_of(node, names)
    if peer is not None:
        yield peer


def wire_step(
    spec: NodeBenchmarkSpec,
    node: str,
    names: Sequence[str],
    observed: NodesObserved,
    now: datetime,
) -> WireStep:
    """Return what to do now for the wire of a node whose own figures are there."""
    own = wire_key(node)
    if spec.cancel:
        return WireStep(failure="spec.cancel is true")
    if own in observed.jobs:
        return _client_step(observed.jobs[own], own, observed, now)
    if own in observed.refused:
        return WireStep(failure=_clause(wait_words(own, observed)))
    if not is_selected(POD_TO_POD, spec.only):
        return WireStep("wire")
    return _peer_step(node, names, observed, now)


def _peer_step(node: str, names: Sequence[str], observed: NodesObserved, now: datetime) -> WireStep:
    peer, key = peer_of(node, names), peer_key(node)
    if peer is None:
        why = "only one node matches, so that there is no other to measure to"
        return WireStep("wire", no_peer=why)
    pod, job = observed.pods.get(key), observed.jobs.get(key)
    if pod is not None and phase(pod) == "Running" and address(pod):
        return WireStep("wire", peer_address=address(pod))
    if fault := _peer_fault(peer, key, observed, now):
        return WireStep("wire", no_peer=fault)
    if job is None:
        return WireStep("peer")
    return WireStep(look_again_seconds=_seconds_left(job, PEER_SECONDS, now))


def _peer_fault(peer: str, key: str, observed: NodesObserved, now: datetime) -> str:
    """Return why the other node has no server, as a clause; empty while it may get one."""
    pod, job = observed.pods.get(key), observed.jobs.get(key)
    if pod is not None and is_over(pod):
        return _clause(f"on {peer}: {end_words(pod)}")
    if key in observed.refused:
        return _clause(wait_words(key, observed))
    if job is not None and _seconds_left(job, PEER_SECONDS, now) <= 0:
        words = f"no pod ran on {peer} within {PEER_SECONDS} s. {wait_words(key, observed)}"
        return _clause(words)
    return ""


def _client_step(job: Json, key: str, observed: NodesObserved, now: datetime) -> WireStep:
    pod = observed.pods.get(key)
    end = None if pod is None else last_end(_client(pod))
    if end is not None and end.code == 0:
        return WireStep(read=True)
    if pod is not None and (end is not None or is_over(pod)):
        return WireStep(failure=_clause(end_words(pod)))
    left = _seconds_left(job, WIRE_SECONDS, now)
    if left <= 0 or has_ended(job):
        words = f"it took more than {WIRE_SECONDS} s. {wait_words(key, observed)}"
        return WireStep(failure=_clause(words))
    return WireStep(look_again_seconds=left)


def _client(pod: Json) -> Json:
    found = (each for each, _ in containers(pod) if each.get("name") == WIRE_CLIENT)
    return next(found, {})


def _seconds_left(job: Json, most_seconds: int, now: datetime) -> float:
    created = parse_time(job["metadata"].get("creationTimestamp"))
    if created is None:
        return most_seconds
    return (add_seconds(created, most_seconds) - now).total_seconds()


def _clause(words: str) -> str:
    return words.strip().rstrip(".")
