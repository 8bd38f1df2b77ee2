"""The store that a process's environment names."""

import pytest

from inferometer_fetch.object_store import store_from
from inferometer_models.errors import ModelRefusedError


def _environment(endpoint: str) -> dict[str, str]:
    return {
        "INFEROMETER_S3_ACCESS_KEY_ID": "key",
        "INFEROMETER_S3_SECRET_ACCESS_KEY": "secret",
        "INFEROMETER_S3_ENDPOINT": endpoint,
    }


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "http://storage",
        "https://minio_1.models.svc.cluster.local:9000/",
        "http://10.0.0.1:9000",
        "http://[fd00::1]:9000",
        "https://xn--bcher-kva.example/prefix/of/buckets",
    ],
)
def test_an_endpoint_is_an_address_of_a_host(endpoint: str) -> None:
    """By name or number, with a port and a path if need be."""
    assert store_from("model", _environment(endpoint)).endpoint == endpoint.rstrip("/")


@pytest.mark.parametrize(
    "endpoint",
    [
        "storage:9000",
        "ftp://storage",
        "http://",
        "http://:9000",
        "http://storage:0",
        "http://storage:65536",
        "http://a b",
        "http://a\u2028b",
        "http://a\x01b",
        "http://%zz",
        "http://[::1",
        "http://[fe80::1%25eth0]",
        "http://1.2.3.999",
        "http://xn--:9000",
        f"http://{'a' * 300}",
        "http://user:password@storage",
        "http://storage?query=1",
        "http://storage#fragment",
    ],
)
def test_an_endpoint_that_is_no_address_is_refused(endpoint: str) -> None:
    """Some of them would end the whole process within the library."""
    with pytest.raises(ModelRefusedError, match="is not an address: write http://HOST:PORT"):
        store_from("model", _environment(endpoint))
