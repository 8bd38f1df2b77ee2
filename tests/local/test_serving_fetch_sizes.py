"""What real hosts report of a content's size before its first byte."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer_fetch.cache.download import open_content_of
from inferometer_fetch.cache.errors import CacheFullError
from inferometer_fetch.cache.request import ModelRequest
from inferometer_fetch.object_store import ObjectStore
from support.gated_store import GatedStore
from support.loopback_tls import certificate_file, server_context

CONTENT = b"0123456789"
OBJECT = "models/m.onnx"


@pytest.fixture(params=["https", "s3"])
def request_(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModelRequest]:
    """Serve a model on loopback; return a request for it."""
    file = tmp_path / "served" / OBJECT
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    server = GatedStore(("127.0.0.1", 0), tmp_path / "served", lambda _: None)
    port, store = server.server_address[1], None
    uri = f"https://127.0.0.1:{port}/{OBJECT}"
    if request.param == "https":
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate_file(tmp_path)))
        server.is_public = True
        server.socket = server_context(tmp_path).wrap_socket(server.socket, server_side=True)
    else:
        uri = f"s3://{OBJECT}"
        store = ObjectStore("tester", "secret", endpoint=f"http://127.0.0.1:{port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield ModelRequest(uri, "0" * 64, "a", store)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("first_byte", [0, 4])
def test_the_whole_size_is_reported_before_the_first_byte(
    request_: ModelRequest, first_byte: int
) -> None:
    """Also if only the rest of a content is fetched."""
    sizes: list[int] = []
    stream = open_content_of("model", request_, None)(first_byte, sizes.append)
    first = next(stream)
    assert sizes == [len(CONTENT)]
    assert first + b"".join(stream) == CONTENT[first_byte:]


def test_a_content_without_room_is_not_read(request_: ModelRequest) -> None:
    """What the report of the size raises reaches the caller as it is."""

    def refuse(_: int) -> None:
        raise CacheFullError("full")

    with pytest.raises(CacheFullError, match="full"):
        next(open_content_of("model", request_, None)(0, refuse))
