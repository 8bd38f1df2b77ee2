"""Fixtures of the tests on real nodes: one cluster for all, one of two nodes, a namespace each."""

import os
from collections.abc import Iterator

import pytest

from support.cluster.availability import why_no_nodes
from support.cluster.cluster import Cluster
from support.cluster.images import images
from support.cluster.namespaces import fresh_namespace
from support.requirements import cannot_run


@pytest.fixture(scope="session")
def nodes_can_run() -> None:
    """Skip the test with a reason if this machine cannot run nodes."""
    why_not = why_no_nodes()
    if why_not is not None:
        cannot_run(why_not)


@pytest.fixture(scope="session")
def cluster(nodes_can_run: None) -> Iterator[Cluster]:
    """Run a cluster of one node with the project's images, shared by all tests."""
    cluster = Cluster(f"tests-{os.getpid()}", images=images())
    yield cluster
    cluster.stop()


@pytest.fixture
def two_nodes(nodes_can_run: None) -> Iterator[Cluster]:
    """Run a cluster of two nodes, either of which the test may kill."""
    cluster = Cluster(f"tests-two-{os.getpid()}", nodes=2, images=images())
    yield cluster
    cluster.stop()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Create a namespace for one test that admits only restricted pods."""
    with fresh_namespace(cluster) as name:
        yield name
