"""Tests of the table of runtimes and of what derives from it."""

from dataclasses import replace
from typing import Any, Literal, get_args

import pytest
from docgen.refusals import run_with

from inferometer_api.plan.availability import unavailable
from inferometer_api.plan.launch import server_containers, spans_url
from inferometer_api.runtimes.descriptor import (
    FetchedLayout,
    FieldLimit,
    LocalSupport,
    RuntimeDescriptor,
    ServerStart,
)
from inferometer_api.runtimes.table import RUNTIMES, launch_of
from inferometer_api.spec.resolve import fill_defaults, is_launched
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.server import Runtime
from support.runs import a_run, an_external_run, with_value

START = ServerStart(layout=FetchedLayout(model_file="/model/m"), python="py")


def _with(
    *, limits: tuple[FieldLimit, ...] | None = None, launch: dict[str, Any] | None = None
) -> RuntimeDescriptor:
    """Return the descriptor of ONNX Runtime with other limits or another launch."""
    found = RUNTIMES["OnnxRuntime"]
    assert found.launch is not None
    return replace(
        found,
        limits=found.limits if limits is None else limits,
        launch=replace(found.launch, **(launch or {})),
    )


def _run(runtime: str) -> BenchmarkRun:
    custom = {"custom": {"name": "a"}} if runtime == "Custom" else {}
    server = {"runtime": runtime, **custom}
    run = an_external_run() if runtime == "External" else a_run(server=server)
    return BenchmarkRun.model_validate(run)


def _traced(runtime: str, **spec: Any) -> BenchmarkRun:
    run = a_run(
        server={"runtime": runtime, "threads": 1},
        load={"tracing": {"sampleEvery": 10, "receiverPort": 4318}},
        **spec,
    )
    run["metadata"]["namespace"] = "team"
    return BenchmarkRun.model_validate(run)


def test_servers_are_given_the_address_of_the_receiver_of_spans() -> None:
    """By OpenTelemetry's variables, and Triton by its own options."""
    run = _traced("Triton")
    url = spans_url(run, "Cluster")
    assert url == "http://load-a-run.team.svc:4318/v1/traces"
    assert spans_url(run, "Local") == "http://127.0.0.1:4318/v1/traces"
    launch = launch_of(run.spec)
    (server,) = server_containers(run, launch, replace(START, spans_url=url))
    assert server.env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] == url
    assert server.env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "http/protobuf"
    assert f"--trace-config=opentelemetry,url={url}" in server.command
    assert "--trace-config=mode=opentelemetry" in server.command
    (plain,) = server_containers(run, launch, START)
    assert not [word for word in plain.command if word.startswith("--trace-config")]
    assert not [name for name in plain.env if name.startswith("OTEL")]


def test_a_run_without_a_receiver_takes_no_spans() -> None:
    """Neither without tracing nor with the runtimes' own spans alone."""
    for load in ({}, {"tracing": {"sampleEvery": 10}}):
        assert spans_url(BenchmarkRun.model_validate(a_run(load=load)), "Cluster") == ""


@pytest.mark.parametrize(("port", "is_refused"), [(4318, False), (8080, True)])
def test_the_receiver_of_a_pod_leaves_the_operators_port_alone(
    port: int, *, is_refused: bool
) -> None:
    """Only in a cluster: a local run has no such port."""
    load = {"tracing": {"sampleEvery": 10, "receiverPort": port}}
    run = BenchmarkRun.model_validate(a_run(load=load))
    refusals = unavailable(run, place="Cluster")
    assert ["receiverPort" in each for each in refusals] == [True] * is_refused
    assert unavailable(run, place="Local") == ()


