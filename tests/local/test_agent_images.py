"""The image remover as a process: real sockets, a scripted container runtime and API server."""

import json
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from typing_extensions import override

from inferometer_api.nodes.image_removal import REMOVAL_AUDIENCE, REMOVAL_PATH
from support.scripted_runtime import (
    EXITED,
    RUNNING,
    SANDBOX_OVER,
    SANDBOX_READY,
    ScriptedRuntime,
    runtime_socket,
)
from support.signed_tls import signed_certificate

SERVING, TAG = "inferometer-serving:0.1.0", "docker.io/library/inferometer-serving:0.1.0"
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_KNOWN = "operators-token"
_ACCOUNTS = {
    _KNOWN: ("system:serviceaccount:bench:inferometer-operator", [REMOVAL_AUDIENCE]),
    "strangers-token": ("system:serviceaccount:bench:someone", [REMOVAL_AUDIENCE]),
    "token-for-others": ("system:serviceaccount:bench:inferometer-operator", ["elsewhere"]),
}


class _ApiServer(BaseHTTPRequestHandler):
    """Answers TokenReviews of the pod's account."""

    def do_POST(self) -> None:
        """Answer who a token belongs to."""
        assert self.path == "/apis/authentication.k8s.io/v1/tokenreviews"
        assert self.headers["Authorization"] == "Bearer own"
        spec = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["spec"]
        assert spec["audiences"] == [REMOVAL_AUDIENCE]
        status: dict[str, Any] = {"authenticated": False}
        if spec["token"] in _ACCOUNTS:
            user, audiences = _ACCOUNTS[spec["token"]]
            status = {"authenticated": True, "user": {"username": user}, "audiences": audiences}
        body = json.dumps({"status": status}).encode()
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, *_: Any) -> None:
        """Write no log."""


class Remover:
    """A running image remover, and the runtime that it calls."""

    def __init__(self, folder: Path, runtime: ScriptedRuntime, port: int) -> None:
        self.runtime = runtime
        (folder / "token").write_text("own\n")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "inferometer_telemetry.images", "--port", "0"),
                *("--runtime-socket", str(folder / "cri.sock")),
                *("--repository", "inferometer-serving", "--pause-seconds", "3600"),
                *("--operator", "bench/inferometer-operator"),
                *("--api-server", f"https://127.0.0.1:{port}"),
                *("--api-authority", str(folder / "authority.pem")),
                *("--api-token", str(folder / "token")),
            ],
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self._port = json.loads(self.process.stdout.readline())["port"]

    def remove(self, *images: str, token: str = _KNOWN) -> tuple[int, dict[str, Any]]:
        """Request the removal of images; return the status and the answer."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{REMOVAL_PATH}",
            json.dumps({"images": images}).encode(),
            {"Authorization": f"Bearer {token}"} if token else {},
        )
        try:
            with _DIRECT.open(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)


@pytest.fixture
def remover(tmp_path: Path) -> Iterator[Remover]:
    """Run the remover next to a runtime that has the serving image and one of someone else."""
    tls = signed_certificate(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _ApiServer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    runtime = ScriptedRuntime({"sha256:1": [TAG], "sha256:2": ["docker.io/library/others:1"]})
    with runtime_socket(runtime, tmp_path / "cri.sock"):
        made = Remover(tmp_path, runtime, server.server_port)
        try:
            yield made
        finally:
            made.process.terminate()
            assert made.process.wait() == 0
            assert made.process.stdout is not None
            made.process.stdout.close()
            server.shutdown()
            server.server_close()


def test_an_operator_removes_an_image_that_no_pod_uses(remover: Remover) -> None:
    """The container of a pod that is over does not count, and the second request has to wait."""
    remover.runtime.containers = [("bench/done", "sha256:1", EXITED, SANDBOX_OVER)]
    assert remover.remove(SERVING) == (200, {"removed": [SERVING], "absent": []})
    assert remover.runtime.removals == ["sha256:1"]
    status, answer = remover.remove(SERVING)
    assert (status, answer["error"]) == (429, "Images are removed once in 3600 s at most.")


def test_an_image_that_is_absent_is_reported_as_such(remover: Remover) -> None:
    """A repeated request does no harm."""
    del remover.runtime.images["sha256:1"]
    assert remover.remove(SERVING) == (200, {"removed": [], "absent": [SERVING]})
    assert remover.runtime.removals == []


@pytest.mark.parametrize(("state", "sandbox"), [(RUNNING, SANDBOX_READY), (EXITED, SANDBOX_READY)])
def test_an_image_that_a_pod_uses_stays(remover: Remover, state: int, sandbox: int) -> None:
    """A container that has ended may start again as long as its pod is there."""
    remover.runtime.containers = [("team/server", "sha256:1", state, sandbox)]
    assert remover.remove(SERVING) == (409, {"error": f"The pod team/server uses {SERVING}."})
    assert remover.runtime.removals == []


def test_an_image_of_someone_else_stays(remover: Remover) -> None:
    """Only repositories of the chart's values are removed, and then all of a request or none."""
    status, answer = remover.remove(SERVING, "others:1")
    assert status == HTTPStatus.FORBIDDEN
    assert "others:1 is none of the images that may be removed" in answer["error"]
    assert remover.runtime.removals == []


@pytest.mark.parametrize(
    ("token", "status", "words"),
    [
        ("", 401, "no bearer token"),
        ("unknown", 401, "not valid here"),
        ("token-for-others", 401, "not valid here"),
        ("strangers-token", 403, "bench:someone is none of the operators"),
    ],
)
def test_no_other_caller_removes_anything(
    remover: Remover, token: str, status: int, words: str
) -> None:
    """Only the accounts of the chart's values, by a token for this purpose."""
    found, answer = remover.remove(SERVING, token=token)
    assert found == status
    assert words in answer["error"]
    assert remover.runtime.removals == []


def test_a_runtime_that_fails_is_reported_in_its_words(remover: Remover) -> None:
    """The operator must not take the image for removed."""
    remover.runtime.fault = "image is locked"
    status, answer = remover.remove(SERVING)
    assert status == HTTPStatus.BAD_GATEWAY
    assert "refuses RemoveImage: image is locked" in answer["error"]


def test_a_removal_without_effect_is_no_success(remover: Remover) -> None:
    """The runtime is queried again afterwards."""
    remover.runtime.keeps = True
    status, answer = remover.remove(SERVING)
    assert status == HTTPStatus.BAD_GATEWAY
    assert answer["error"] == f"The container runtime still has {SERVING}."
