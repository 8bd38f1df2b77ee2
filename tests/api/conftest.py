"""What do the tests against a real API server share: the server, and a namespace each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.control_plane import ControlPlane
from support.cluster.namespaces import fresh_namespace


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run one etcd, API server and controller-manager on loopback for all tests."""
    folder: Path = tmp_path_factory.mktemp("control-plane")
    control_plane = ControlPlane(folder)
    yield control_plane
    control_plane.stop()


@pytest.fixture
def namespace(api_server: ControlPlane) -> Iterator[str]:
    """Make a namespace of the test's own, in which only restricted pods are admitted."""
    with fresh_namespace(api_server) as name:
        yield name
