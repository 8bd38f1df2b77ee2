"""Each component exposes exactly the metrics that dashboards and rules use."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from inferometer_api.metrics.definitions import METRICS, Component
from inferometer_api.nodes.cache_statistics import CacheStatistics
from inferometer_api.plan.launch import agent_command
from inferometer_api.plan.load_report import LoadReport
from inferometer_operator.wiring.metrics import exposition
from support import onnx_models
from support.exported_runs import a_raw_run, a_stored_run, operator_stats
from support.exposed import faults, silent
from support.load_pods import a_load_pod, measures
from support.load_runs import a_plan
from support.recorded_node import RecordedNode
from support.serving_process import serving
from support.waiting import killed_at_deadline, reply_of, wait_until

GPU = {
    "nvmlDeviceGetUUID": "GPU-1",
    "nvmlDeviceGetName": "NVIDIA A100",
    "nvmlDeviceGetTotalEnergyConsumption": "1000",
    "nvmlDeviceGetPowerUsage": "70000",
    "nvmlDeviceGetUtilizationRates": "gpu 50\nmemory 10",
    "nvmlDeviceGetMemoryInfo": "total 1000\nused 10\nfree 990",
    "nvmlDeviceGetClockInfo": "1400",
    "nvmlDeviceGetTemperature": "40",
    "nvmlDeviceGetCurrentClocksEventReasons": "4",
    "nvmlDeviceGetMigMode": "0 0",
}
"""What NVML says of a GPU, by the names of its functions."""


def read(url: str) -> str:
    """Return the text at an address."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=60)
    try:
        connection.request("GET", urlunsplit(("", "", parts.path, parts.query, "")))
        return reply_of(connection, url).read().decode()
    finally:
        connection.close()


def server(folder: Path) -> str:
    """Return the metrics of a server after a request over HTTP."""
    path = onnx_models.save(onnx_models.identity(shape=("batch", 64)), folder / "m.onnx")
    with serving(path, "--run", "r", "--run-namespace", "n") as process:
        read(f"http://{process.http_url}/v2/health/live")
        return read(f"http://{process.http_url}/metrics")


def knows_a_rate(report: LoadReport) -> bool:
    """Return whether one second of the window is over."""
    return report.progress is not None and report.progress.qps is not None


def load_generator(folder: Path) -> str:
    """Return the metrics of a load generator in a pod while it measures an open loop of a mix."""
    path = onnx_models.save(onnx_models.identity(), folder / "m.onnx")
    with serving(path, "--other-model", f"n={path}") as process:
        mix = [{"model": "m", "weight": 1}, {"model": "n", "weight": 1}]
        plan = a_plan(
            f"http://{process.http_url}",
            {"server": {"targetQps": 100}, "mix": mix},
            model="m",
            validity={"minDurationSeconds": 20},
        )
        (one,) = plan.servers
        servers = [one.model_copy(update={"pod_uid": "uid", "node": "node1"})]
        with a_load_pod(plan.model_copy(update={"servers": servers}), folder) as pod:
            pod.until(measures)
            pod.until(knows_a_rate)
            status, text = pod.ask("GET", "/metrics")
            assert status == 200
            return text.decode()


@contextmanager
def an_agent(*options: str) -> Iterator[str]:
    """Start a node agent and return its URL."""
    command = [*agent_command(sys.executable, host="127.0.0.1"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            with killed_at_deadline(process, "the port of the agent"):
                port = json.loads(process.stdout.readline())["port"]
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def node_agent(folder: Path) -> str:
    """Return the metrics of an agent with every source, after a request for a pod."""
    node = RecordedNode(folder)
    node.add_pod("6fdd4dba-2c4c-4c6c-9a8a-3f6a5c2a7f10")
    for function, answer in GPU.items():
        file = folder / "nvml/gpu-0" / function
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(answer)
    counters = folder / "cache.json"
    counters.write_text(CacheStatistics(1, 2, 3, 4, 5, 6).to_json())
    options = ("--nvml-root", str(folder / "nvml"), "--model-cache-statistics", str(counters))
    with an_agent(*node.options, *options) as url:
        read(f"{url}/v1/sample?pod=6fdd4dba-2c4c-4c6c-9a8a-3f6a5c2a7f10")
        shown = "inferometer_workload_memory_bytes{"
        wait_until(lambda: shown in read(f"{url}/metrics"), "a sample of the pod")
        return read(f"{url}/metrics")


def operator(_: Path) -> str:
    """Return the metrics of an operator with a finished run and one in progress."""
    running = a_raw_run("b", phase="Measuring", startTime="2026-01-01T00:00:00Z")
    stats = operator_stats(a_stored_run(), running)
    stats.count_api_error("409")
    return exposition(stats)().decode()


METRICS_TEXT: dict[Component, Callable[[Path], str]] = {
    "load generator": load_generator,
    "server": server,
    "node agent": node_agent,
    "operator": operator,
}


@pytest.mark.parametrize("component", METRICS)
def test_a_component_exposes_its_documented_metrics(component: Component, tmp_path: Path) -> None:
    """The text has exactly the defined families, each with type, labels, buckets and a sample."""
    text = METRICS_TEXT[component](tmp_path)
    assert faults(component, text) == []
    assert silent(text) == set()
