"""Tests of fetching models and inputs from a real S3-compatible store."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from typing_extensions import override

from inferometer_fetch import __main__ as fetcher
from inferometer_fetch import transfer
from inferometer_fetch.cache import download
from inferometer_fetch.cache.access import Access
from inferometer_fetch.cache.download import Downloads
from inferometer_fetch.cache.request import ModelRequest
from inferometer_fetch.cache.store import ModelStore
from inferometer_fetch.data_files import fetch_inputs
from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.model import fetch_model
from inferometer_fetch.object_store import ObjectStore
from inferometer_models.errors import ModelRefusedError
from support import onnx_models
from support.object_store import keys, object_store
from support.signed_tls import signed_certificate

MODEL = onnx_models.identity().SerializeToString()
SHA256 = hashlib.sha256(MODEL).hexdigest()


@pytest.fixture(scope="module")
def buckets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a bucket of models."""
    folder = tmp_path_factory.mktemp("store") / "buckets"
    models = folder / "models"
    (models / "a").mkdir(parents=True)
    (models / "a" / "my net é+1.onnx").write_bytes(MODEL)
    (models / "top.onnx").write_bytes(MODEL)
    for name, location in (
        ("whole", "w/data.bin"),
        ("odd", "../data.bin"),
        ("half", "none.bin"),
        ("same", "inputs.npz"),
    ):
        (models / name / "w").mkdir(parents=True)
        onnx_models.write_with_external_data(models / name, location)
    (models / "same" / "weights.bin").rename(models / "same" / "inputs.npz")
    (models / "whole" / "weights.bin").rename(models / "whole" / "w" / "data.bin")
    np.savez(models / "samples.npz", x=np.zeros((2, 3), np.float32))
    return folder


@pytest.fixture(scope="module")
def port(program: Path, buckets: Path) -> Iterator[int]:
    """Run the store."""
    with object_store(program, buckets) as port:
        yield port


