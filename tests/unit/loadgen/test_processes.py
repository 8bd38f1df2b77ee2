"""Snapshots of /proc: which processes used the CPUs, without those of the run."""

import os
import socket
from pathlib import Path

import pytest

from inferometer_api.plan.load_plan import LoadPlan, PlannedAgent
from inferometer_api.results.result import NodeSample, NodeTelemetry, OtherLoad, ProcessLoad
from inferometer_loadgen.client.processes import (
    MachineSnapshot,
    ProcessTimes,
    other_load,
    read_machine,
)
from inferometer_loadgen.run.other_load import listeners, other_loads, scope_of
from support.load_runs import a_plan

SECOND = 1_000_000_000
STAT = "{pid} ({name}) R {parent} 0 0 0 0 0 0 0 0 0 {own} 0 {reaped} 0 20 0 1 0 {started} 0 0"


def a_snapshot(seconds: int, busy: int, **processes: tuple[int, int, int, int]) -> MachineSnapshot:
    """Return a snapshot with processes p1, p2, ...: parent, start, own and reaped ticks."""
    return MachineSnapshot(
        at_ns=seconds * SECOND,
        cpu_count=2,
        busy=busy,
        processes={
            int(name[1:]): ProcessTimes("work" if name != "p9" else "idle", *times)
            for name, times in processes.items()
        },
    )


def used(before: MachineSnapshot, after: MachineSnapshot, root: int) -> OtherLoad:
    """Return the CPU use of all but a process and its descendants."""
    return other_load(before, after, before.family_of(root) | after.family_of(root), Path("/none"))


def test_the_run_and_its_descendants_are_not_others() -> None:
    """Of 18 busy seconds in 10 s, 7 are the run's: a child's and an ended grandchild's included."""
    before = a_snapshot(0, 1000, p2=(1, 1, 100, 0), p3=(2, 1, 50, 0), p4=(3, 1, 30, 0))
    after = a_snapshot(10, 2800, p2=(1, 1, 400, 0), p3=(2, 1, 250, 230), p5=(1, 7, 900, 0))
    found = used(before, after, 2)
    assert (found.busy_cores, found.other_cores) == (1.8, 1.1)
    assert found.processes == [ProcessLoad(name="work", processes=1, cpu_cores=0.9)]


def test_processes_of_one_name_are_one_entry_and_idle_ones_none() -> None:
    """Cores add up by name; a process counts from its start or the first snapshot."""
    before = a_snapshot(0, 0, p5=(1, 1, 5000, 0), p6=(1, 1, 0, 0), p9=(1, 1, 10, 0))
    after = a_snapshot(
        10, 1000, p5=(1, 1, 5300, 0), p6=(1, 2, 400, 0), p7=(1, 3, 100, 0), p9=(1, 1, 20, 0)
    )
    (found,) = used(before, after, 99).processes
    assert (found.name, found.processes, found.cpu_cores) == ("work", 3, 0.8)


def a_proc(root: Path) -> Path:
    """Write a /proc of two CPUs with a script, a module, a program and a shell's command."""
    (root / "stat").write_text("cpu  100 10 30 900 50 5 5 7 0 0\ncpu0 1\ncpu1 1\nintr 1\n")
    rows = [
        (10, "python3", "python3\0-u\0/opt/train.py\0--token=secret\0"),
        (11, "python3.11", "python3.11\0-m\0http.server\0"),
        (12, "make) x", "make\0all\0"),
        (13, "bash", "bash\0-c\0secret\0"),
        (14, "python3", ""),  # ended before its command line was read
    ]
    for pid, name, words in rows:
        (root / str(pid)).mkdir()
        text = STAT.format(pid=pid, name=name, parent=1, own=0, reaped=3, started=5)
        (root / str(pid) / "stat").write_text(text)
        (root / str(pid) / "cmdline").write_text(words)
    (root / "99").mkdir()  # ended while it was read
    return root


