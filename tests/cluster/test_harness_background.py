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
    """It is up after the command has returned, refuses a second of its name, and goes for good."""
    name = f"tests-local-{os.getpid()}"
    kubeconfig = background.up(name, 1, [])
    try:
        words = ["--kubeconfig", str(kubeconfig), "get", "nodes", "-o", "name"]
        told = subprocess.check_output([str(binary("kubectl")), *words], text=True)
        assert told.strip() == "node/node1"
        with pytest.raises(RuntimeError, match="is up"):
            background.up(name, 1, [])
        slot = homes.slot(name)
    finally:
        assert background.down(name)
    assert traces(name, slot) == []
    assert not background.down(name)


@pytest.mark.usefixtures("nodes_can_run")
def test_what_a_killed_local_cluster_left_is_removed() -> None:
    """Where its process was killed, taking it down removes the files that it left."""
    name = f"tests-local-{os.getpid()}"
    background.up(name, 1, [])
    process, slot = homes.holder(name), homes.slot(name)
    assert process is not None
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: homes.holder(name) is None, "The end of the killed process")
    background.down(name)
    assert traces(name, slot) == []
