"""How many connections does a step open to each server, and what has each room for?"""

from dataclasses import dataclass, replace

from inferometer_api.scenarios.step_setting import Closed, Open
from inferometer_api.spec.load import Load
from inferometer_loadgen.schedule.steps import LoadShare, StepPlan


@dataclass(frozen=True, slots=True)
class ConnectionLayout:
    """Connections to each server, and the requests that each may have outstanding."""

    connections: int
    streams: int
    """1 with HTTP, whose connections carry one request at a time."""


def connection_layout(load: Load, loop: Closed | Open, share: LoadShare) -> ConnectionLayout:
    """Return the layout of a step, or of a worker's share of it; `loop` is a worker's own part.

    A closed loop has room for each of its clients at each server, so that none waits: with HTTP
    a connection for each, with gRPC the clients spread evenly over the connections. (A fleet has
    no more workers in a step than clients.) Every other step has `load.connections`, of which
    each worker of a fleet has its part, at least one.
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
    """Return a worker's part of a step: of a closed loop its clients, queries and minimum.

    Its window ends with those of all others, so that every client is at work until then; where the
    number of queries is set, with its last one. An open loop is shared by its schedule, whose
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
    """Whether the windows of so many workers end when their fleet says so: with clients to keep."""
    loop = plan.loop
    return workers > 1 and isinstance(loop, Closed) and loop.total_queries is None