@pytest.mark.parametrize("runtime", get_args(Runtime))
def test_every_runtime_has_a_descriptor_or_a_refusal(runtime: str) -> None:
    """A runtime of the API is available if and only if the table has a row for it."""
    places: tuple[Literal["Local", "Cluster"], ...] = ("Local", "Cluster")
    for place in places:
        refusals = [
            sentence
            for sentence in unavailable(_run(runtime), place=place)
            if sentence.startswith("spec.server.runtime: ")
        ]
        row = RUNTIMES.get(_run(runtime).spec.server.runtime)
        if row is not None and row.launch is not None and row.launch.local is None:
            assert [" runs in clusters only; " in each for each in refusals] == (
                [True] if place == "Local" else []
            )
        elif row is not None:
            assert not refusals
        else:
            (refusal,) = refusals
            assert f" {runtime} is not available in this version; " in refusal
            assert refusal.endswith(f"available: {', '.join(RUNTIMES)}.")


def test_no_row_is_outside_the_api() -> None:
    """Every row is a value of spec.server.runtime."""
    assert set(RUNTIMES) <= set(get_args(Runtime))


def test_limits_become_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that a descriptor does not support is refused with those that it supports."""
    two_gpus = BenchmarkRun.model_validate(
        run_with({"server": {"device": "GPU", "gpu": {"count": 2}}})
    )
    (limit,) = RUNTIMES["OnnxRuntime"].limits
    assert unavailable(two_gpus, place="Cluster") == (
        f"{limit.path}: 2 is not available in this version; available: 1.",
    )
    with monkeypatch.context() as patch:
        patch.setattr(
            "inferometer_api.plan.availability.RUNTIMES",
            {"OnnxRuntime": _with(limits=())},
        )
        assert unavailable(two_gpus, place="Cluster") == ()


def test_a_runtime_without_local_support_is_refused_locally(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A runtime that runs in clusters only is refused on a laptop, and named as such."""
    table = {"OnnxRuntime": _with(launch={"local": None}), "External": RUNTIMES["External"]}
    monkeypatch.setattr("inferometer_api.plan.availability.RUNTIMES", table)
    assert unavailable(_run("OnnxRuntime"), place="Local") == (
        "spec.server.runtime: OnnxRuntime runs in clusters only; available here: External.",
    )
    assert unavailable(_run("OnnxRuntime"), place="Cluster") == ()


def test_a_runtime_with_tls_may_be_given_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """load.tls is refused only if the runtime's server has no TLS."""
    run = BenchmarkRun.model_validate(with_value(a_run(), ("spec", "load"), {"tls": {}}))
    assert any("has no TLS" in each for each in unavailable(run, place="Local"))
    table = {"OnnxRuntime": replace(RUNTIMES["OnnxRuntime"], without_tls=lambda _: None)}
    monkeypatch.setattr("inferometer_api.plan.availability.RUNTIMES", table)
    assert unavailable(run, place="Local") == ()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_row_states_whether_inferometer_starts_the_server(runtime: str) -> None:
    """A launched runtime has a command, ports and paths; another one has none."""
    run = fill_defaults(_run(runtime))
    launch = RUNTIMES[run.spec.server.runtime].launch
    assert (launch is not None) == is_launched(run.spec)
    if launch is None:
        with pytest.raises(ValueError, match=f"with the runtime {runtime}"):
            launch_of(run.spec)
        return
    assert launch_of(run.spec) is launch
    containers = launch.containers(run, START)
    assert server_containers(run, launch, START) == containers
    assert containers[0].name == ("kserve-container" if launch.by_kserve else "server")
    assert all(isinstance(word, str) for each in containers for word in each.command)
    assert not launch.layout(run).model_path.startswith(("/", "."))
    assert launch.port("HTTP") == launch.http_port != launch.port("GRPC") == launch.grpc_port
    assert launch.ready_path.startswith("/")
    assert launch.local is None or isinstance(launch.local, LocalSupport)


@pytest.mark.parametrize("runtime", ["OnnxRuntime", "External"])
def test_a_restart_can_be_recognised(runtime: Runtime) -> None:
    """Inferometer's own server, launched or not, reports what differs between two starts."""
    assert RUNTIMES[runtime].restart_identity
