"""Connections of a step to each server, and each worker's part of the step."""

from dataclasses import dataclass, replace

from inferometer_api.scenarios.step_setting import Closed, Open
from inferometer_api.spec.load import Load
from inferometer_loadgen.schedule.steps import LoadShare, StepPlan


@dataclass(frozen=True, slots=True)
class ConnectionLayout:
    """Number of connections to each server, and of outstanding requests on each."""

    connections: int
    streams: int
    """1 with HTTP: a connection carries one request at a time."""


def connection_layout(load: Load, loop: Closed | Open, share: LoadShare) -> ConnectionLayout:
    """Return the layout of a step, or of a worker's share of it; `loop` is that worker's part.

    A closed loop has room for each of its clients at each server, so that none waits: one HTTP
    connection per client, or gRPC streams spread evenly over the connections. (A step has at most
    one worker per client.) Other steps have `load.connections`, of which each worker of a fleet has
    its share, at least one.
    """
    connections = max(1, share.of(load.connections))
    streams = load.streams_per_connection if load.protocol == "GRPC" else 1
    if not isinstance(loop, Closed) or loop.clients is None:
        return ConnectionLayout(connections, streams)
    if load.protocol == "HTTP":
        return ConnectionLayout(loop.clients, 1)
    connections = min(connections, loop.clients)
    return ConnectionLayout(connections, -(-loop.clients // connections))


def worker_part(plan: StepPlan, share: LoadShare) -> StepPlan:
    """Return a worker's part of a step: its clients, queries and minimum in a closed loop.

    All windows of a closed loop end together, so that every client works until then; with a fixed
    number of queries, each ends with its last one. An open loop is divided by its schedule, whose
    window is the same for all.
    """
    if not isinstance(plan.loop, Closed):
        return plan
    closed = plan.loop
    total = None if closed.total_queries is None else share.of(closed.total_queries)
    if closed.clients is None:
        clients, least = None, share.of(plan.min_queries)
    else:
        clients = share.of(closed.clients)
        least = -(-plan.min_queries * clients // closed.clients)
    loop = Closed(clients=clients, total_queries=total)
    together = ends_together(plan, share.workers)
    return replace(plan, loop=loop, min_queries=least, ends_with_fleet=together)


def ends_together(plan: StepPlan, workers: int) -> bool:
    """Return whether the windows of these workers end by order of the fleet."""
    loop = plan.loop
    return workers > 1 and isinstance(loop, Closed) and loop.total_queries is None
