"""Tests of fetching models over https: their size is limited and their content checked."""

import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from typing_extensions import override

from inferometer_fetch import transfer
from inferometer_fetch.data_files import fetch_inputs, fetch_trace
from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.model import fetch_model
from inferometer_models.errors import ModelRefusedError
from support import onnx_models
from support.loopback_tls import certificate_file, server_context

MODEL = onnx_models.identity().SerializeToString()
SHA256 = hashlib.sha256(MODEL).hexdigest()


class _Host(BaseHTTPRequestHandler):
    """A host of one model, by several addresses."""

    redirects: ClassVar[dict[str, str]] = {
        "/moved.onnx": "/copy.onnx",
        "/insecure.onnx": "http://127.0.0.1:1/copy.onnx",
        "/local.onnx": "file:///etc/hostname",
        "/hidden.onnx": "http://the-password.internal/",
    }

    def do_GET(self) -> None:
        if self.path in self.redirects:
            self.send_response(302)
            self.send_header("Location", self.redirects[self.path])
            self.end_headers()
        elif self.path.startswith("/copy.onnx"):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(MODEL)
        elif self.path == "/busy.onnx" or (
            self.path == "/blinks.onnx" and next(self.blinks, None) is not None
        ):
            self.send_error(503)
        elif self.path == "/blinks.onnx":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(MODEL)
        elif self.path == "/short.onnx":
            self.send_response(200)
            self.send_header("Content-Length", str(len(MODEL) + 1))
            self.end_headers()
            self.wfile.write(MODEL)
        elif self.path == "/odd.onnx":
            self.send_response(418, "the-password")
            self.end_headers()
        elif self.path == "/ssh.onnx":
            self.wfile.write(b"the-password\r\n\r\n")
        else:
            self.send_error(404)

    blinks: ClassVar[Iterator[int]] = iter(())

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next try follow at once."""
    monkeypatch.setattr(transfer, "_PAUSES_SECONDS", (0.0, 0.0))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve the model over https on loopback, trusted by this test."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate_file(tmp_path)))
    monkeypatch.setattr(_Host, "blinks", iter(range(2)))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Host)
    server.socket = server_context(tmp_path).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("path", ["odd.onnx", "ssh.onnx", "hidden.onnx", "copy.onnx"])
def test_nothing_that_a_host_sends_is_quoted(host: str, tmp_path: Path, path: str) -> None:
    """An author of a run could read what only pods reach: status lines, addresses, checksums."""
    with pytest.raises((ModelRefusedError, FetchFailedError)) as caught:
        _fetch(f"{host}/{path}", tmp_path, sha256="0" * 64)
    assert "the-password" not in str(caught.value)
    assert SHA256 not in str(caught.value)


@pytest.mark.parametrize("sha256", [None, "0" * 64])
def test_inputs_and_traces_need_their_checksum(
    host: str, tmp_path: Path, sha256: str | None
) -> None:
    """Without it, or with another file at the address, nothing is kept."""
    target = tmp_path / "file"
    for fetch in (fetch_inputs, fetch_trace):
        with pytest.raises(ModelRefusedError, match="sha256") as caught:
            fetch(f"{host}/copy.onnx", target, sources=None, max_bytes=1 << 20, sha256=sha256)
        assert SHA256 not in str(caught.value)
        assert not target.exists()
    fetched = fetch_trace(
        f"{host}/copy.onnx", target, sources=None, max_bytes=1 << 20, sha256=SHA256
    )
    assert fetched.read_bytes() == MODEL


def _fetch(uri: str, folder: Path, sha256: str = SHA256, max_bytes: int = 1 << 20) -> Path:
    fetched = folder / "fetched"
    return fetch_model(uri, fetched, relative_to=folder, sha256=sha256, max_bytes=max_bytes).path


@pytest.mark.parametrize("path", ["copy.onnx", "copy.onnx?version=3", "moved.onnx"])
def test_a_model_is_fetched(host: str, tmp_path: Path, path: str) -> None:
    """A model of the checksum given is fetched, over redirects to https too."""
    found = _fetch(f"{host}/{path}", tmp_path)
    assert found.read_bytes() == MODEL
    assert found.name == path.partition("?")[0]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("nope.onnx", "404"),
        ("insecure.onnx", "is not https"),
        ("local.onnx", "is not https"),
    ],
)
def test_what_cannot_be_fetched_is_refused(
    host: str, tmp_path: Path, path: str, sentence: str
) -> None:
    """A missing file and a redirect away from https are refused."""
    with pytest.raises(ModelRefusedError, match=sentence):
        _fetch(f"{host}/{path}", tmp_path)
    assert not list((tmp_path / "fetched").glob("*"))


@pytest.mark.parametrize(
    ("path", "sentence"), [("short.onnx", "ended 1 bytes early"), ("busy.onnx", "503")]
)
def test_a_network_that_fails_is_tried_again(
    host: str, tmp_path: Path, path: str, sentence: str
) -> None:
    """A transfer cut short and an overloaded host fail after three tries, and leave nothing."""
    with pytest.raises(FetchFailedError, match=f"in 3 tries: .*{sentence}"):
        _fetch(f"{host}/{path}", tmp_path)
    assert not list((tmp_path / "fetched").glob("*"))


def test_a_network_that_blinks_is_forgiven(host: str, tmp_path: Path) -> None:
    """A host that answers the third try has given its model."""
    assert _fetch(f"{host}/blinks.onnx", tmp_path).read_bytes() == MODEL


def test_a_host_that_is_not_there_may_come_back(tmp_path: Path) -> None:
    """A connection that is refused is a fault that may pass."""
    with pytest.raises(FetchFailedError, match="refused"):
        _fetch("https://127.0.0.1:1/m.onnx", tmp_path)


@pytest.mark.parametrize("address", ["[", "a..b", "127.0.0.1:port"])
def test_a_malformed_address_is_refused(tmp_path: Path, address: str) -> None:
    """What can be no URL is refused, without another try."""
    with pytest.raises(ModelRefusedError, match="cannot be fetched"):
        _fetch(f"https://{address}/m.onnx", tmp_path)


@pytest.mark.parametrize(
    ("code", "fault"),
    [(socket.EAI_NONAME, ModelRefusedError), (socket.EAI_AGAIN, FetchFailedError)],
)
def test_an_unresolvable_host_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, fault: type[Exception]
) -> None:
    """A host of no known name is refused; a name server that does not answer may come back."""

    def unknown(*_: object) -> None:
        raise socket.gaierror(code, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(fault, match="no such name"):
        _fetch("https://models.example/m.onnx", tmp_path)


def test_another_checksum_is_refused(host: str, tmp_path: Path) -> None:
    """A file of another checksum is refused, and does not stay."""
    with pytest.raises(ModelRefusedError, match="should have the sha256"):
        _fetch(f"{host}/copy.onnx", tmp_path, sha256="0" * 64)
    assert not list((tmp_path / "fetched").glob("*"))


def test_a_large_file_is_refused(host: str, tmp_path: Path) -> None:
    """A file over the limit is refused while it comes in, and does not stay."""
    with pytest.raises(ModelRefusedError, match="larger than the 10 bytes"):
        _fetch(f"{host}/copy.onnx", tmp_path, max_bytes=10)
    assert not list((tmp_path / "fetched").glob("*"))


def test_an_untrusted_host_is_refused(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host with an untrusted certificate is refused."""
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(ModelRefusedError, match="certificate"):
        _fetch(f"{host}/copy.onnx", tmp_path)
