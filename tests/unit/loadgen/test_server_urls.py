"""Server addresses are accepted or refused before anything is sent."""

import ipaddress
import json
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.spec.reading import InvalidRunError, parse_run
from inferometer_api.spec.server import External
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.server.endpoint import endpoint_of
from inferometer_loadgen.wire.connection import prepare
from inferometer_loadgen.wire.contract import EncodedRequest, RequestTarget
from inferometer_loadgen.wire.grpc.connection import request_headers
from support.run_table import WRONG_URLS
from support.runs import an_external_run


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
    target = RequestTarget(
        protocol, endpoint.host, endpoint.port, "m", path_prefix=endpoint.path_prefix
    )
    assert request_headers(target)
    [first, *_] = prepare(target, EncodedRequest(b"")).pieces
    assert protocol == "GRPC" or first.startswith(f"POST {endpoint.path_prefix}/v2/".encode())


@pytest.mark.parametrize(("url", "words"), WRONG_URLS.items())
def test_an_invalid_address_is_reported_with_its_fault(url: str, words: str) -> None:
    """One sentence says which part is wrong, and what stands before the host is not printed."""
    run = an_external_run(server={"runtime": "External", "external": {"url": url}})
    with pytest.raises(InvalidRunError) as refusal:
        parse_run(json.dumps(run), source="f")
    [problem] = refusal.value.problems
    assert problem.path == "spec.server.external.url"
    assert words in problem.message
    assert "secret" not in str(refusal.value)


_GROUPS = st.lists(st.sampled_from(["", "0", "1f", "Abcd", "12345", "1.2.3.4"]), max_size=9)


@given(st.ip_addresses(v=6).map(str) | _GROUPS.map(":".join).filter(bool))
def test_brackets_hold_an_ipv6_address(address: str) -> None:
    """The pattern, which an API server can judge by as well, knows the addresses of RFC 3986."""
    with nullcontext() if _is_ipv6(address) else pytest.raises(ValueError, match="in its brackets"):
        External(url=f"http://[{address}]:8000")


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://[", "names no host"),
        ("http://[]:1", "names no host"),
        ("http://[::1::2]:1", "names no host"),
        ("http://:80", "names no host"),
        ("http://h:x", "from 1 to 65535"),
        ("http://h:0", "from 1 to 65535"),
    ],
)
def test_an_address_without_a_host_or_port_is_refused_in_a_sentence(url: str, words: str) -> None:
    """The parser of an address does not rely on an earlier check."""
    with pytest.raises(InputRefusedError, match=words):
        endpoint_of(url, "HTTP")
