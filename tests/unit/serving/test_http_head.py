"""Heads of requests are read as RFC 9112 requires."""

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_serving.http.errors import HttpError
from inferometer_serving.http.head import Head, parse_head
from inferometer_serving.http.routes import Endpoint, Route, route


def _head(*lines: str) -> Head:
    return parse_head("\r\n".join([*lines, "", ""]).encode("latin-1"), max_body_bytes=1000)


def test_all_that_matters_is_read() -> None:
    """Length, JSON length, encodings, expectation and persistence are read, in any case."""
    head = _head(
        "POST /v2/models/m/infer HTTP/1.1",
        "HOST: x",
        "content-LENGTH: 100",
        "Inference-Header-Content-Length:7",
        "Expect: 100-Continue",
        "Content-Encoding: GZIP",
        "Accept-Encoding: br, gzip;q=0.5, deflate",
        "Connection: Keep-Alive, close",
    )
    assert head == Head(
        route=Route(Endpoint.INFER, "m"),
        is_for_head_only=False,
        keep_alive=False,
        content_length=100,
        is_chunked=False,
        json_bytes=7,
        expects_continue=True,
        body_encoding="gzip",
        reply_encoding="deflate",
    )


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        ("", None),
        ("identity", None),
        ("br", None),
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("gzip, deflate", "gzip"),
        ("deflate, gzip", "gzip"),
        ("gzip;q=0", None),
        ("gzip;q=0, deflate;q=0.1", "deflate"),
        ("gzip;q=nonsense", None),
    ],
)
def test_the_reply_encoding_is_the_clients_best(accepted: str, chosen: str | None) -> None:
    """Of gzip and deflate the one that the client weighs most is chosen."""
    head = _head("GET /v2 HTTP/1.1", "Host: x", f"Accept-Encoding: {accepted}")
    assert head.reply_encoding == chosen


def test_http_1_0_closes_unless_asked() -> None:
    """HTTP/1.0 closes by default and needs no Host; HTTP/1.1 is the other way round."""
    assert not _head("GET /v2 HTTP/1.0").keep_alive
    assert _head("GET /v2 HTTP/1.0", "Connection: keep-alive").keep_alive
    assert _head("GET /v2 HTTP/1.1", "Host: x").keep_alive


@pytest.mark.parametrize(
    "connection", ["Upgrade, HTTP2-Settings", "keep-alive, Upgrade", "upgrade"]
)
def test_upgrades_are_ignored(connection: str) -> None:
    """A request that offers another protocol is read like one that does not."""
    lines = ("POST /v2/models/m/infer HTTP/1.1", "Host: x", "Content-Length: 5")
    plain = _head(*lines)
    assert _head(*lines, f"Connection: {connection}", "Upgrade: h2c") == plain


@given(st.binary(max_size=200))
def test_nonsense_is_refused(head: bytes) -> None:
    """Whatever the bytes, the answer is a head or a refusal with a status of a client's fault."""
    status = HTTPStatus.BAD_REQUEST
    try:
        parse_head(head + b"\r\n\r\n", max_body_bytes=1000)
    except HttpError as error:
        status = error.status
    assert 400 <= status < 600


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/v2", Route(Endpoint.SERVER)),
        ("/v2/", Route(Endpoint.SERVER)),
        ("/v2/health/live?x=/v2", Route(Endpoint.LIVE)),
        ("/v2/health/ready", Route(Endpoint.READY)),
        ("/metrics", Route(Endpoint.METRICS)),
        ("/v2/models/m", Route(Endpoint.MODEL, "m")),
        ("/v2/models/a%20b/versions/1", Route(Endpoint.MODEL, "a b", "1")),
        ("/v2/models/m/ready", Route(Endpoint.MODEL_READY, "m")),
        ("/v2/models/m/versions/1/config", Route(Endpoint.CONFIG, "m", "1")),
    ],
)
def test_targets_are_routed(path: str, found: Route) -> None:
    """Each endpoint is found by its path, with or without a version and a query."""
    assert route("GET", path) == found


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v2/models", 404),
        ("GET", "/v2/models//ready", 404),
        ("GET", "/v2/models/m/versions", 404),
        ("GET", "/v2/models/m/nope", 404),
        ("GET", "/v2/models/m/ready/more", 404),
        ("POST", "/v2", 405),
        ("GET", "/v2/models/m/infer", 405),
        ("GET", "/v2/models/m/trace/setting", 501),
        ("GET", "/v2/repository/index", 405),
        ("GET", "/v2/repository/models/m/load", 405),
        ("POST", "/v2/repository/models/m/move", 404),
        ("GET", "/v2/cudasharedmemory/status", 501),
        ("GET", "/v2/logging", 501),
    ],
)
def test_other_targets_are_refused(method: str, path: str, status: int) -> None:
    """An unknown path, a wrong method and an extension that is not here each have their status."""
    with pytest.raises(HttpError) as caught:
        route(method, path)
    assert caught.value.status == HTTPStatus(status)