def test_proc_is_read(tmp_path: Path) -> None:
    """Busy ticks leave out idle, waiting and stolen time; names may contain brackets."""
    found = read_machine(a_proc(tmp_path))
    assert found is not None
    assert (found.busy, found.cpu_count) == (150, 2)
    assert {times.name for times in found.processes.values()} == {
        "python3",
        "python3.11",
        "make) x",
        "bash",
    }
    assert found.processes[12].reaped == 3


def test_names_show_scripts_and_no_other_arguments(tmp_path: Path) -> None:
    """An interpreter is named with its script or module; arguments may be secrets."""
    proc = a_proc(tmp_path)
    before = read_machine(proc)
    for pid in (10, 11, 12, 13, 14):
        path = proc / str(pid) / "stat"
        path.write_text(path.read_text().replace(" 0 3 0 20", f" {pid * 100} 3 0 20"))
    after = read_machine(proc)
    assert before is not None
    assert after is not None
    moment = before.at_ns + 10 * SECOND
    later = MachineSnapshot(moment, after.cpu_count, after.busy, after.processes)
    found = other_load(before, later, {1}, proc)
    assert [each.name for each in found.processes] == [
        "python3",
        "bash",
        "make) x",
        "python3.11 http.server",
        "python3 train.py",
    ]


def test_a_machine_without_figures_has_no_snapshot(tmp_path: Path) -> None:
    """Without /proc/stat nothing is known, and nothing fails."""
    assert read_machine(tmp_path) is None


def a_cluster_plan(*agents: str, **spec: int) -> LoadPlan:
    """Return a plan in a cluster with agents on these nodes."""
    plan = a_plan("http://server:1", {"singleStream": {}}, load=spec)
    known = [PlannedAgent(url="http://agent:1", node=node) for node in agents]
    return plan.model_copy(update={"place": "Cluster", "agents": known})


def test_others_are_known_only_if_every_own_process_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on the same node needs an agent; a fleet's pods elsewhere are unknown."""
    monkeypatch.setenv("NODE_NAME", "a")
    assert scope_of(a_cluster_plan(), colocated=False).is_measured
    assert not scope_of(a_cluster_plan("b"), colocated=True).is_measured
    assert scope_of(a_cluster_plan("a"), colocated=True).is_measured
    assert not scope_of(a_cluster_plan("a", workers=2), colocated=False).is_measured
    monkeypatch.delenv("NODE_NAME")
    assert not scope_of(a_cluster_plan(), colocated=False).is_measured


def test_a_server_of_another_program_is_found_by_its_port() -> None:
    """Processes that listen on a local server's port are the server's; without any, none is."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert listeners([port]) == {os.getpid()}
        plan = a_plan(f"http://127.0.0.1:{port}", {"singleStream": {}})
        assert scope_of(plan, colocated=True).servers == {os.getpid()}
    assert not scope_of(plan, colocated=True).is_measured
    launched = plan.model_copy(update={"server_process_ids": [1]})
    assert scope_of(launched, colocated=True).is_measured


def a_node(name: str, *, busy: float, server_seconds: float | None) -> NodeTelemetry:
    """Return what an agent reports of a node over 10 s."""
    return NodeTelemetry(
        node=name,
        cpu_count=4,
        server_cpu_seconds=server_seconds,
        samples=[
            NodeSample(at_milliseconds=at, cpu_cores=cores)
            for at, cores in ((-1000, 4.0), (1000, busy + 0.5), (2000, busy - 0.5))
        ],
    )


def test_in_a_cluster_each_node_has_its_figure() -> None:
    """Servers' CPU time is not others'; a node whose servers' part is unknown is left out."""
    own = OtherLoad(node="a", cpu_count=2, busy_cores=1.8, other_cores=1.5)
    nodes = [
        a_node("a", busy=1.8, server_seconds=9.0),
        a_node("b", busy=3.0, server_seconds=10.0),
        a_node("c", busy=3.0, server_seconds=None),
    ]
    found = other_loads(own, nodes, 10 * SECOND)
    assert [(each.node, each.other_cores) for each in found] == [("a", 0.6), ("b", 2.0)]
    assert other_loads(None, nodes, 10 * SECOND) == []
    local = own.model_copy(update={"node": ""})
    assert other_loads(local, nodes, 10 * SECOND) == [local]
