"""The load generator verifies TLS, refuses what it cannot trust, and sends custom headers."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from inferometer_api.plan.load_plan import LoadPlan
from support.load_runs import LoadRun, a_plan, measure
from support.oracle_process import OracleProcess, oracle_process
from support.oracle_script import Script
from support.oracle_server import Listen
from support.signed_tls import signed_certificate
from support.tls_party import Shown, files

BOTH = pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
SECRET = "s3cr3t-t0ken"  # noqa: S105 - no secret of anybody's
CLOSED: dict[str, Any] = {"singleStream": {}}
OPEN: dict[str, Any] = {"server": {"targetQps": 50}}


@contextmanager
def secured(
    folder: Path, shown: Shown = "server", *, wants_client: bool = False
) -> Iterator[OracleProcess]:
    """Run an oracle that speaks TLS alone."""
    listen = Listen(tls_folder=str(folder), shown=shown, wants_client=wants_client)
    with oracle_process(Script(settings={}), listen) as oracle:
        yield oracle


def planned(
    oracle: OracleProcess, protocol: str, *scenarios: dict[str, Any], name: str = "", **paths: Path
) -> LoadPlan:
    """Build a plan of the files that it is given, by the names of LoadPlan's fields."""
    tls = {} if not name else {"tls": {"serverName": name}}
    plan = a_plan(oracle.url(protocol), *(scenarios or (CLOSED,)), load=tls)
    return plan.model_copy(update={key: str(path) for key, path in paths.items()})


@BOTH
def test_a_server_with_tls_is_measured(protocol: str, tmp_path: Path) -> None:
    """Every request is sent over TLS with the headers, whose values appear nowhere."""
    headers = tmp_path / "headers.txt"
    headers.write_text(f"Authorization: Bearer {SECRET}\n\nX-Team: a b\n")
    ours = files(tmp_path, "client")
    with secured(tmp_path, wants_client=True) as oracle:
        plan = planned(
            oracle,
            protocol,
            CLOSED,
            OPEN,
            tls_ca_file=ours.authority,
            tls_certificate_file=ours.certificate,
            tls_key_file=ours.key,
            headers_file=headers,
        )
        run = measure(plan)
    assert run.outcome.message == ""
    for scenario in run.scenarios:
        assert scenario.steps[0].counts.errors == {}
        assert scenario.steps[0].counts.succeeded > 10
    assert len(oracle.headers) > oracle.received > 20
    # The first handshake of HTTP checks TLS alone.
    authorized = [each for each in oracle.headers if "authorization" in each]
    assert len(oracle.headers) - len(authorized) <= 1
    assert {(each["authorization"], each["x-team"]) for each in authorized} == {
        (f"Bearer {SECRET}", "a b")
    }
    assert SECRET not in reports_text(run)


