"""A missing answer is explained, with a hint at the port that may be meant."""

import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from tritonclient.utils import (  # type: ignore[import-untyped]  # has no types
    InferenceServerException,
)

from inferometer_loadgen.server.tls_handshake import ClosedBehindError, ClosedInTlsError
from inferometer_loadgen.server.unanswered import reason_unanswered
from inferometer_loadgen.wire.tls import ClientTls, TlsFiles

PLAIN = None
SECURE = ClientTls(ssl.create_default_context(), "h")
SHOWN = ClientTls(ssl.create_default_context(), "h", TlsFiles(certificate=Path("c"), key=Path("k")))

REFUSED = ConnectionRefusedError(111, "Connection refused")
NO_HTTP2 = InferenceServerException(msg="Failed parsing HTTP/2 preface")
CUT = InferenceServerException(msg="UNAVAILABLE: ipv4:1.2.3.4:5: Socket closed")


@pytest.mark.parametrize(
    ("fault", "protocol", "tls", "sentence"),
    [
        (TimeoutError(), "HTTP", PLAIN, "it did not answer within 5 s"),
        (REFUSED, "HTTP", SECURE, "there is no connection to it (Connection refused)"),
        (
            aiohttp.ClientConnectorError(SimpleNamespace(ssl=None), REFUSED),  # type: ignore[arg-type]  # only its text is used
            "HTTP",
            PLAIN,
            "there is no connection to it (Connection refused)",
        ),
        (
            aiohttp.ServerDisconnectedError(),
            "HTTP",
            PLAIN,
            (
                "it gave no answer in HTTP; this may be its gRPC port (grpc://), or one with TLS "
                "(https://)"
            ),
        ),
        (
            aiohttp.ServerDisconnectedError(),
            "HTTP",
            SECURE,
            "it gave no answer in HTTP; this may be its gRPC port (grpcs://)",
        ),
        (NO_HTTP2, "GRPC", PLAIN, "it gave no answer in gRPC; this may be its HTTP port (http://)"),
        (
            NO_HTTP2,
            "GRPC",
            SECURE,
            "it gave no answer in gRPC; this may be its HTTP port (https://)",
        ),
        (CUT, "GRPC", PLAIN, f"{CUT.message()}; this may be a port with TLS (grpcs://)"),
        (CUT, "GRPC", SECURE, CUT.message()),
        (
            ClosedInTlsError("it closed"),
            "HTTP",
            SECURE,
            (
                "it closed; it may want a client's certificate (load.tls), or this may be a port "
                "without TLS (http://)"
            ),
        ),
        (
            ClosedInTlsError("it closed"),
            "GRPC",
            SHOWN,
            (
                "it closed; it may refuse the client's certificate (load.tls), or this may be a "
                "port without TLS (grpc://)"
            ),
        ),
        (
            ClosedBehindError("it closed"),
            "GRPC",
            SECURE,
            "it closed; it may want a client's certificate (load.tls)",
        ),
        (InferenceServerException(msg="No.\n"), "HTTP", PLAIN, "No"),
        (InferenceServerException(msg={"code": 5}), "HTTP", PLAIN, "{'code': 5}"),
        (InferenceServerException(msg=None), "HTTP", PLAIN, "InferenceServerException"),
    ],
)
def test_a_hint_fits_the_protocol_and_whether_tls_is_spoken(
    fault: BaseException, protocol: Any, tls: ClientTls | None, sentence: str
) -> None:
    """Each way to get no answer is a clause, and no hint names the scheme in use."""
    assert reason_unanswered(fault, protocol, tls, 5.0) == sentence
