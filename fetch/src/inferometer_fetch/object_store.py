"""How is an object read from an S3-compatible store, and with which keys?"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store
from typing_extensions import override

from inferometer_api.spec.address import STORE_VARIABLES
from inferometer_fetch.transfer import CHUNK_BYTES, TransientError
from inferometer_models.errors import ModelRefusedError

if TYPE_CHECKING:  # the library's stubs alone know them
    from obstore.store import ClientConfig, S3Config

_REQUIRED = ("accessKeyId", "secretAccessKey")
_CONNECT = timedelta(seconds=10)
_STALL = timedelta(seconds=30)
_WHOLE = timedelta(days=1)
_CERTIFICATE_FAULT = re.compile(r"InvalidCertificate\((?:\s*Other\(\s*OtherError\()?\s*(\w+)")
_CAUSE = re.compile(r'(?:message|error): "([^"]+)"')
"""What the operating system said, deep in the library's account of a fault."""
_UNKNOWN_HOST = "Name or service not known"
_PASSING_STATUSES = frozenset({"408", "425", "429"})


@dataclass(frozen=True, slots=True)
class Store:
    """An S3-compatible store and the keys to it."""

    access_key_id: str
    secret_access_key: str
    session_token: str = ""
    endpoint: str = ""
    """http:// or https://; empty: Amazon's own."""
    region: str = "us-east-1"
    ca_certificate: str = ""
    """PEM of the authority that signs the endpoint's certificate, where no public one does."""

    @override
    def __str__(self) -> str:
        """Return the store as it is called in sentences."""
        return self.endpoint or f"Amazon S3 in {self.region}"


def store_from(what: str, environment: Mapping[str, str]) -> Store:
    """Return the store that a process's environment names; raises ModelRefusedError."""
    told = {key: environment.get(name, "").strip() for key, name in STORE_VARIABLES.items()}
    missing = [key for key in _REQUIRED if not told[key]]
    if missing:
        raise ModelRefusedError(
            f"The {what} needs the keys of its store, but {' and '.join(missing)} are not there: "
            "name a Secret as spec.model.credentialsSecret that has accessKeyId, secretAccessKey "
            "and, for another store than Amazon's, endpoint."
        )
    endpoint = told["endpoint"].rstrip("/")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise ModelRefusedError(
            f"The {what} is asked of the endpoint {endpoint!r}, which is no address: write "
            "http://HOST:PORT or https://HOST:PORT into the Secret's key endpoint."
        )
    return Store(
        access_key_id=told["accessKeyId"],
        secret_access_key=told["secretAccessKey"],
        session_token=told["sessionToken"],
        endpoint=endpoint,
        region=told["region"] or "us-east-1",
        ca_certificate=told["caCertificate"],
    )


def object_stream(what: str, store: Store, bucket: str, key: str) -> Callable[[], Iterator[bytes]]:
    """Return what yields the content of an object, whole, each time that it is called.

    It raises TransientError where another try may do better, and ModelRefusedError where it will
    not: no such object or bucket, keys that are wrong or may not read it.
    """

    def stream() -> Iterator[bytes]:
        try:
            found = obstore.get(_opened(store, bucket), key)
            for chunk in found.stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(chunk)
        except FileNotFoundError as error:
            raise ModelRefusedError(
                f"The {what} is not there, says {store}: {_said(error)}. "
                "Check bucket, key and accessKeyId."
            ) from error
        except (BaseError, ValueError, OSError) as error:
            raise _fault(what, store, error) from error

    return stream


def _opened(store: Store, bucket: str) -> S3Store:
    config: S3Config = {
        "access_key_id": store.access_key_id,
        "secret_access_key": store.secret_access_key,
        "region": store.region,
        # Buckets in the path: other stores than Amazon's seldom have a host for each.
        "virtual_hosted_style_request": False,
    }
    if store.session_token:
        config["session_token"] = store.session_token
    if store.endpoint:
        config["endpoint"] = store.endpoint
    client: ClientConfig = {
        "allow_http": store.endpoint.startswith("http://"),
        "connect_timeout": _CONNECT,
        "read_timeout": _STALL,
        "timeout": _WHOLE,
    }
    if store.ca_certificate:
        client["root_certificate"] = store.ca_certificate
    # Whole transfers are tried again, by whoever writes them.
    return S3Store(bucket, config=config, client_options=client, retry_config={"max_retries": 0})


def _fault(what: str, store: Store, error: Exception) -> Exception:
    text = str(error)
    status = re.search(r"status code: (\d+)", text)
    certificate = _CERTIFICATE_FAULT.search(text)
    if certificate is not None and status is None:
        return ModelRefusedError(
            f"The {what} cannot be fetched: the certificate of {store} is not trusted "
            f"({certificate[1]}). Put the PEM of its authority into the Secret's key caCertificate."
        )
    if _UNKNOWN_HOST in text:
        return ModelRefusedError(
            f"The {what} cannot be fetched: {store} is a host that nobody knows. Correct the "
            "Secret's key endpoint."
        )
    stays = isinstance(error, ValueError) or (
        status is not None and status[1].startswith("4") and status[1] not in _PASSING_STATUSES
    )
    if stays:
        return ModelRefusedError(
            f"The {what} cannot be fetched, says {store}: {_said(error)}. "
            "Check the Secret's accessKeyId, secretAccessKey and region, and what they may read."
        )
    return TransientError(f"{store}: {_said(error)}")


def _said(error: Exception) -> str:
    """Return the store's own code and sentence, else the library's first line."""
    text = str(error)
    found = re.search(r"<Code>(.*?)</Code>\s*<Message>(.*?)</Message>", text, re.DOTALL)
    if found is not None:
        return f"{found[1]}: {found[2].rstrip('.')}"
    cause = _CAUSE.search(text)
    first = text.partition("\n")[0].rpartition(" - ")[2]
    return (cause[1] if cause else first)[:300].rstrip(". ")
