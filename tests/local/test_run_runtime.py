"""A local run starts any server from its descriptor: ports, layout, command and readiness."""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from inferometer_api.runtimes import table
from inferometer_api.runtimes.descriptor import LocalSupport, ServerContainer, ServerStart
from inferometer_api.runtimes.table import RUNTIMES
from inferometer_api.spec.resolve import fill_defaults
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import FailedError
from inferometer_cli.local.prometheus_targets import PrometheusTargets
from inferometer_cli.local.replaceable_server import ReplaceableServer
from inferometer_cli.local.run import RunOptions, run_locally
from inferometer_cli.local.server import TargetServer
from support.inferometer_process import SHORT
from support.onnx_models import identity, save
from support.runs import a_run
from support.toy_runtime import NAME, TOY
from support.waiting import DEADLINE_SECONDS

SCRIPT = """\
import http.server, json, os, pathlib, sys
repository, port, grpc, metrics, polled = sys.argv[1], int(sys.argv[2]), *sys.argv[3:6]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        pathlib.Path(polled).open("a").write(self.path + "\\n")
        polls = len(pathlib.Path(polled).read_text().splitlines())
        self.send_response(200 if polls > 2 else 503)
        self.end_headers()
    def log_message(self, *words):
        print(*words, flush=True)
files = [str(each.relative_to(repository)) for each in pathlib.Path(repository).rglob("*")]
facts = {"files": sorted(files), "grpc": grpc, "metrics": metrics, "toy": os.environ["TOY"]}
pathlib.Path(polled).with_suffix(".json").write_text(json.dumps(facts))
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
"""A server that is ready at the third poll."""


@pytest.fixture
def add_row(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Return a function that gives the toy's row the containers of a function."""

    def add(containers: Callable[[BenchmarkRun, ServerStart], tuple[ServerContainer, ...]]) -> None:
        launch = TOY.launch
        assert launch is not None
        monkeypatch.setitem(
            table._ROWS, NAME, replace(TOY, launch=replace(launch, containers=containers))
        )

    return add


def toy_run(folder: Path, **spec: Any) -> BenchmarkRun:
    """Return a run of a model in a folder, with the toy as its server."""
    save(identity(), folder / "net.onnx")
    server = {"runtime": NAME, **spec.pop("server", {})}
    run = a_run(model={"uri": "file:net.onnx"}, server=server, **spec)
    return fill_defaults(BenchmarkRun.model_validate(run))


def script(*words: str, code: str = SCRIPT) -> Callable[..., tuple[ServerContainer, ...]]:
    """Return containers whose server is a Python script with the ports and further words."""

    def containers(_: BenchmarkRun, start: ServerStart) -> tuple[ServerContainer, ...]:
        listen = start.listen
        ports = (str(each) for each in (listen.http_port, listen.grpc_port, listen.metrics_port))
        command = (sys.executable, "-c", code, start.layout.root, *ports, *words)
        return (ServerContainer(image="toy", command=command, env={"TOY": "1"}),)

    return containers


def start(run: BenchmarkRun, folder: Path) -> TargetServer:
    """Start the server of a run, stop it, and return what the load generator would get."""

    async def start_and_stop() -> TargetServer:
        async with asyncio.timeout(DEADLINE_SECONDS), AsyncExitStack() as stack:
            server = await ReplaceableServer.start(run, folder, None, stack, lambda _: None)
            assert server.current.process is not None
            return server.current

    return asyncio.run(start_and_stop())


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
def test_a_server_gets_ports_and_files_and_is_polled(
    tmp_path: Path, add_row: Callable[..., None], protocol: Literal["HTTP", "GRPC"]
) -> None:
    """The run chooses three ports, fetches the layout, and waits until the ready path answers."""
    polls = tmp_path / "polls"
    add_row(script(str(polls)))
    server = start(toy_run(tmp_path, load={"protocol": protocol}), tmp_path)
    facts = json.loads(polls.with_suffix(".json").read_text())
    assert facts["files"] == ["net", "net/1", "net/1/model.onnx", "net/config.pbtxt"]
    assert facts["toy"] == "1"
    assert polls.read_text().splitlines() == ["/ready"] * 3
    assert server.metrics_address == f"127.0.0.1:{facts['metrics']}"
    scheme, _, port = server.url.replace("//127.0.0.1", "").partition(":")
    assert scheme == {"HTTP": "http", "GRPC": "grpc"}[protocol]
    assert (port.lstrip(":") == facts["grpc"]) is (protocol == "GRPC")
    assert len({port.lstrip(":"), facts["metrics"]}) == 2
    assert server.ready_by is None


def test_a_server_that_dies_while_it_is_polled_has_failed(
    tmp_path: Path, add_row: Callable[..., None]
) -> None:
    """The run does not wait for the deadline, and shows what the server printed on any output."""
    add_row(script(code="import sys; print('no room'); sys.exit(2)"))
    with pytest.raises(
        FailedError, match=r"died before it was ready \(exit code 2\)\.[^$]*no room"
    ):
        start(toy_run(tmp_path), tmp_path)


def test_a_server_that_is_never_ready_has_failed(
    tmp_path: Path, add_row: Callable[..., None]
) -> None:
    """After readyDeadlineSeconds the run ends with the server's last output."""
    add_row(script(code="import time; print('still loading', flush=True); time.sleep(600)"))
    with pytest.raises(FailedError, match=r"not ready within 1 s [^$]*still loading"):
        start(toy_run(tmp_path, server={"readyDeadlineSeconds": 1}), tmp_path)


def test_a_polled_server_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole run works with a server whose announcements the run does not read."""
    usual = RUNTIMES["OnnxRuntime"]
    assert usual.launch is not None
    toy = LocalSupport(program="Toy", installation="it", announces_ports=False)
    # The load generator is another process, which has only the real rows.
    row = replace(usual, launch=replace(usual.launch, local=toy))
    monkeypatch.setitem(table._ROWS, "OnnxRuntime", row)
    run = toy_run(
        tmp_path,
        server={"runtime": "OnnxRuntime"},
        scenarios=[{"name": "a", "server": {"targetQps": 20}}],
        validity={**SHORT},
    )

    async def measure() -> Any:
        options = RunOptions(PrometheusTargets(None, "test"))
        stopped: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await run_locally(
                run, base=tmp_path, options=options, stopped=stopped, watch=lambda _: None
            )

    result = asyncio.run(measure())
    assert result.outcome.state == "Complete", result.outcome.message
    assert len(result.scenarios) == 1
