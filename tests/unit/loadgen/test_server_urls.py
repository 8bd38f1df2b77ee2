"""Which addresses of servers does a run take, and which are refused before anything is sent?"""

from typing import Any

import pytest
from pydantic import ValidationError

from inferometer_api.server import External
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.server.control import endpoint_of
from inferometer_loadgen.wire.connection import prepare
from inferometer_loadgen.wire.contract import EncodedRequest, Target
from inferometer_loadgen.wire.grpc_connection import request_headers


@pytest.mark.parametrize(
    ("url", "protocol"),
    [
        ("http://10.0.0.1:8000", "HTTP"),
        ("https://my_models.team-1.svc:8443/some/%C3%A4/~x;v=1,a@b!", "HTTP"),
        ("http://[::1]:8000/", "HTTP"),
        ("grpc://[fe80::1%eth0]:8001", "GRPC"),
        ("grpcs://xn--mhe-hoa.example", "GRPC"),
    ],
)
def test_an_address_that_is_taken_can_be_written(url: str, protocol: Any) -> None:
    """What passes the run's schema is put into requests as it is."""
    assert External(url=url).url == url
    endpoint = endpoint_of(url, protocol)
    target = Target(protocol, endpoint.host, endpoint.port, "m", path_prefix=endpoint.path_prefix)
    assert request_headers(target)
    [first, *_] = prepare(target, EncodedRequest(b"")).pieces
    assert protocol == "GRPC" or first.startswith(f"POST {endpoint.path_prefix}/v2/".encode())


@pytest.mark.parametrize(
    "url",
    [
        "http://mü.local:8000",
        "grpc://mü.local:8001",
        "http://h/ä",
        "http://h/\t",
        "http://h/\r\nX:y",
        "http://h\n",
        "http://a@h",
        "http://h/?a",
        "http://h/#a",
        "http://a b",
        "http:///x",
    ],
)
def test_an_address_that_is_not_ascii_is_refused(url: str) -> None:
    """Nor one with blanks, ends of lines, users, queries or fragments."""
    with pytest.raises(ValidationError):
        External(url=url)


@pytest.mark.parametrize("url", ["http://[", "http://[]:1", "http://:80", "http://h:x"])
def test_an_address_without_a_host_or_port_is_refused_in_a_sentence(url: str) -> None:
    """Brackets that hold no address are found only where it is taken apart."""
    with pytest.raises(InputRefusedError, match="names no host and port"):
        endpoint_of(External(url=url).url or "", "HTTP")