@pytest.fixture
def endpoint(port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give this process the keys of the store, and return its address."""
    monkeypatch.setattr(transfer, "_PAUSES_SECONDS", (0.0, 0.0))
    found = f"http://127.0.0.1:{port}"
    _set_environment(monkeypatch, keys(found))
    return found


def _set_environment(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)


def _fetch(uri: str, folder: Path, sha256: str | None = None, max_bytes: int = 1 << 20) -> Path:
    model = fetch_model(
        uri,
        folder / "fetched",
        relative_to=folder,
        sha256=sha256,
        max_bytes=max_bytes,
        file_name="model.onnx",
    )
    return model.path


@pytest.mark.parametrize("key", ["a/my%20net%20%C3%A9+1.onnx", "top.onnx"])
def test_a_model_is_fetched(endpoint: str, tmp_path: Path, key: str) -> None:
    """An object is fetched by its key, checked, and called as the caller says."""
    found = _fetch(f"s3://models/{key}", tmp_path, SHA256)
    assert found == tmp_path / "fetched" / "model.onnx"
    assert found.read_bytes() == MODEL


def test_external_data_comes_along(endpoint: str, tmp_path: Path, buckets: Path) -> None:
    """The external data of a model is fetched into the model's folder."""
    (model,) = (buckets / "models" / "whole").glob("*.onnx")
    _fetch(f"s3://models/whole/{model.name}", tmp_path)
    data = (buckets / "models" / "whole" / "w" / "data.bin").read_bytes()
    assert (tmp_path / "fetched" / "w" / "data.bin").read_bytes() == data
    with pytest.raises(ModelRefusedError, match="larger than"):
        _fetch(f"s3://models/whole/{model.name}", tmp_path, max_bytes=model.stat().st_size + 1)


@pytest.mark.parametrize(
    ("folder", "sentence"),
    [("odd", "outside its own folder"), ("half", r"external data s3://models/half/none\.bin")],
)
def test_external_data_elsewhere_is_refused(
    endpoint: str, tmp_path: Path, buckets: Path, folder: str, sentence: str
) -> None:
    """External data that would leave the model's folder, or is not there, is refused."""
    (model,) = (buckets / "models" / folder).glob("*.onnx")
    with pytest.raises(ModelRefusedError, match=sentence):
        _fetch(f"s3://models/{folder}/{model.name}", tmp_path)


@pytest.mark.parametrize(
    ("uri", "overrides", "sentence"),
    [
        ("s3://models/none.onnx", {}, "does not exist, according to .*NoSuchKey"),
        ("s3://nobody/top.onnx", {}, "does not exist, according to .*NoSuchBucket"),
        ("s3://models/top.onnx", {"secretAccessKey": "x"}, "SignatureDoesNotMatch"),
        ("s3://models/top.onnx", {"accessKeyId": "x"}, "Check bucket, key and accessKeyId"),
        ("s3://models/top.onnx", {"region": "eu-west-1"}, "AuthorizationHeaderMalformed.*region"),
        ("s3://models/top.onnx", {"accessKeyId": ""}, "but accessKeyId are missing"),
        ("s3://models/top.onnx", {"endpoint": "storage:9000"}, "is not an address"),
        ("s3://models/samples.npz", {}, "is not an ONNX model"),
        ("s3://m/top.onnx", {}, "does not exist|cannot be fetched"),
    ],
)
def test_a_refusal_of_the_store_is_reported(
    endpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    uri: str,
    overrides: dict[str, str],
    sentence: str,
) -> None:
    """A missing object, wrong keys and a wrong region are refused with the store's code."""
    _set_environment(
        monkeypatch,
        keys(endpoint, **overrides) if "endpoint" not in overrides else keys(**overrides),
    )
    with pytest.raises(ModelRefusedError, match=sentence):
        _fetch(uri, tmp_path)


def test_another_file_is_refused(endpoint: str, tmp_path: Path) -> None:
    """An object of another checksum, or over the limit, is refused and does not stay."""
    with pytest.raises(ModelRefusedError, match="should have the sha256"):
        _fetch("s3://models/top.onnx", tmp_path, "0" * 64)
    with pytest.raises(ModelRefusedError, match="larger than the 10 bytes"):
        _fetch("s3://models/top.onnx", tmp_path, max_bytes=10)
    assert not list((tmp_path / "fetched").glob("*"))


def test_an_unreachable_store_is_a_transient_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that cannot be reached is a transient fault, reported after three tries."""
    monkeypatch.setattr(transfer, "_PAUSES_SECONDS", (0.0, 0.0))
    _set_environment(monkeypatch, keys("http://127.0.0.1:1"))
    with pytest.raises(
        FetchFailedError, match=r"in 3 tries: http://127\.0\.0\.1:1: Connection refused"
    ):
        _fetch("s3://models/top.onnx", tmp_path)


def test_a_transfer_that_is_cut_short_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transfer that ends in the middle of an object is retried, and leaves no file."""
    monkeypatch.setattr(transfer, "_PAUSES_SECONDS", (0.0, 0.0))
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nLast-Modified: Sat, 21 Nov 2026 06:00:00 GMT"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            for _ in range(3):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(head + b"\r\n\r\nhalf")

        thread = threading.Thread(target=hang_up)
        thread.start()
        _set_environment(monkeypatch, keys(f"http://127.0.0.1:{server.getsockname()[1]}"))
        with pytest.raises(FetchFailedError, match="in 3 tries"):
            _fetch("s3://models/top.onnx", tmp_path)
        thread.join()
    assert not list((tmp_path / "fetched").glob("*"))


def test_a_private_authority_is_trusted_where_it_is_named(
    program: Path, buckets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store whose certificate no public authority signs needs its PEM in the Secret."""
    monkeypatch.setattr(transfer, "_PAUSES_SECONDS", (0.0, 0.0))
    signed = signed_certificate(tmp_path)
    options = ("--cert", str(signed.certificate), "--key", str(signed.key))
    with object_store(program, buckets, *options) as port:
        endpoint = f"https://127.0.0.1:{port}"
        _set_environment(monkeypatch, keys(endpoint, caCertificate=signed.authority.read_text()))
        assert _fetch("s3://models/top.onnx", tmp_path).read_bytes() == MODEL
        monkeypatch.delenv("INFEROMETER_S3_CA_CERTIFICATE")
        with pytest.raises(
            ModelRefusedError, match=r"is not trusted \(UnknownIssuer\).*caCertificate"
        ):
            _fetch("s3://models/top.onnx", tmp_path)


def test_inputs_are_fetched(endpoint: str, tmp_path: Path, buckets: Path) -> None:
    """A .npz file comes from the same store."""
    found = fetch_inputs(
        "s3://models/samples.npz", tmp_path / "inputs.npz", sources=None, max_bytes=1 << 20
    )
    assert found.read_bytes() == (buckets / "models" / "samples.npz").read_bytes()


def test_inputs_do_not_replace_external_data(
    endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model whose data is called as the inputs file is refused rather than overwritten."""
    uris = ("--uri", "s3://models/same/model.onnx", "--inputs-uri", "s3://models/samples.npz")
    assert fetcher.main([*uris, "--destination", str(tmp_path)]) == 2
    assert "give the data another name" in capsys.readouterr().err


def test_a_pods_fetcher_reads_the_keys_from_its_environment(endpoint: str, tmp_path: Path) -> None:
    """The process of an init container has both files in its folder when it ends."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "inferometer_fetch"),
            *("--uri", "s3://models/top.onnx", "--inputs-uri", "s3://models/samples.npz"),
            *("--destination", tmp_path / "model", "--file-name", "model.onnx"),
        ],
        env=os.environ | keys(endpoint),
        capture_output=True,
        text=True,
        check=True,
    )
    printed = json.loads(done.stdout)
    assert (printed["sha256"], printed["name"]) == (SHA256, "top")
    assert sorted(each.name for each in (tmp_path / "model").iterdir()) == [
        "inputs.npz",
        "model.onnx",
    ]


class _Internal(BaseHTTPRequestHandler):
    """A host that only the fetcher reaches; the first part of a path is the status it gives."""

    def do_GET(self) -> None:
        body = b"<Code>the-password</Code><Message>the-password</Message> token=the-password"
        self.send_response(int(self.path.split("/")[1]), "the-password")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "the-password")
        self.send_header("ETag", "the-password")
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


class _Redirecting(_Internal):
    """A store that has every object, and redirects all who get one."""

    location: ClassVar[str]

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1")
        self.send_header("Last-Modified", "Sat, 21 Nov 2026 06:00:00 GMT")
        self.send_header("ETag", '"x"')
        self.end_headers()

    @override
    def do_GET(self) -> None:
        self.send_response(307)
        self.send_header("Location", self.location)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 409, 418, 429, 500, 503])
def test_nothing_that_a_store_redirects_to_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """A pod's author could read what only the plugin reaches: bodies, status lines, headers."""
    monkeypatch.setattr(download, "_PAUSES_SECONDS", (0.0, 0.0))
    with _serving(_Internal) as internal, _serving(_Redirecting) as endpoint:
        monkeypatch.setattr(
            _Redirecting, "location", f"{internal}/{status}/the-password", raising=False
        )
        request = ModelRequest(
            "s3://b/m.onnx", "0" * 64, "a", ObjectStore("id", "secret", endpoint=endpoint)
        )
        Access(time.monotonic).check(request, {})
        store = ModelStore(tmp_path, quota_bytes=1 << 20, policy="LRU", clock=time.time)
        downloads = Downloads(store, max_model_bytes=1 << 20)
        with pytest.raises((ModelRefusedError, FetchFailedError)) as caught:
            downloads.fetch(request, timeout_seconds=60)
        downloads.close()
    assert "the-password" not in str(caught.value)
    assert f"HTTP {status}" in str(caught.value) or status == HTTPStatus.OK
