"""A plan names the node agents of its servers, and says why one is missing."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_operator.reconcile.observed import EndpointList
from inferometer_operator.settings import Agents
from support.cluster_objects import Object, bound, endpoint, endpoint_slice, server_pod
from support.condition_rows import a_cluster, external
from support.pretend_api import stored
from support.pretend_cluster import SETTINGS, PretendCluster
from support.runs import an_external_run

SETTLED = SETTINGS.model_copy(update={"agent": Agents(namespace="metering")})
IPV6: dict[str, Any] = {"addressType": "IPv6"}


def metered(*slices: Object, replicas: int = 1, refusal: str = "") -> PretendCluster:
    """Return a cluster with these agents whose server pods are bound, each to its own node."""
    cluster = a_cluster({"server": {"replicas": replicas}}, settings=SETTLED)
    cluster.agents = EndpointList(slices, refusal)
    return cluster.settle().schedule(replicas)


def list_agents(*endpoints: Object, **members: Any) -> Object:
    """Return a slice of the agents' Service."""
    return endpoint_slice("inferometer-agent", *endpoints, **members)


def plan_of(cluster: PretendCluster) -> LoadPlan:
    """Return the plan that was made."""
    held = cluster.children["ConfigMap/a-run-load"]
    return LoadPlan.model_validate_json(held["data"]["plan.json"])


def requests(cluster: PretendCluster) -> list[tuple[str, str, list[str]]]:
    """Return what the plan says of agents: URL, node, pods."""
    return [(each.url, each.node, each.pod_uids) for each in plan_of(cluster).agents]


def test_each_node_of_a_server_has_its_agent() -> None:
    """Pods of one node share one agent; agents of other nodes are left out."""
    cluster = a_cluster({"server": {"replicas": 3}}, settings=SETTLED)
    cluster.agents = EndpointList(
        (
            list_agents(endpoint("node2", "10.1.0.2"), endpoint("node9", "10.1.0.9")),
            list_agents(endpoint("node1", "10.1.0.1")),
        )
    )
    cluster.settle().schedule(2)
    third = cluster.pods["a-run-server-2"]
    third = {**third, "metadata": {**third["metadata"], "name": "a-run-server-3", "uid": "third"}}
    cluster.pods["a-run-server-3"] = third
    cluster.settle()
    assert requests(cluster) == [
        ("http://10.1.0.1:9465", "node1", ["uid-of-a-run-server-1"]),
        ("http://10.1.0.2:9465", "node2", ["uid-of-a-run-server-2", "third"]),
    ]
    assert plan_of(cluster).energy_unavailable_reason == ""
    assert cluster.status()["nodes"] == ["node1", "node2"]


@pytest.mark.parametrize(
    ("slices", "url"),
    [
        ([list_agents(endpoint("node1", "10.1.0.1", ready=None))], "http://10.1.0.1:9465"),
        ([list_agents(endpoint("node1", "fd00::1"), **IPV6)], "http://[fd00::1]:9465"),
        (
            [
                list_agents(endpoint("node1", "fd00::1"), **IPV6),
                list_agents(endpoint("node1", "10.1.0.1")),
            ],
            "http://10.1.0.1:9465",
        ),
        (
            [
                list_agents(
                    endpoint("node1", "10.1.0.1", ready=False, terminating=True),
                    endpoint("node1", "10.1.0.2", ready=False),
                    endpoint("node1", "10.1.0.3"),
                )
            ],
            "http://10.1.0.3:9465",
        ),
        (
            [list_agents(endpoint("node1", "10.1.0.1"), ports=[{"name": "web", "port": 1}])],
            "http://10.1.0.1:1",
        ),
        (
            [
                list_agents(
                    endpoint("node1", "10.1.0.1"),
                    ports=[
                        {"name": "http", "port": 1, "protocol": "UDP"},
                        {"name": "other", "port": 2, "protocol": "TCP"},
                        {"name": "http", "port": 3, "protocol": "TCP"},
                    ],
                )
            ],
            "http://10.1.0.1:3",
        ),
    ],
    ids=["readiness unknown", "ipv6", "both families", "being replaced", "only port", "its port"],
)
def test_an_agent_is_polled_at_the_address_of_its_endpoint(
    slices: Sequence[Object], url: str
) -> None:
    """At the address of the servers' family, at the port named http, or at the only one."""
    cluster = metered(*slices)
    assert [each[0] for each in requests(cluster)] == [url]
    assert plan_of(cluster).energy_unavailable_reason == ""


def test_the_agents_address_has_the_servers_family() -> None:
    """The load generator reaches the server by it, so that it reaches the agent too."""
    cluster = a_cluster(settings=SETTLED)
    both = (
        list_agents(endpoint("node1", "10.1.0.1")),
        list_agents(endpoint("node1", "fd00::1"), **IPV6),
    )
    cluster.agents = EndpointList(both)
    cluster.settle()
    cluster.pods["a-run-server-1"] = bound(server_pod(cluster.run), "node1", "fd00::7")
    cluster.settle()
    assert [each[0] for each in requests(cluster)] == ["http://[fd00::1]:9465"]


