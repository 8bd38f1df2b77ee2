"""Only valid targets are accepted, and Prometheus sees every known figure."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from inferometer_api.metrics.definitions import METRICS
from inferometer_api.nodes.cache_statistics import CacheStatistics
from inferometer_api.results.agent_sample import (
    MAX_WORKLOADS,
    AgentSample,
    CpuReading,
    EnergyReading,
    GpuReading,
    WorkloadReading,
)
from inferometer_telemetry.metrics import NodeMetrics
from inferometer_telemetry.options import options
from inferometer_telemetry.request_rate import RequestRate
from inferometer_telemetry.sampler import Clocks, Latest, Places, Sampler
from inferometer_telemetry.sampling_loop import SamplingLoop
from inferometer_telemetry.sources import Target
from inferometer_telemetry.web import RefusedQueryError, application, is_loopback, targets

UID = "0f9c2a6e-1f4b-4b7e-9a55-3d1c8e2b7a10"


def test_a_query_names_pods_and_processes() -> None:
    """Each target is requested once, however often it is named."""
    requested = targets([UID, UID], ["17", "1"])
    assert requested == [Target(UID), Target(process_id=17), Target(process_id=1)]


@pytest.mark.parametrize(
    "uid", ["", "x", "../../etc", UID.upper(), UID + "\n", UID[:-1], f"{UID}/", "*"]
)
def test_what_is_no_uid_is_refused(uid: str) -> None:
    """Nothing that could lead out of the tree of pods is looked for."""
    with pytest.raises(RefusedQueryError, match="no pod's UID"):
        targets([uid], [])


@pytest.mark.parametrize("number", ["", "-1", "0", "1.5", "self", "4194305", "٣", "9" * 40])
def test_what_is_no_process_is_refused(number: str) -> None:
    """A process's ID is a number that Linux gives."""
    with pytest.raises(RefusedQueryError, match="no process's ID"):
        targets([], [number])


def test_a_request_asks_for_64_targets_at_most() -> None:
    """One request cannot make the agent read without end."""
    assert len(targets([], [str(each) for each in range(1, MAX_WORKLOADS + 1)])) == MAX_WORKLOADS
    with pytest.raises(RefusedQueryError, match="65 targets were requested"):
        targets([UID], [str(each) for each in range(1, MAX_WORKLOADS + 1)])


@given(st.text(), st.text())
def test_a_query_is_taken_or_refused(pod: str, process: str) -> None:
    """Every query is a target or a refusal."""
    with suppress(RefusedQueryError):
        assert len(targets([pod], [process])) == 2


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("", False),
        ("0.0.0.0", False),  # noqa: S104 - nothing listens
        ("::", False),
        ("10.0.0.1", False),
    ],
)
def test_only_loopback_is_this_machine_alone(host: str, *, alone: bool) -> None:
    """Elsewhere an agent reports no process by its number."""
    assert is_loopback(host) == alone


def test_the_rate_of_one_client_is_bounded_and_no_others() -> None:
    """Two hundred targets at once, then a hundred a second; another address has its own."""
    now_ns = 0
    rate = RequestRate(lambda: now_ns)
    assert [rate.wait_seconds("a", 63) for _ in range(3)] == [0, 0, 0]
    assert rate.wait_seconds("a", 63) == pytest.approx(0.56)
    assert rate.wait_seconds("b", 63) == 0
    now_ns = 10**9
    assert rate.wait_seconds("a", 63) == 0
    served = 0
    for each in range(10_000):
        now_ns = 10**9 + each * 10**6
        served += rate.wait_seconds("a", 0) == 0
    assert served == pytest.approx(10 * 100 + 44, abs=2)
    # However long a client is silent.
    now_ns += 3600 * 10**9
    assert [rate.wait_seconds("a", 63) for _ in range(3)] == [0, 0, 0]
    assert rate.wait_seconds("a", 63) == pytest.approx(0.56)


