"""Edges of the load generator: reports, addresses, environment."""

import os
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.plan.reports import FinalReport, ProgressReport
from inferometer_api.results.result import Outcome
from inferometer_api.spec.server import Server
from inferometer_loadgen.client.load_client import OwnProcess
from inferometer_loadgen.client.node import node, packages
from inferometer_loadgen.record.bounded_series import MOST_ENTRIES
from inferometer_loadgen.reporting.report_writer import ReaderGoneError, ReportWriter
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.run.environment import environment_of, not_obtained
from inferometer_loadgen.run.execution import exit_code
from inferometer_loadgen.run.resource_usage import ResourceUsage
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_loadgen.server.endpoint import ServerEndpoint, endpoint_of
from support.load_runs import a_plan

A_PROGRESS = ProgressReport(stage="Measuring", scenario="s")
THE_END = FinalReport(outcome=Outcome(state="Complete", reason="Measured"))


def test_progress_is_dropped_if_the_reader_is_slow() -> None:
    """A reader that does not read must not hold up the measurement; the rest still fits."""
    reading, writing = os.pipe()
    reporter = ReportWriter(writing)
    for _ in range(5000):
        reporter.progress(A_PROGRESS)
    os.close(writing)
    with os.fdopen(reading) as reader:
        lines = reader.read().splitlines()
    assert 0 < len(lines) < 5000
    assert [ProgressReport.model_validate_json(line) for line in lines[:3]] == [A_PROGRESS] * 3
    assert ProgressReport.model_validate_json(lines[-1]) == A_PROGRESS


def test_a_reader_that_has_gone_is_noticed() -> None:
    """Writing without a reader raises, for progress and for what must arrive."""
    reading, writing = os.pipe()
    os.close(reading)
    reporter = ReportWriter(writing)
    with pytest.raises(ReaderGoneError):
        reporter.progress(A_PROGRESS)
    with pytest.raises(ReaderGoneError):
        reporter.add(THE_END)
    os.close(writing)


@pytest.mark.parametrize(
    ("url", "protocol", "expected"),
    [
        ("http://10.0.0.1:8000", "HTTP", ServerEndpoint("HTTP", "10.0.0.1", 8000, "")),
        ("http://host/some/where/", "HTTP", ServerEndpoint("HTTP", "host", 80, "/some/where")),
        ("grpc://host:9", "GRPC", ServerEndpoint("GRPC", "host", 9, "")),
        ("grpcs://host:9", "GRPC", ServerEndpoint("GRPC", "host", 9, "")),
        ("https://host:9", "HTTP", ServerEndpoint("HTTP", "host", 9, "")),
        ("http://[::1]:8000", "HTTP", ServerEndpoint("HTTP", "::1", 8000, "")),
    ],
)
def test_a_url_is_taken_apart(url: str, protocol: Any, expected: ServerEndpoint) -> None:
    """Host, port and path come from the URL."""
    assert endpoint_of(url, protocol) == expected
    assert expected.address in url.removesuffix("/").replace("http://host/", "http://host:80/")


def test_a_url_without_a_port_has_its_protocols() -> None:
    """As the Open Inference Protocol's servers listen; the operator's allow list knows it too."""
    assert endpoint_of("http://host", "HTTP").port == 80
    assert endpoint_of("grpc://host", "GRPC").port == 8001
    assert endpoint_of("https://host", "HTTP").port == 443
    assert endpoint_of("grpcs://host", "GRPC").port == 443


@pytest.mark.parametrize(
    ("url", "protocol", "words"),
    [
        ("grpc://host:1", "HTTP", "http://"),
        ("http://host:1", "GRPC", "grpc://"),
        ("http://host:99999", "HTTP", "from 1 to 65535"),
    ],
)
def test_a_url_that_does_not_fit_is_refused(url: str, protocol: Any, words: str) -> None:
    """A URL of another protocol or without a usable port is refused in a sentence."""
    with pytest.raises(InputRefusedError, match=words):
        endpoint_of(url, protocol)


@pytest.mark.parametrize(
    ("settings", "nodes", "fell_back"),
    [
        ({}, {}, None),
        ({"nodes_by_provider": '{"CUDA": 3}', "compute_nodes_fell_back": "2"}, {"CUDA": 3}, 2),
        ({"nodes_by_provider": "[1", "compute_nodes_fell_back": "?"}, {}, None),
        ({"nodes_by_provider": '["CUDA"]'}, {}, None),
    ],
)
def test_unreported_facts_are_absent(
    settings: dict[str, str], nodes: dict[str, int], fell_back: int | None
) -> None:
    """The server's own facts are used; what it does not report is absent, not invented."""
    plan = a_plan("http://127.0.0.1:8000", {"singleStream": {}})
    described = ServerDescription("", "", [], ["7"], [], [], settings)
    found = environment_of(plan, [described], ["A note."])
    assert found.server.graph_nodes_by_provider == nodes
    assert found.server.cpu_fallback_graph_nodes == fell_back
    assert found.server.settings == settings
    assert found.model.version == "7"
    assert found.model.sha256 is None
    assert found.notes == ["A note."]


