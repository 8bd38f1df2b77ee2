"""A pod is found in every layout of control groups, and its usage is read."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_telemetry.cgroups import Cgroups
from inferometer_telemetry.pod_usage import Usage, pod_usage
from support.recorded_node import RecordedNode
from support.recorded_pods import CONTAINER_ID, Layout, QosClass, write

UID = "0f9c2a6e-1f4b-4b7e-9a55-3d1c8e2b7a10"
OTHER = "1f9c2a6e-1f4b-4b7e-9a55-3d1c8e2b7a11"
LATER = 11 * 10**9


def used(node: RecordedNode, uid: str = UID) -> Usage:
    """Return what a pod used."""
    pod = Cgroups(node.cgroup_root).pod(uid, 0)
    assert pod is not None
    return pod_usage(pod)


@pytest.mark.parametrize("below", ["", "kubelet", "inferometer-0/node-1"])
@pytest.mark.parametrize("qos", get_args(QosClass))
@pytest.mark.parametrize("layout", get_args(Layout))
def test_a_pod_is_found_in_every_layout(
    layout: Layout, qos: QosClass, below: str, tmp_path: Path
) -> None:
    """Both drivers, both versions, all classes, below a root of the kubelet's own: its CPU time."""
    node = RecordedNode(tmp_path, layout=layout, below=below)
    node.add_pod(OTHER, qos)
    node.add_pod(UID, qos)
    state = node.pod(UID)
    state.throttled_seconds, state.memory_bytes = 1.5, 300 * 2**20
    node.advance(pods={UID: 12.25, OTHER: 99})
    found = used(node)
    assert found.cpu_microseconds == 12_250_000
    assert found.throttled_microseconds == 1_500_000
    assert found.memory_bytes == 284 * 2**20
    assert found.problems == []


def test_kind_and_minikube_keep_pods_below_slices_of_their_own(tmp_path: Path) -> None:
    """A kubelet with --cgroup-root=/kubelet under systemd names slices after it."""
    folder = tmp_path / "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice"
    pod = folder / f"kubelet-kubepods-burstable-pod{UID.replace('-', '_')}.slice"
    write(tmp_path / "cgroup.controllers", "cpu\n")
    write(pod / "cpu.stat", "usage_usec 5\n")
    found = Cgroups(tmp_path).pod(UID, 0)
    assert found is not None
    assert found.cpuacct == str(pod)


def test_pressure_is_read_where_there_is_any(tmp_path: Path) -> None:
    """Control groups v2 report how long some threads waited; v1 does not, and gives no zero."""
    node = RecordedNode(tmp_path / "v2")
    node.add_pod(UID)
    state = node.pod(UID)
    state.cpu_pressure_seconds, state.memory_pressure_seconds = 0.5, 0.25
    state.io_pressure_seconds = 0.125
    node.advance(pods={UID: 1})
    found = used(node)
    assert found.cpu_pressure_microseconds == 500_000
    assert found.memory_pressure_microseconds == 250_000
    assert found.io_pressure_microseconds == 125_000
    old = RecordedNode(tmp_path / "v1", layout="v1-cgroupfs")
    old.add_pod(UID)
    found = used(old)
    assert found.cpu_pressure_microseconds is None
    assert found.problems == []


@pytest.mark.parametrize("layout", get_args(Layout))
def test_a_pod_without_a_limit_is_never_throttled(layout: Layout, tmp_path: Path) -> None:
    """Where nothing has a CPU limit, throttled time is absent, and no problem."""
    node = RecordedNode(tmp_path, layout=layout)
    node.add_pod(UID, "burstable", is_limited=False)
    found = used(node)
    assert found.throttled_microseconds is None
    assert found.problems == []


def test_a_limit_of_a_container_alone_throttles(tmp_path: Path) -> None:
    """A container's own throttled time counts where the pod as a whole has no limit."""
    node = RecordedNode(tmp_path)
    node.add_pod(UID, "burstable")
    folder = node.pods.folder(node.pod(UID))
    write(folder / "cpu.stat", "usage_usec 1\nnr_periods 0\nthrottled_usec 0\n")
    stat = "usage_usec 1\nnr_periods 3\nthrottled_usec 777\n"
    write(folder / CONTAINER_ID / "cpu.stat", stat)
    assert used(node).throttled_microseconds == 777


def test_a_pod_that_ends_meanwhile_has_problems_and_no_figures(tmp_path: Path) -> None:
    """A group that vanishes between being found and being read gives reasons only."""
    node = RecordedNode(tmp_path)
    node.add_pod(UID)
    pod = Cgroups(node.cgroup_root).pod(UID, 0)
    assert pod is not None
    node.remove_pod(UID)
    found = pod_usage(pod)
    assert found.cpu_microseconds is None
    assert found.memory_bytes is None
    assert "there is no" in found.problems[0]


def test_a_pod_that_begins_later_is_found(tmp_path: Path) -> None:
    """A kubelet's folders that appear after the agent's start are found within ten seconds."""
    write(tmp_path / "sys/fs/cgroup/cgroup.controllers", "cpu\n")
    cgroups = Cgroups(tmp_path / "sys/fs/cgroup")
    assert cgroups.pod(UID, 0) is None
    node = RecordedNode(tmp_path)
    node.add_pod(UID)
    assert cgroups.pod(UID, 1) is None
    assert cgroups.pod(UID, LATER) is not None
    node.add_pod(OTHER)
    assert cgroups.pod(OTHER, LATER + 1) is not None


def test_a_root_without_control_groups_has_no_pods(tmp_path: Path) -> None:
    """An empty root differs from a pod that is not there."""
    cgroups = Cgroups(tmp_path)
    assert cgroups.hierarchies() is None
    assert cgroups.pod(UID, 0) is None


NAMES = ("cpu.stat", "memory.current", "memory.stat", "cpu.pressure")


@given(name=st.sampled_from(NAMES), content=st.one_of(st.binary(max_size=60), st.text()))
def test_garbage_is_never_a_crash_nor_a_zero(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes | str
) -> None:
    """Whatever one file says, every figure is absent or a number that the file can mean."""
    node = RecordedNode(tmp_path_factory.mktemp("garbage"))
    node.add_pod(UID)
    node.advance(pods={UID: 3})
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    (node.pods.folder(node.pod(UID)) / name).write_bytes(data)
    found = used(node)
    assert found.cpu_microseconds == (None if name == "cpu.stat" else 3_000_000)
    if name in {"memory.current", "memory.stat"}:
        assert found.memory_bytes is None or name == "memory.current"