def test_few_addresses_are_remembered() -> None:
    """Any number of clients takes little memory, and a busy one is not forgotten."""
    rate = RequestRate(lambda: 0)
    for each in range(5000):
        rate.wait_seconds(f"other-{each}", 0)
        rate.wait_seconds("a", 0)
    assert rate.wait_seconds("a", 0) > 0
    assert len(rate._buckets) <= 1024


async def _statuses(*queries: str, takes_processes: bool) -> list[int]:
    clocks = Clocks(lambda: 10**9, lambda: 10**9, lambda: "i")
    places = Places(sys=None, rapl=None, proc=Path("/proc"), cgroup=None)
    sampler = Sampler(places, None, node="n", version="1", clocks=clocks)
    pages = application(
        sampler,
        SamplingLoop(sampler, 1.0),
        CollectorRegistry(),
        takes_processes=takes_processes,
    )
    async with TestClient(TestServer(pages)) as client:
        return [(await client.get(f"/v1/sample?{query}")).status for query in queries]


def test_the_network_reads_no_process_by_its_number() -> None:
    """Pods are answered; on loopback, as a local run's agent listens, processes are too."""
    queries = (f"pod={UID}", "process=1", f"pod={UID}&process=1")
    assert asyncio.run(_statuses(*queries, takes_processes=False)) == [200, 403, 403]
    assert asyncio.run(_statuses(*queries, takes_processes=True)) == [200, 200, 200]


def test_a_client_that_asks_too_often_is_refused() -> None:
    """The agent reads no more for it."""
    statuses = asyncio.run(_statuses(*[f"pod={UID}"] * 2000, takes_processes=False))
    assert {200, 429} == set(statuses)


def everything() -> Latest:
    """Return a sample in which everything is known."""
    sample = AgentSample(
        agent_version="1",
        instance="i",
        node="n1",
        monotonic_ns=1,
        unix_ns=1,
        energy=[
            EnergyReading(
                domain="package-0", kind="Package", method="Counter", microjoules=1_500_000
            )
        ],
        cpu=CpuReading(
            count=8,
            busy_microseconds=2_500_000,
            steal_microseconds=0,
            frequency_hertz=2_000_000_000,
            governor="performance",
            temperature_millidegrees_celsius=-1500,
            memory_available_bytes=2**30,
        ),
        workloads=[
            WorkloadReading(
                pod_uid=UID,
                cpu_microseconds=1_000_000,
                throttled_microseconds=500_000,
                memory_bytes=2**20,
                cpu_pressure_microseconds=1,
                memory_pressure_microseconds=2,
                io_pressure_microseconds=3_000_000,
            ),
            WorkloadReading(process_id=17, cpu_microseconds=250_000),
        ],
        gpus=[
            GpuReading(
                uuid="GPU-1",
                index=3,
                name="T4",
                mig=True,
                utilization_percent=45,
                memory_used_bytes=1,
                memory_total_bytes=2,
                clock_hertz=1_590_000_000,
                temperature_millidegrees_celsius=40_000,
                throttle_reasons=["SwPowerCap"],
            )
        ],
    )
    return Latest(sample, {"package-0": 12.5}, {"rapl": True, "nvml": False}, 5, 0.25)


