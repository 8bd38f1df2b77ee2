"""A server that already runs is measured; one that does not answer is refused."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from support.inferometer_process import started
from support.local_runs import Done, done, together
from support.onnx_models import identity, save

CALM: dict[str, Any] = {"server": {"targetQps": 20}}
"""A scenario that leaves the cores to other runs."""


LARGE: dict[str, Any] = {"batch": {"batchSizes": [1, 5]}}


def _external(url: str, name: str, version: str | None = None) -> dict[str, Any]:
    model = {"name": name} if version is None else {"name": name, "version": version}
    return {
        "model": model,
        "server": {"runtime": "External", "external": {"url": url}, "readyDeadlineSeconds": 2},
        "load": {"protocol": "GRPC" if url.startswith("grpc") else "HTTP"},
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Done]]]:
    """Measure one `inferometer serve`, and a port where nothing listens."""
    folder = tmp_path_factory.mktemp("external")
    save(identity(), folder / "tiny.onnx")
    words = (
        *("serve", "file:tiny.onnx", "--http-port", "0", "--grpc-port", "0"),
        *("--max-batch-size", "4"),
    )
    with (
        started(folder, *words) as server,
        socket.socket() as closed,
    ):
        ports = json.loads(server.wait_for("event=ready").first_line())
        closed.bind(("127.0.0.1", 0))
        http = f"http://127.0.0.1:{ports['httpPort']}"
        grpc = f"grpc://127.0.0.1:{ports['grpcPort']}"
        scenarios = {
            "http": _external(http, "tiny", "1"),
            "grpc": _external(grpc, "tiny"),
            "wrong name": _external(http, "resnet"),
            "wrong version": _external(grpc, "tiny", "7"),
            "nothing": _external(f"http://127.0.0.1:{closed.getsockname()[1]}", "tiny"),
            "nothing at once": _external(f"grpc://127.0.0.1:{closed.getsockname()[1]}", "tiny"),
        }
        # The default, which refuses a server that cannot be reached, takes minutes otherwise.
        del scenarios["nothing at once"]["server"]["readyDeadlineSeconds"]
        large = {f"large batch over {name}": scenarios[name] for name in ("http", "grpc")}
        with together(
            {
                name: partial(done, folder / name, CALM, spec=spec)
                for name, spec in scenarios.items()
            }
            | {
                name: partial(done, folder / name, LARGE, spec=spec) for name, spec in large.items()
            },
            at_once=3,
        ) as futures:
            yield futures


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_server_that_serves_is_measured(runs: dict[str, Future[Done]], protocol: str) -> None:
    """It is measured as it is, the result says that it was not started here, and it stays."""
    run = runs[protocol].result()
    assert run.result is not None, run.ended.stderr
    assert run.outcome == ("Complete", "Measured")
    assert run.result.environment is not None
    assert not run.result.environment.server.launched
    assert run.result.environment.server.url.startswith(f"{protocol}://127.0.0.1:")
    assert run.result.environment.model.name == "tiny"
    assert run.result.scenarios[0].steps[0].counts.succeeded > 0
    first = run.result.first_query_at
    assert first is not None
    assert run.result.started_at < first < run.result.finished_at
    assert "fetching" not in run.ended.stderr


@pytest.mark.parametrize("name", ["wrong name", "wrong version"])
def test_a_model_that_is_not_served_is_refused(runs: dict[str, Future[Done]], name: str) -> None:
    """A name or version that the server does not have ends the run with 2 and names it."""
    run = runs[name].result()
    assert run.ended.code == 2
    scenarios = "'resnet'" if name == "wrong name" else "'tiny', version '7'"
    assert f"does not serve the model {scenarios}" in run.ended.sentence


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_batch_that_the_server_does_not_take_is_refused(
    runs: dict[str, Future[Done]], protocol: str
) -> None:
    """The run ends with 2 before it measures, since the configuration has the largest batch."""
    run = runs[f"large batch over {protocol}"].result()
    assert run.ended.code == 2
    assert "The server accepts at most 4 samples per request" in run.ended.sentence
    assert not run.directory.exists()


def test_nothing_that_listens_is_a_failure(runs: dict[str, Future[Done]]) -> None:
    """An address where nothing answers ends the run with 1 after readyDeadlineSeconds."""
    run = runs["nothing"].result()
    assert run.ended.code == 1
    assert "was not ready within 2 s" in run.ended.sentence
    assert not run.directory.exists()


def test_nothing_that_listens_is_refused_at_once_unless_the_run_waits(
    runs: dict[str, Future[Done]],
) -> None:
    """Without readyDeadlineSeconds the run ends with 2 and says how to wait for a server."""
    run = runs["nothing at once"].result()
    assert run.ended.code == 2
    assert "No server can be reached at grpc://127.0.0.1:" in run.ended.sentence
    assert "Connection refused" in run.ended.sentence
    assert "add --wait SECONDS" in run.ended.sentence
    assert not run.directory.exists()
