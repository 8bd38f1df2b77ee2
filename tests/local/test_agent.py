"""A real agent serves samples and metrics of a machine over HTTP."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inferometer_api.metrics.definitions import METRICS
from support.agent_process import AgentProcess, agent
from support.recorded_node import RANGE_MICROJOULES, RecordedNode
from support.waiting import wait_until

UID = "0f9c2a6e-1f4b-4b7e-9a55-3d1c8e2b7a10"
OTHER = "1f9c2a6e-1f4b-4b7e-9a55-3d1c8e2b7a11"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> RecordedNode:
    """Record a machine of two packages whose counters wrap around after another 50 J."""
    begin = RANGE_MICROJOULES / 1e6 - 50
    node = RecordedNode(
        tmp_path_factory.mktemp("node"),
        cpus=64,
        packages=2,
        begin_joules=begin,
        layout="v1-systemd",
    )
    node.add_pod(UID)
    return node


@pytest.fixture(scope="module")
def recorded(
    node: RecordedNode, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentProcess]:
    """Start an agent on the recorded machine."""
    words = (*node.options, "--node", "n1", "--interval-seconds", "0.1", "--no-nvml")
    with agent(tmp_path_factory.mktemp("agent"), *words) as process:
        yield process


def metrics(process: AgentProcess) -> dict[str, dict[str, float]]:
    """Return what Prometheus scrapes: by name, by domain or target or nothing."""
    status, body = process.get_soon("/metrics")
    assert status == 200
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(body):
        for each in family.samples:
            key = each.labels.get("domain") or each.labels.get("workload") or ""
            found.setdefault(each.name, {})[key] = each.value
    return found


def test_known_joules_come_back(recorded: AgentProcess, node: RecordedNode) -> None:
    """Two samples differ by exactly the recorded joules and CPU seconds, wrapped or not."""
    before = recorded.sample(pods=[UID])
    node.advance(
        joules={"package-0": 120, "package-1": 30, "package-0-dram": 12.5, "psys": 900},
        busy_seconds=8,
        pods={UID: 2.5},
    )
    after = recorded.sample(pods=[UID])
    assert after.instance == before.instance
    assert after.monotonic_ns > before.monotonic_ns
    earlier = {reading.domain: reading.microjoules for reading in before.energy}
    grown = {each.domain: each.microjoules - earlier[each.domain] for each in after.energy}
    assert grown == {
        "package-0": 120_000_000,
        "package-0-dram": 12_500_000,
        "package-1": 30_000_000,
        "package-1-dram": 0,
    }
    assert before.cpu is not None
    assert after.cpu is not None
    assert after.cpu.busy_microseconds - before.cpu.busy_microseconds == 8_000_000
    assert after.workloads[0].cpu_microseconds - before.workloads[0].cpu_microseconds == 2_500_000
    assert (after.node, after.cpu.count, after.cpu.governor) == ("n1", 64, "performance")


def test_prometheus_sees_the_regular_samples(recorded: AgentProcess, node: RecordedNode) -> None:
    """/metrics has the same joules and the requested pod, under names that the API knows."""
    readings = {reading.domain: reading for reading in recorded.sample(pods=[UID]).energy}
    joules = readings["package-1"].microjoules / 1e6 + 400
    node.advance(joules={"package-1": 400})
    name = "inferometer_node_energy_joules_total"
    wait_until(lambda: metrics(recorded)[name]["package-1"] == joules, "the energy")
    found = metrics(recorded)
    assert UID in found["inferometer_workload_cpu_seconds_total"]
    assert found["process_cpu_seconds_total"][""] > 0
    known = {metric.name for metric in METRICS["node agent"]}
    assert {name for name in found if not name.startswith("process_")} <= known


def test_a_pod_that_comes_and_goes_is_followed(recorded: AgentProcess, node: RecordedNode) -> None:
    """A pod has figures while it exists; before and after it is missing by name."""
    assert recorded.sample(pods=[OTHER]).workloads == []
    node.add_pod(OTHER, "besteffort", is_limited=False)
    (target,) = recorded.sample(pods=[OTHER]).workloads
    assert (target.pod_uid, target.throttled_microseconds) == (OTHER, None)
    node.remove_pod(OTHER)
    gone = recorded.sample(pods=[UID, OTHER])
    assert [each.pod_uid for each in gone.workloads] == [UID]
    assert OTHER in {missing.subject for missing in gone.missing}


def test_what_is_no_target_is_refused(recorded: AgentProcess) -> None:
    """A query that names no target is answered 400 with a sentence; other pages are not there."""
    for query in ("pod=..%2F..%2Fetc", "process=x", "&".join(f"process={i}" for i in range(1, 66))):
        status, body = recorded.get(f"/v1/sample?{query}")
        assert status == 400
        assert "error" in body
    assert recorded.get("/")[0] == 404
    assert recorded.get("/healthz")[0] == 200


def test_an_agent_on_this_machine_reports_the_requested_process(tmp_path: Path) -> None:
    """On the machine's own files it knows this process, and says why a source has nothing."""
    with agent(tmp_path) as process:
        first = process.sample(processes=[os.getpid()])
        (target,) = first.workloads
        assert target.process_id == os.getpid()
        assert target.cpu_microseconds > 0
        assert target.memory_bytes
        assert first.cpu is not None
        assert first.cpu.count == os.cpu_count()
        later = process.sample(processes=[os.getpid()])
        assert later.instance == first.instance
        assert later.monotonic_ns > first.monotonic_ns
        assert all(missing.reason for missing in first.missing)
        assert process.ended(signal.SIGINT) == 0
        assert "Traceback" not in process.errors()


def test_a_port_that_is_taken_is_refused(recorded: AgentProcess) -> None:
    """An agent that cannot listen ends with 2 and says why."""
    command = [sys.executable, "-m", "inferometer_telemetry", "--port", str(recorded.port)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].startswith("refused: The agent cannot listen at 127.0.0.1")


def test_an_agent_listens_at_every_address(tmp_path: Path) -> None:
    """Without a host it is reached by IPv4 and, where the machine has it, by IPv6."""
    with agent(tmp_path, "--no-nvml", "--host", "") as process:
        assert process.get("/healthz")[0] == 200
        interfaces = Path("/proc/net/if_inet6")
        if interfaces.exists() and f"{1:032x} " in interfaces.read_text():
            with socket.create_connection(("::1", process.port), timeout=60) as connection:
                connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                assert b" 200 OK" in connection.recv(4096)


def test_a_driver_that_hangs_holds_up_nothing_else(tmp_path: Path) -> None:
    """Energy and health are reported while NVML hangs, and SIGTERM still ends the agent."""
    node = RecordedNode(tmp_path / "node")
    (tmp_path / "nvml/gpu-0").mkdir(parents=True)
    os.mkfifo(tmp_path / "nvml/gpu-0/nvmlDeviceGetUUID")
    with agent(tmp_path, *node.options, "--nvml-root", str(tmp_path / "nvml")) as process:
        sample = process.sample()
        assert {each.domain for each in sample.energy} == {"package-0", "package-0-dram"}
        (missing,) = [each.reason for each in sample.missing if each.source == "nvml"]
        assert missing == "NVIDIA's driver has not answered within 1 s"
        assert process.get("/healthz")[0] == 200
        assert process.ended() == 0


def test_sigterm_ends_an_agent_at_once(tmp_path: Path, node: RecordedNode) -> None:
    """An agent exits with 0 on SIGTERM, also with a client's connection open."""
    with agent(tmp_path, *node.options) as process:
        process.sample(pods=[UID])
        assert process.ended() == 0
