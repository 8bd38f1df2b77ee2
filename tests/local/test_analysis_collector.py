"""Spans that are exported reach a real OpenTelemetry Collector, which sends them on."""

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inferometer_api.results.result import StepProfile
from inferometer_loadgen.tracing.spans import read_json
from inferometer_results.export.otlp import otlp_message
from support.cluster.binaries import binary
from support.fake_load import free_port
from support.inferometer_process import ran
from support.otlp_receiver import otlp_receiver
from support.profiled_results import a_profiled_result, recorded_cpu_profile
from support.recorded_kernels import recorded_profile
from support.requirements import cannot_run
from support.traced_results import a_traced_result
from support.waiting import wait_until

CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters:
  otlp_http:
    endpoint: http://127.0.0.1:{sink}
    encoding: json
    compression: none
    sending_queue: {{enabled: false}}
service:
  pipelines: {{traces: {{receivers: [otlp], exporters: [otlp_http]}}}}
  telemetry: {{metrics: {{level: none}}}}
"""


def _is_listening(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def a_collector(folder: Path, sink: int) -> Iterator[int]:
    """Run OpenTelemetry's Collector, and yield its port of OTLP/HTTP."""
    try:
        program = binary("otel-collector")
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        cannot_run(f"No OpenTelemetry Collector can be built here from its Go modules: {error}")
    port = free_port()
    config = folder / "collector.yaml"
    config.write_text(CONFIG.format(port=port, sink=sink))
    with (folder / "collector.log").open("wb") as log:
        process = subprocess.Popen([program, f"--config=file:{config}"], stdout=log, stderr=log)
    try:
        wait_until(
            lambda: process.poll() is not None or _is_listening(port), "the collector listens"
        )
        assert process.poll() is None, (folder / "collector.log").read_text()[-2000:]
        yield port
    finally:
        process.terminate()
        process.wait(60)


def test_a_real_collector_takes_every_exported_span(tmp_path: Path) -> None:
    """It sends on the same traces: IDs, names, parents, times and services are those of ours."""
    document = a_traced_result()
    (tmp_path / "result.json").write_text(
        document.model_dump_json(by_alias=True, exclude_none=True)
    )
    with otlp_receiver() as sink, a_collector(tmp_path, sink.port) as port:
        sent = ran(tmp_path, "spans", "result.json", "--otlp", f"http://127.0.0.1:{port}")
        assert sent.code == 0, sent.stderr
        (message,) = sink.messages
        spans = read_json(message.body)
        assert spans == read_json(otlp_message(document))
        assert len(spans) == sum(
            len(query.spans)
            for scenario in document.scenarios
            for step in scenario.steps
            for query in (step.tracing.queries if step.tracing else ())
        )
        resources = json.loads(message.body)["resourceSpans"]
        names = [
            {each["key"]: each["value"] for each in one["resource"]["attributes"]}
            for one in resources
        ]
        assert {each["inferometer.run.name"]["stringValue"] for each in names} == {
            document.run.name
        }


@pytest.mark.parametrize("recorded", [recorded_cpu_profile, recorded_profile])
def test_a_real_collector_takes_the_layers_and_kernels_of_a_profile(
    tmp_path: Path, recorded: Callable[[], StepProfile]
) -> None:
    """They arrive below the span of the model, with their attributes."""
    document = a_profiled_result(recorded())
    (tmp_path / "result.json").write_text(
        document.model_dump_json(by_alias=True, exclude_none=True)
    )
    with otlp_receiver() as sink, a_collector(tmp_path, sink.port) as port:
        sent = ran(tmp_path, "spans", "result.json", "--otlp", f"http://127.0.0.1:{port}")
        assert sent.code == 0, sent.stderr
        (message,) = sink.messages
    spans = read_json(message.body)
    assert spans == read_json(otlp_message(document))
    assert len(spans) == 1 + len(recorded().layers) + 2 * len(recorded().kernels)
    arrived, own = (
        [
            {each["key"]: each["value"] for each in span["attributes"]}
            for span in json.loads(body)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        ]
        for body in (message.body, otlp_message(document))
    )
    assert arrived == own


def test_a_collector_that_cannot_read_a_message_says_so(tmp_path: Path) -> None:
    """The command names the collector's status for another path than that of traces."""
    (tmp_path / "result.json").write_text(
        a_traced_result().model_dump_json(by_alias=True, exclude_none=True)
    )
    with otlp_receiver() as sink, a_collector(tmp_path, sink.port) as port:
        url = f"http://127.0.0.1:{port}/v1/metrics"
        failed = ran(tmp_path, "spans", "result.json", "--otlp", url)
    assert failed.code == 1
    assert f"The collector at {url} answered" in failed.stderr
    assert sink.messages == []