def scraped(
    latest: Latest | None, cache: CacheStatistics | None = None
) -> dict[str, dict[tuple[str, ...], float]]:
    """Return what Prometheus reads: by metric, by the labels' values behind the node's."""
    registry = CollectorRegistry()
    registry.register(NodeMetrics(lambda: latest, lambda: cache))
    known = {metric.name: metric for metric in METRICS["node agent"]}
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            names = known[sample.name].labels
            assert set(sample.labels) == set(names)
            assert sample.labels["node"] == "n1"
            labels = tuple(sample.labels[name] for name in names[1:])
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_every_metric_of_the_agent_is_shown() -> None:
    """Each metric that the API names has a value, in base units, with exactly its labels."""
    found = scraped(everything(), CacheStatistics(7, 2, 300, 1, 200, 500))
    assert set(found) == {metric.name for metric in METRICS["node agent"]}
    assert found["inferometer_node_energy_joules_total"] == {
        ("package-0", "Package", "Counter"): 1.5
    }
    assert found["inferometer_node_power_watts"] == {("package-0", "Package", "Counter"): 12.5}
    assert found["inferometer_node_cpu_busy_seconds_total"] == {(): 2.5}
    assert found["inferometer_node_cpu_temperature_celsius"] == {(): -1.5}
    assert found["inferometer_node_cpu_governor_info"] == {("performance",): 1.0}
    assert found["inferometer_workload_cpu_seconds_total"] == {(UID,): 1.0, ("process:17",): 0.25}
    assert found["inferometer_workload_pressure_seconds_total"][UID, "io"] == 3.0
    assert found["inferometer_gpu_info"] == {("3", "GPU-1", "T4", "true"): 1.0}
    assert found["inferometer_gpu_utilization_ratio"] == {("3",): 0.45}
    assert found["inferometer_gpu_throttled"] == {("3", "SwPowerCap"): 1.0}
    assert found["inferometer_agent_source_available"] == {("rapl",): 1.0, ("nvml",): 0.0}
    assert found["inferometer_model_cache_hits_total"] == {(): 7.0}
    assert found["inferometer_model_cache_fetched_bytes_total"] == {(): 300.0}


def test_what_is_not_known_has_no_series() -> None:
    """A missing figure is no zero to Prometheus; before the first sample there is nothing."""
    bare = AgentSample(
        agent_version="1",
        instance="i",
        node="n1",
        monotonic_ns=1,
        unix_ns=1,
        cpu=CpuReading(count=1, busy_microseconds=0, steal_microseconds=0),
        workloads=[WorkloadReading(process_id=17, cpu_microseconds=0)],
        gpus=[GpuReading(uuid="GPU-1", index=0, name="T4")],
    )
    found = scraped(Latest(bare, {}, {"rapl": False}, 1, 0.0))
    assert set(found) == {
        "inferometer_node_cpus",
        "inferometer_node_cpu_busy_seconds_total",
        "inferometer_node_cpu_steal_seconds_total",
        "inferometer_workload_cpu_seconds_total",
        "inferometer_gpu_info",
        "inferometer_agent_source_available",
        "inferometer_agent_samples_total",
        "inferometer_agent_sample_seconds_total",
    }
    assert scraped(None) == {}


def test_the_node_name_is_the_one_set_in_its_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --node the environment's NODE_NAME counts, before the host's name."""
    monkeypatch.setenv("NODE_NAME", "worker-7")
    assert options([]).node == "worker-7"
    assert options(["--node", "other"]).node == "other"
    monkeypatch.delenv("NODE_NAME")
    assert options([]).node


def test_options_name_places_and_switches() -> None:
    """Every root is an argument, and every source can be switched off."""
    requested = options(["--sys-root", "/host/sys", "--nvml-root", "/r", "--no-rapl", "--no-node"])
    assert (requested.sys_root, requested.nvml_root) == (Path("/host/sys"), Path("/r"))
    assert (requested.proc_root, requested.cgroup_root) == (Path("/proc"), Path("/sys/fs/cgroup"))
    assert requested.off == {"rapl", "node"}
    assert (requested.port, requested.interval_seconds) == (9465, 1.0)


@pytest.mark.parametrize(
    "words",
    [
        ["--interval-seconds", "0"],
        ["--interval-seconds", "61"],
        ["--interval-seconds", "nan"],
        ["--port", "65536"],
        ["--port", "x"],
        ["--what"],
    ],
)
def test_what_cannot_be_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line exits with 2 and a message."""
    with pytest.raises(SystemExit) as ended:
        options(words)
    assert ended.value.code == 2
    assert "refused: " in capsys.readouterr().err