def test_this_machine_is_described() -> None:
    """The node has CPUs and memory, and packages their versions."""
    here = node()
    assert here.cpu_count >= 1
    assert here.memory_bytes > 2**20
    assert here.kernel == os.uname().release
    assert {"python", "numpy", "uvloop"} <= set(packages())


def test_usage_of_a_process_is_sampled() -> None:
    """Samples have CPU and memory of the server's processes, and stay few."""
    usage = ResourceUsage([os.getpid()], OwnProcess())
    for _ in range(3 * MOST_ENTRIES):
        usage.second()
    assert len(usage.samples) <= MOST_ENTRIES
    last = usage.samples[-1]
    assert last.server_memory_bytes is not None
    assert last.server_memory_bytes > 2**20
    assert last.client_memory_bytes > 2**20
    seconds = usage.server_cpu_seconds()
    assert seconds is not None
    assert seconds >= 0
    assert usage.client_cpu_seconds() >= 0


def test_a_server_elsewhere_has_no_usage() -> None:
    """Without processes of the server its CPU is absent, not zero; gone ones do no harm."""
    usage = ResourceUsage([], OwnProcess())
    usage.second()
    assert usage.samples[0].server_cpu_cores is None
    assert usage.server_cpu_seconds() is None
    highest = int(Path("/proc/sys/kernel/pid_max").read_text())
    assert ResourceUsage([highest], OwnProcess()).server_cpu_seconds() is None


@pytest.mark.parametrize(
    ("state", "code"),
    [("Complete", 0), ("Failed", 1), ("Refused", 2), ("Interrupted", 130), ("Terminated", 143)],
)
def test_exit_codes(state: Any, code: int) -> None:
    """Each way to end has its exit code."""
    assert exit_code(Outcome(state=state, reason="Any")) == code


@pytest.mark.parametrize(
    ("requested", "settings", "found"),
    [
        ({}, {"layers_by_precision": '{"BF16": 3}', "precision": "BF16", "threads": "1"}, []),
        (
            {"precision": "FP32", "threads": 2},
            {"layers_by_precision": '{"FP32": 3}', "precision": "FP32", "threads": "2"},
            [],
        ),
        (
            {"precision": "FP32"},
            {"layers_by_precision": '{"BF16": 3}', "precision": "BF16"},
            [("precision", "FP32", "BF16", "of its layers that multiply matrices, 3 in BF16")],
        ),
        (
            {"threads": 4},
            {"layers_by_precision": "{}", "precision": "", "threads": "2"},
            [("threads", "4", "2", "")],
        ),
        ({"precision": "FP32"}, {"precision": "BF16"}, []),
        (
            {"onnxRuntime": {"provider": "XNNPACK", "arena": False, "graphOptimization": "Basic"}},
            {"provider": "CPU", "arena": "off", "graph_optimization": "Basic"},
            [("provider", "XNNPACK", "CPU", "")],
        ),
        ({"onnxRuntime": {"spinning": True}}, {}, [("spinning", "on", "", "")]),
    ],
    ids=[
        *("default", "obtained", "precision", "threads", "another server"),
        *("a choice", "an unknown choice"),
    ],
)
def test_settings_that_the_engine_did_not_take(
    requested: dict[str, Any], settings: dict[str, str], found: list[tuple[str, ...]]
) -> None:
    """Requested precision and threads are compared with those that a server of ours reports."""
    described = ServerDescription("", "", [], [], [], [], settings)
    server = Server.model_validate(requested)
    assert [tuple(each) for each in not_obtained(server, [described, described])] == found


def test_settings_of_each_model_of_a_mix_count() -> None:
    """Another model may compute otherwise than the run's own, whichever of them comes first."""
    fields = {"layers_by_precision": '{"FP16": 2}', "precision": "FP16", "threads": "1"}
    own, half = (
        ServerDescription("", "", [], [], [], [], fields | changed)
        for changed in ({"layers_by_precision": "{}", "precision": "FP32"}, {})
    )
    server = Server.model_validate({"precision": "FP32", "threads": 1})
    assert not_obtained(server, [own]) == ()
    (found,) = not_obtained(server, [own], {"half": half})
    assert tuple(found) == (
        *("precision", "FP32", "FP16"),
        "of the layers of half that multiply matrices, 2 in FP16",
    )
