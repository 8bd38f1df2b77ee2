"""A server on the load generator's machine is recognized."""

import pytest

from inferometer_api.plan.load_plan import LoadPlan, PlannedAgent, PlannedServer
from inferometer_loadgen.server.servers import Servers
from support.results import a_run


def servers(server: PlannedServer, *agents: PlannedAgent) -> Servers:
    """Return the servers of a plan in a cluster."""
    plan = LoadPlan(
        run=a_run(),
        place="Cluster",
        launched=True,
        servers=[server],
        model_name="resnet50",
        agents=list(agents),
    )
    return Servers(plan)


@pytest.mark.parametrize(
    ("server", "agents"),
    [
        (PlannedServer(url="http://10.0.0.1:8000", node="n1"), ()),
        (PlannedServer(url="http://theirs.team.svc:8000"), (PlannedAgent(url="x", node="n1"),)),
        (PlannedServer(url="http://127.0.0.1:8000"), ()),
    ],
)
def test_a_server_on_the_load_generators_node_is_seen(
    server: PlannedServer, agents: tuple[PlannedAgent, ...]
) -> None:
    """By its pod's node, by the node of its agent where it is behind a Service, or by loopback."""
    assert servers(server, *agents).are_colocated("n1")


def test_a_server_elsewhere_is_not() -> None:
    """And nothing is said where the load generator's own node is not known."""
    theirs = servers(PlannedServer(url="http://10.0.0.1:8000", node="n2"))
    assert not theirs.are_colocated("n1")
    assert not theirs.are_colocated(None)
