"""A local cluster outlives the command that started it, and goes down without a trace."""

import os
import signal
import subprocess

import pytest

from support.cluster import background, homes
from support.cluster.binaries import binary
from support.cluster.traces import traces
from support.waiting import wait_until


@pytest.mark.usefixtures("nodes_can_run")
def test_a_local_cluster_goes_up_and_down() -> None:
    """It stays up after the command, refuses a second one of its name, and leaves no trace."""
    name = f"tests-local-{os.getpid()}"
    kubeconfig = background.up(name, 1, [])
    try:
        words = ["--kubeconfig", str(kubeconfig), "get", "nodes", "-o", "name"]
        nodes = subprocess.check_output([str(binary("kubectl")), *words], text=True)
        assert nodes.strip() == "node/node1"
        with pytest.raises(RuntimeError, match="is up"):
            background.up(name, 1, [])
        slot = homes.slot(name)
    finally:
        assert background.down(name)
    assert traces(name, slot) == []
    assert not background.down(name)


@pytest.mark.usefixtures("nodes_can_run")
def test_what_a_killed_local_cluster_left_is_removed() -> None:
    """Taking a cluster down removes its files even if its process was killed."""
    name = f"tests-local-{os.getpid()}"
    background.up(name, 1, [])
    process, slot = homes.holder(name), homes.slot(name)
    assert process is not None
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: homes.holder(name) is None, "The end of the killed process")
    background.down(name)
    assert traces(name, slot) == []
