"""The load generator follows no redirect and changes no path."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from typing_extensions import override

from inferometer_loadgen.server.control_plane import ControlPlane
from inferometer_loadgen.server.endpoint import endpoint_of
from support.load_runs import a_plan, measure
from support.oracle_http import MODEL
from support.oracle_process import oracle_process
from support.oracle_script import Script, delayed

CLOSED: dict[str, Any] = {"singleStream": {}}
CONTROL = [
    "/v2/health/ready",
    "/v2",
    f"/v2/models/{MODEL}",
    f"/v2/models/{MODEL}/ready",
    f"/v2/models/{MODEL}/config",
]


class _Secret(ThreadingHTTPServer):
    """A server that no redirect may lead to; `paths` are the requests that it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.paths: list[str] = []


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Record a request."""
        assert isinstance(self.server, _Secret)
        self.server.paths.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_POST = do_GET  # noqa: N815 - the library's name

    @override
    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def a_secret() -> Iterator[_Secret]:
    """Run a server that must get no request."""
    with _Secret() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_before_it_is_ready(status: int) -> None:
    """Any kind of redirect of the readiness is refused at once, with where it leads."""
    with a_secret() as secret:
        _is_refused(secret, CONTROL[0], status)


@pytest.mark.parametrize("path", CONTROL[1:])
def test_no_redirect_of_a_control_call_is_followed(path: str) -> None:
    """No answer of a server sends the load generator elsewhere."""
    with a_secret() as secret:
        _is_refused(secret, path, 302)


def test_the_control_plane_is_queried_by_the_path_as_written() -> None:
    """The path is the server's own; the load generator does not normalise it."""
    prefix = "/a/../b%zz/%7e//%2e./c"

    async def ask(port: int) -> None:
        control = ControlPlane(endpoint_of(f"http://127.0.0.1:{port}{prefix}", "HTTP"), MODEL, "")
        try:
            await control.wait_until_ready(10)
            await control.settings()
        finally:
            await control.close()

    with a_secret() as server:
        asyncio.run(ask(server.server_port))
    assert server.paths == [
        f"{prefix}{path}" for path in (CONTROL[0], CONTROL[2], CONTROL[3], CONTROL[4])
    ]


def _is_refused(secret: _Secret, path: str, status: int) -> None:
    where = f"http://127.0.0.1:{secret.server_port}/latest/meta-data"
    with oracle_process(Script(redirects={path: (status, where)}, settings={})) as oracle:
        run = measure(a_plan(oracle.url("HTTP"), CLOSED))
        assert oracle.received == 0
    assert secret.paths == []
    assert (run.exit_code, run.outcome.reason) == (2, "Redirected")
    assert f"answered {status} to GET {path}," in run.outcome.message
    assert where in run.outcome.message
    assert "never followed" in run.outcome.message


def test_a_redirected_inference_is_an_error_of_its_status() -> None:
    """Requests that are redirected from the first on are refused; later ones are errors."""
    with a_secret() as secret:
        where = f"http://127.0.0.1:{secret.server_port}/infer"
        infer = f"/v2/models/{MODEL}/infer"
        with oracle_process(Script(redirects={infer: (307, where)})) as oracle:
            run = measure(a_plan(oracle.url("HTTP"), CLOSED))
        assert (run.exit_code, run.outcome.reason) == (2, "RequestRefused")
        assert "307" in run.outcome.message

        turning = delayed(0.002, changes={10: {"redirects": {infer: (307, where)}}})
        with oracle_process(turning) as oracle:
            run = measure(a_plan(oracle.url("HTTP"), CLOSED, validity={"minQueries": 50}))
        counts = run.scenarios[0].steps[0].counts
        assert set(counts.errors) == {"status"}
        assert counts.errors["status"] > 0
        assert "307" in run.scenarios[0].steps[0].error_examples[0].message
        assert secret.paths == []
