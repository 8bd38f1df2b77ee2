"""The Prometheus operator's API accepts the objects that the charts render for it."""

import json

import pytest

from support.agent_chart import agents
from support.chart import Json, of_kind, rendered
from support.cluster.control_plane import ControlPlane
from support.prometheus_operator import definitions

MONITORED: Json = {
    "metrics": {
        "serviceMonitor": {"create": True, "interval": "30s", "labels": {"release": "stack"}},
        "podMonitor": {"create": True, "interval": "500ms", "labels": {"release": "stack"}},
    },
    "rules": {"create": True, "labels": {"release": "stack"}},
}


@pytest.fixture(scope="module")
def definitions_served(api_server: ControlPlane) -> None:
    """Install the Prometheus operator's definitions."""
    for file in definitions():
        api_server.kubectl("apply", "--server-side", "-f", str(file))
        api_server.wait_until_established("-f", str(file))


@pytest.mark.usefixtures("definitions_served")
@pytest.mark.parametrize("mode", ["Namespaced", "Cluster"])
@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor", "PrometheusRule"])
def test_monitors_and_rules_are_taken(
    api_server: ControlPlane, namespace: str, kind: str, mode: str
) -> None:
    """The real definitions take each object, with no unknown field and the user's labels."""
    (made,) = of_kind(rendered(MONITORED | {"mode": mode}), kind)
    taken(api_server, namespace, made)


@pytest.mark.usefixtures("definitions_served")
def test_the_agents_monitor_is_taken(api_server: ControlPlane, namespace: str) -> None:
    """The same holds for the chart of the node agent."""
    monitor = MONITORED["metrics"]["podMonitor"]
    (made,) = of_kind(agents({"metrics": {"podMonitor": monitor}}), "PodMonitor")
    taken(api_server, namespace, made)


def taken(api_server: ControlPlane, namespace: str, made: Json) -> None:
    """Assert that the API server would create the object, which carries the user's label."""
    assert made["metadata"]["labels"]["release"] == "stack"
    made["metadata"]["namespace"] = namespace
    words = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
    assert "created" in api_server.kubectl(*words, stdin=json.dumps(made))