class _Echo(BaseHTTPRequestHandler):
    """Is ready, and refuses every inference with the caller's own header in its words."""

    def do_GET(self) -> None:
        """Describe a model of one input."""
        tensor = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
        self._answer(200, {"name": "m", "inputs": [tensor], "outputs": [tensor]})

    def do_POST(self) -> None:
        """Refuse."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(401, {"error": f"no such user: {self.headers['Authorization']}"})

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def test_a_refusal_that_quotes_our_headers_keeps_their_secret(tmp_path: Path) -> None:
    """A server's words are quoted, without the values of headers in them."""
    headers = tmp_path / "headers.txt"
    headers.write_text(f"Authorization: Bearer {SECRET}\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            plan = a_plan(f"http://127.0.0.1:{server.server_port}", CLOSED)
            run = measure(plan.model_copy(update={"headers_file": str(headers)}))
        finally:
            server.shutdown()
            thread.join()
    assert (run.exit_code, run.outcome.reason) == (2, "RequestRefused")
    assert "no such user: ***" in run.outcome.message
    assert SECRET not in reports_text(run)


def reports_text(run: LoadRun) -> str:
    """Return all reports of a load generator."""
    parts = [run.outcome, run.environment, *run.scenarios, *run.progress]
    return "".join(part.model_dump_json() for part in parts if part is not None)


@BOTH
@pytest.mark.parametrize(
    ("shown", "wants_client", "given", "words"),
    [
        ("server", False, {}, "no authority that this machine trusts"),
        ("server", False, {"tls_ca_file": "other"}, "no authority that is in"),
        ("expired", False, {"tls_ca_file": "ours"}, "has expired"),
        ("named", False, {"tls_ca_file": "ours"}, "is not for 127.0.0.1"),
        ("server", True, {"tls_ca_file": "ours"}, "requires a client certificate"),
        (
            "server",
            True,
            {"tls_ca_file": "ours", "tls_certificate_file": "leaf", "tls_key_file": "leaf_key"},
            "rejects the client certificate",
        ),
    ],
)
def test_what_cannot_be_trusted_is_refused_at_once(
    protocol: str,
    shown: Shown,
    wants_client: bool,  # noqa: FBT001 - by name, from the table above
    given: dict[str, str],
    words: str,
    tmp_path: Path,
) -> None:
    """Authority, time, name and client: each fault is a sentence that says what to do."""
    stranger = signed_certificate(tmp_path / "..")
    at = {
        "ours": files(tmp_path, "client").authority,
        "other": tmp_path / "other.pem",
        "leaf": stranger.certificate,
        "leaf_key": stranger.key,
    }
    at["other"].write_text(stranger.authority.read_text())
    with secured(tmp_path, shown, wants_client=wants_client) as oracle:
        run = measure(
            planned(oracle, protocol, name="", **{key: at[which] for key, which in given.items()})
        )
    assert (run.exit_code, run.outcome.reason) == (2, "TlsRefused"), run.outcome
    assert words in run.outcome.message
    assert "load.tls" in run.outcome.message or "Renew it" in run.outcome.message
    assert oracle.received == 0
    assert oracle.headers == []


@BOTH
def test_another_name_may_be_asked_for(protocol: str, tmp_path: Path) -> None:
    """A certificate for another name is good where tls.serverName names it."""
    authority = files(tmp_path, "named").authority
    with secured(tmp_path, "named") as oracle:
        run = measure(planned(oracle, protocol, name="model.test", tls_ca_file=authority))
    assert run.outcome.message == ""
    assert run.scenarios[0].steps[0].counts.succeeded > 10


@BOTH
def test_a_close_within_tls_is_reported_with_a_hint(protocol: str, tmp_path: Path) -> None:
    """The handshake's own sentence is quoted, and the hint fits the protocol."""
    scheme = protocol.lower()
    with closing() as port:
        plan = hasty(f"{scheme}s://127.0.0.1:{port}")
        authority = files(tmp_path, "server").authority
        run = measure(plan.model_copy(update={"tls_ca_file": str(authority)}))
    assert run.exit_code == 1
    assert (
        "it closed the connection during the TLS handshake; it may want a client's"
        in run.outcome.message
    )
    assert f"or this may be a port without TLS ({scheme}://)." in run.outcome.message


def hasty(url: str) -> LoadPlan:
    """Build a plan that waits a second for its server."""
    server = {"runtime": "External", "external": {"url": url}, "readyDeadlineSeconds": 1}
    return a_plan(url, CLOSED, spec={"server": server})


@contextmanager
def closing() -> Iterator[int]:
    """Listen at a port, and close each connection with its first words."""

    class Closing(socketserver.BaseRequestHandler):
        @override
        def handle(self) -> None:
            self.request.recv(1)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Closing) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("protocol", "scheme"), [("HTTP", "https"), ("GRPC", "grpcs")])
def test_a_plain_url_of_a_tls_port_is_refused(protocol: str, scheme: str, tmp_path: Path) -> None:
    """Where a server speaks TLS alone, the run ends at once with the scheme to write."""
    with secured(tmp_path) as oracle:
        run = measure(hasty(oracle.url(protocol).replace("s://", "://")))
    assert (run.exit_code, run.outcome.reason) == (2, "ProtocolMismatch")
    assert f"Write {scheme}:// instead of " in run.outcome.message


@BOTH
def test_a_port_without_tls_is_reported(protocol: str, tmp_path: Path) -> None:
    """A server without TLS on its port is named as such."""
    with oracle_process() as oracle:
        plan = planned(oracle, protocol, tls_ca_file=files(tmp_path, "server").authority)
        secure = plan.servers[0].url.replace("://", "s://")
        servers = [plan.servers[0].model_copy(update={"url": secure})]
        run = measure(plan.model_copy(update={"servers": servers}))
    assert (run.exit_code, run.outcome.reason) == (2, "TlsRefused"), run.outcome
    assert "does not use TLS on this port" in run.outcome.message