@pytest.mark.parametrize(
    ("slices", "refusal", "words"),
    [
        ([], "", ["no node agents", "inferometer-agent in the namespace metering", "install"]),
        ([list_agents()], "", ["no node agents"]),
        (
            [],
            'endpointslices is forbidden: "x"',
            ["could not be listed", "forbidden", "the value operators"],
        ),
        (
            [list_agents(endpoint("node7", "10.1.0.7"))],
            "",
            ["No node agent is ready on node1", "--namespace metering"],
        ),
        (
            [list_agents(endpoint("node1", "10.1.0.1"), ports=[{"port": 1}, {"port": 2}])],
            "",
            ["node1 have no port", "named http"],
        ),
        ([list_agents(endpoint("node1", "10.1.0.1"), ports=[{"name": "http"}])], "", ["no port"]),
        ([list_agents(endpoint("node1", "a.test"), addressType="FQDN")], "", ["no node agents"]),
    ],
    ids=["none", "no endpoints", "refused", "elsewhere", "two ports", "any port", "a name"],
)
def test_missing_energy_is_explained_and_delays_nothing(
    slices: Sequence[Object], refusal: str, words: Sequence[str]
) -> None:
    """The plan is made in the same look, with why there is no energy and what to do."""
    cluster = metered(*slices, refusal=refusal)
    assert cluster.jobs_made == 1
    assert requests(cluster) == []
    reason = plan_of(cluster).energy_unavailable_reason
    assert all(word in reason for word in words), reason
    assert not reason.endswith(".")


def test_a_cluster_without_agents_says_so() -> None:
    """The plan says what the admin can install."""
    cluster = a_cluster().settle().schedule()
    assert "admin can install the chart inferometer-agent" in (
        plan_of(cluster).energy_unavailable_reason
    )


def test_nodes_without_agents_are_named_and_the_others_are_measured() -> None:
    """Use is known of some servers, energy is not: four nodes are named, the rest is counted."""
    cluster = metered(list_agents(endpoint("node3", "10.1.0.3")), replicas=8)
    assert [each[1] for each in requests(cluster)] == ["node3"]
    assert (
        "ready on node1, node2, node4, node5 and 3 more:"
        in plan_of(cluster).energy_unavailable_reason
    )


def test_four_nodes_without_agents_are_all_named() -> None:
    """Nothing is left to count."""
    cluster = metered(list_agents(endpoint("node3", "10.1.0.3")), replicas=5)
    reason = plan_of(cluster).energy_unavailable_reason
    assert "ready on node1, node2, node4, node5:" in reason


def test_an_agent_that_starts_is_waited_for_while_the_server_starts() -> None:
    """On a new node both come at once: it is seen every two seconds, for a quarter of a minute."""
    starts = list_agents(endpoint("node1", "10.1.0.1", ready=False))
    ready = list_agents(endpoint("node1", "10.1.0.1"))
    cluster = metered(starts)
    assert cluster.jobs_made == 0
    assert cluster.decided().look_again_seconds == pytest.approx(2.0)
    cluster.agents = EndpointList((ready,))
    assert cluster.later(2).jobs_made == 1
    assert plan_of(cluster).energy_unavailable_reason == ""
    late, ready_first = metered(starts).later(15), metered(starts).start_server()
    for without_conditions in (late, ready_first):
        assert without_conditions.jobs_made == 1
        assert (
            "No node agent is ready on node1"
            in plan_of(without_conditions).energy_unavailable_reason
        )


def behind(*endpoints: Object, pods: Iterable[tuple[str, str]] = ()) -> PretendCluster:
    """Return a cluster whose External server's Service has these endpoints, and these its pods."""
    cluster = external()
    cluster.settings = SETTLED
    cluster.service = {"spec": {"selector": {"app": "theirs"}}}
    cluster.agents = EndpointList(
        (list_agents(*(endpoint(f"node{n}", f"10.1.0.{n}") for n in (1, 2, 3))),)
    )
    slices = (endpoint_slice("theirs", *endpoints),)
    cluster.behind_service = EndpointList(slices, pods=frozenset(pods))
    return cluster.settle()


def at(node: str | None, uid: str, **members: Any) -> Object:
    """Return an endpoint that is a pod of the run's namespace."""
    pod = {"namespace": "team", "name": "theirs", "uid": uid}
    return endpoint(node, f"10.2.0.{ord(uid[0])}", pod=pod, **members)


