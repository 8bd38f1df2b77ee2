"""Launched servers of others on real nodes: MLServer by its image, Custom by the admin's entry."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster.cluster import Cluster
from support.cluster.images import images
from support.cluster.stack_images import MLSERVER, digest_of, mlserver_image
from support.node_runs import condition, make_run, status, wait_for
from support.operator_installed import operator_installed

_SERVING = "docker.io/library/inferometer-serving"
_RESOURCES = {"resources": {"cpu": "500m", "memory": "1Gi"}}


@pytest.fixture(scope="module")
def cluster(nodes_can_run: None) -> Iterator[Cluster]:
    """Run a cluster whose nodes have the images of the servers."""
    made = Cluster(f"tests-stacks-{os.getpid()}", images=images())
    try:
        made.import_image(mlserver_image())
        (serving,) = images(["inferometer-serving"])
        made.import_image(serving, by_digest=_SERVING)
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    """Install an operator that knows MLServer's image, and allows one server by its digest."""
    (serving,) = images(["inferometer-serving"])
    command = ["python3", "-m", "inferometer_serving", "--host", "0.0.0.0"]  # noqa: S104 - a pod's
    arguments = {
        "--model": "{modelPath}",
        "--model-name": "{modelName}",
        "--threads": "{threads}",
        "--http-port": "{httpPort}",
        "--grpc-port": "{grpcPort}",
    }
    values: dict[str, Any] = {
        "images": {"servers": {"mlserver": MLSERVER}},
        "load": {"resources": {"cpu": "50m", "memory": "256Mi"}},
        "allowedServers": {
            "theirs": {
                "image": f"{_SERVING}@{digest_of(serving)}",
                "command": [*command, *(word for pair in arguments.items() for word in pair)],
                "httpPort": 9000,
                "grpcPort": 9001,
            }
        },
    }
    with operator_installed(cluster, "stacks", values) as name:
        yield name


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
@pytest.mark.parametrize(
    "server",
    [
        {"runtime": "MLServer"},
        {"runtime": "Custom", "custom": {"name": "theirs"}},
    ],
    ids=lambda server: server["runtime"],
)
def test_a_launched_server_is_measured(
    cluster: Cluster, namespace: str, server: dict[str, Any], protocol: str
) -> None:
    """The restricted pod starts, answers, and is measured without errors."""
    run = f"{server['runtime']}-{protocol}".lower()
    make_run(cluster, namespace, run, server=server | _RESOURCES, load={"protocol": protocol})
    wait_for(cluster, namespace, run, "Complete")
    (scenario,) = status(cluster, namespace, run)["scenarios"]
    assert scenario["name"] == "one"
    assert condition(cluster, namespace, run, "Complete")["reason"] == "Measured"
    assert not any("error" in each.lower() for each in scenario.get("reasons", ()))


def test_a_server_that_the_admin_does_not_allow_is_refused(
    cluster: Cluster, namespace: str
) -> None:
    """The condition lists what is allowed."""
    server = {"runtime": "Custom", "custom": {"name": "mine"}}
    make_run(cluster, namespace, "mine", server=server)
    wait_for(cluster, namespace, "mine", "Failed")
    accepted = condition(cluster, namespace, "mine", "Accepted")
    assert accepted["reason"] == "NotAllowed"
    assert "allowedServers: theirs" in accepted["message"]
