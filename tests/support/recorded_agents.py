"""Lets the agent of a real node read a recorded machine, which has every source.

The chart's own DaemonSet, whose pods are given the recorded tree as a host path: energy, sensors,
GPUs, control groups with pressure are there on every machine that the tests run on.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inferometer_api.results.agent_sample import AGENT_PORT
from support.cluster.cluster import Cluster
from support.recorded_gpus import SW_POWER_CAP, RecordedGpu
from support.recorded_node import RecordedNode

_AGENT = "daemonset/inferometer-agent"
_AT = "/recorded"


class RecordedMachine:
    """A node with packages, memory, sensors and a GPU, on which pods of a namespace run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._node = RecordedNode(root)
        self._gpu = RecordedGpu.make(root / "nvml")
        self._pods: set[str] = set()
        self._steps = 0

    def go_on(self, pods: list[str], seconds: float) -> None:
        """Let these pods (by UID) and the rest of the machine work for so long."""
        for uid in set(pods) - self._pods:
            self._pods.add(uid)
            self._node.add_pod(uid)
        for uid in self._pods:
            self._node.pod(uid).throttled_seconds += 0.01 * seconds
            self._node.pod(uid).cpu_pressure_seconds += 0.02 * seconds
        self._steps += 1
        self._node.advance(
            joules={"package-0": 40 * seconds, "package-0-dram": 5 * seconds},
            busy_seconds=2 * seconds,
            steal_seconds=0.01 * seconds,
            pods=dict.fromkeys(self._pods, seconds / max(1, len(self._pods))),
        )
        self._gpu.energy(5_000_000 + round(self._steps * seconds * 80_000))
        self._gpu.power(80_000)
        self._gpu.utilization(40)
        self._gpu.report("nvmlDeviceGetCurrentClocksEventReasons", SW_POWER_CAP)


@contextmanager
def recorded_agents(cluster: Cluster, namespace: str, root: Path) -> Iterator[RecordedMachine]:
    """Have the agent that is installed in a namespace read a recorded machine; of one node."""
    machine = RecordedMachine(root)
    pod = "/spec/template/spec"
    volume = {"name": "recorded", "hostPath": {"path": str(root), "type": "Directory"}}
    mount = {"name": "recorded", "mountPath": _AT, "readOnly": True}
    roots = ("sys", "proc", "nvml")
    arguments = [
        "--host=0.0.0.0",
        f"--port={AGENT_PORT}",
        f"--cgroup-root={_AT}/sys/fs/cgroup",
        *(f"--{name}-root={_AT}/{name}" for name in roots),
    ]
    changes = [
        {"op": "add", "path": f"{pod}/volumes/-", "value": volume},
        {"op": "add", "path": f"{pod}/containers/0/volumeMounts/-", "value": mount},
        {"op": "replace", "path": f"{pod}/containers/0/args", "value": arguments},
    ]
    words = ("--namespace", namespace)
    cluster.kubectl("patch", _AGENT, *words, "--type=json", "--patch", json.dumps(changes))
    cluster.kubectl("rollout", "status", _AGENT, *words, "--timeout=120s")
    yield machine