def test_an_external_servers_pods_are_found_behind_its_service() -> None:
    """Ready or not, and never one that ends; a pod of two addresses is one."""
    cluster = behind(
        at("node2", "b"),
        at("node2", "a", ready=False),
        at("node1", "c"),
        at("node1", "c"),
        at("node3", "e", terminating=True),
        pods=[("node2", "a"), ("node2", "b"), ("node1", "c"), ("node3", "e"), ("node3", "other")],
    )
    assert requests(cluster) == [
        ("http://10.1.0.1:9465", "node1", ["c"]),
        ("http://10.1.0.2:9465", "node2", ["a", "b"]),
    ]
    assert plan_of(cluster).energy_unavailable_reason == ""
    assert cluster.status()["nodes"] == ["node1", "node2"]
    measured = cluster.start_load().measure()
    measured.behind_service = None
    assert measured.settle().status()["nodes"] == ["node1", "node2"]


_UNKNOWN = [
    endpoint("node3", "10.2.0.6"),
    at(None, "x"),
    at("node3", "x"),
    at("node2", "c"),
    endpoint("node1", "10.2.0.7", pod={"kind": "Node", "uid": "c"}),
]


@pytest.mark.parametrize(
    "unknown", _UNKNOWN, ids=["no pod", "no node", "no such pod", "other node", "no Pod"]
)
def test_unknown_endpoints_of_an_external_server_are_reported(unknown: Object) -> None:
    """Load goes there too: what an author's slices say of foreign pods or nodes is not believed."""
    cluster = behind(at("node1", "c"), unknown, pods=[("node1", "c")])
    assert requests(cluster) == [("http://10.1.0.1:9465", "node1", ["c"])]
    assert "1 endpoint behind the Service theirs is not among the pods of the namespace team" in (
        plan_of(cluster).energy_unavailable_reason
    )
    assert cluster.status()["nodes"] == ["node1"]


def test_endpoints_that_are_not_known_are_counted() -> None:
    """The reason lists them after the nodes without an agent."""
    cluster = behind(at("node9", "c"), *_UNKNOWN[:2], pods=[("node9", "c")])
    reason = plan_of(cluster).energy_unavailable_reason
    assert "No node agent is ready on node9" in reason
    assert "; 2 endpoints behind the Service theirs are not among" in reason


@pytest.mark.parametrize("count", [64, 65])
def test_an_agent_gets_no_more_pods_than_it_can_measure(count: int) -> None:
    """It would refuse; a part of them would look like the whole."""
    uids = [f"{number:03}" for number in range(count)]
    pods = [at("node1", uid) for uid in uids]
    cluster = behind(*pods, at("node2", "b"), pods=[("node2", "b"), *(("node1", u) for u in uids)])
    fits = count == 64
    whole = [("http://10.1.0.1:9465", "node1", uids)] if fits else []
    assert requests(cluster) == [*whole, ("http://10.1.0.2:9465", "node2", ["b"])]
    words = "The node agent on node1 measures 64 pods at a time, and the Service theirs has 65"
    assert (words in plan_of(cluster).energy_unavailable_reason) is not fits


def test_unlisted_agents_are_not_reported_as_missing() -> None:
    """The setting names their namespace: that is not what the admin has to mend."""
    cluster = a_cluster(settings=SETTLED).settle().schedule()
    assert plan_of(cluster).energy_unavailable_reason.startswith(
        "The node agents were not listed before"
    )


def test_an_external_server_without_pods_is_not_metered() -> None:
    """Its endpoints may be anywhere."""
    cluster = behind(endpoint(None, "192.0.2.1"))
    assert "Service theirs has no pods" in plan_of(cluster).energy_unavailable_reason
    assert "nodes" not in cluster.status()


def test_a_service_whose_pods_cannot_be_listed_is_reported() -> None:
    """With the API server's words."""
    cluster = external()
    cluster.settings = SETTLED
    cluster.service = {"spec": {"selector": {"app": "theirs"}}}
    cluster.behind_service = EndpointList(refusal="endpointslices is forbidden")
    reason = plan_of(cluster.settle()).energy_unavailable_reason
    assert reason.endswith("theirs could not be listed: endpointslices is forbidden")


def test_an_external_server_by_url_is_not_metered() -> None:
    """Its node is unknown."""
    spec = {"runtime": "External", "external": {"url": "http://models.test:80"}}
    settings = SETTLED.model_copy(update={"external_allow_list": ["models.test"]})
    cluster = PretendCluster(run=stored(an_external_run(server=spec)), settings=settings)
    assert "has a URL" in plan_of(cluster.settle()).energy_unavailable_reason


def test_nodes_are_recorded_without_a_write_of_their_own() -> None:
    """A status costs a write: nodes come with the news of the load generator."""
    metering, plain = metered(list_agents(endpoint("node1", "10.1.0.1"))), a_cluster()
    plain.settle().schedule()
    assert metering.writes == plain.writes
    assert metering.status()["nodes"] == ["node1"]


def test_more_nodes_than_a_status_takes_are_cut() -> None:
    """64 servers may be on 64 nodes."""
    cluster = metered(replicas=20)
    assert len(cluster.status()["nodes"]) == 16
