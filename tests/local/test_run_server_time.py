"""A run reports where its server spent the time of the requests."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from inferometer_api.results.result import ServerTime, Step
from support.local_runs import Done, done, together
from support.onnx_models import busy

CLIENTS: dict[str, Any] = {"concurrency": {"clients": [1, 4]}}


@pytest.fixture(scope="module")
def runs(
    require_quiet_module: Callable[[], None],  # Its window begins before the runs.
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Future[Done]]]:
    """Measure a model of some milliseconds over both protocols, one of them with joined batches."""
    folder = tmp_path_factory.mktemp("server-time")
    specs: dict[str, dict[str, Any]] = {
        "HTTP": {"load": {"protocol": "HTTP"}},
        "GRPC": {
            "load": {"protocol": "GRPC"},
            "server": {"batching": {"maxBatchSize": 4, "maxDelayMicroseconds": 20_000}},
        },
    }
    runs = {
        name: partial(
            done,
            folder / name,
            CLIENTS,
            model=busy(400),
            spec=spec,
            validity={"minDurationSeconds": 4},
        )
        for name, spec in specs.items()
    }
    with together(runs, at_once=1) as futures:
        yield futures


def _steps(run: Done) -> list[tuple[Step, ServerTime]]:
    assert run.result is not None, run.ended.stderr
    found = []
    for step in run.result.scenarios[0].steps:
        assert step.server_time is not None
        found.append((step, step.server_time))
    return found


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
def test_the_parts_are_within_the_latency(runs: dict[str, Future[Done]], protocol: str) -> None:
    """The parts add up to less than the latency, and count the requests of the window."""
    for step, spent in _steps(runs[protocol].result()):
        parts = (
            spent.queue_nanoseconds,
            spent.compute_input_nanoseconds,
            spent.compute_infer_nanoseconds,
            spent.compute_output_nanoseconds,
        )
        assert step.latency is not None
        assert 0 < sum(parts) < step.latency.max_nanoseconds
        assert spent.compute_infer_nanoseconds > spent.compute_input_nanoseconds
        assert spent.requests == pytest.approx(step.counts.queries, rel=0.5, abs=8)


def test_waiting_clients_are_in_the_queue(
    require_quiet_module: Callable[[], None], runs: dict[str, Future[Done]]
) -> None:
    """One instance computes one request at a time: with 4 clients most of the time is the queue."""
    (_, alone), (_, crowded) = _steps(runs["HTTP"].result())
    assert crowded.executions == crowded.requests
    assert crowded.queue_nanoseconds > crowded.compute_infer_nanoseconds
    require_quiet_module()
    assert alone.queue_nanoseconds < alone.compute_infer_nanoseconds


def test_joined_requests_share_an_execution(runs: dict[str, Future[Done]]) -> None:
    """With batching and 4 clients the model runs less often than there are requests."""
    _, (_, crowded) = _steps(runs["GRPC"].result())
    assert crowded.executions < crowded.requests


def test_the_table_and_the_report_show_it(runs: dict[str, Future[Done]]) -> None:
    """The terminal has a row for each step, and the report a row for each part."""
    run = runs["HTTP"].result()
    lines = [line.split() for line in run.ended.stdout.splitlines()]
    (head,) = [line for line in lines if line[:2] == ["server", "scenario"]]
    assert [word for word in head if word == "compute"] == ["compute"] * 3
    assert [line[:4] for line in lines if line[:1] == ["mean"]] == [
        ["mean", "s0,", "clients", number] for number in ("1", "4")
    ]
    page = (run.directory / "report.html").read_text()
    for part in ("queue", "compute input", "compute", "compute output"):
        assert f"clients 4 server: {part} (" in page
