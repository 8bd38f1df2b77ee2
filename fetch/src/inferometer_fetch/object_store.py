"""Streams of objects in S3-compatible stores."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, BinaryIO

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store
from typing_extensions import override

from inferometer_api.spec.address import STORE_VARIABLES
from inferometer_fetch.transfer import CHUNK_BYTES, TransientError
from inferometer_models.errors import ModelRefusedError

if TYPE_CHECKING:  # only the library's stubs define them
    from obstore import GetOptions
    from obstore.store import ClientConfig, S3Config

_REQUIRED = ("accessKeyId", "secretAccessKey")
_ENDPOINT = re.compile(
    r"https?://(?P<host>[\w-]{1,63}(\.[\w-]{1,63})*|\[[\da-f:.]+\])(:(?P<port>\d{1,5}))?(/[\w.~-]+)*",
    re.ASCII | re.IGNORECASE,
)
_PORTS = range(1, 1 << 16)
_CONNECT = timedelta(seconds=10)
_STALL = timedelta(seconds=30)
_WHOLE = timedelta(days=1)
_PART_BYTES, _PARTS_AT_ONCE = 8 << 20, 2
"""At most 80 GiB in 10,000 parts; memory for two of them."""
_CERTIFICATE_FAULT = re.compile(r"InvalidCertificate\((?:\s*Other\(\s*OtherError\()?\s*(\w+)")
_SYSTEM_FAULT = re.compile(r"\bOs \{\s*code: (\d{1,3}),")
"""The operating system's error, deep in the library's text of a fault."""
_UNRESOLVED_HOST = "failed to lookup address information"
_UNKNOWN_HOST = "Name or service not known"
_TIMEOUT = "TimedOut"
_STORE_CODES = frozenset(
    {
        "AccessDenied",
        "AuthorizationHeaderMalformed",
        "EntityTooLarge",
        "ExpiredToken",
        "InternalError",
        "InvalidAccessKeyId",
        "InvalidBucketName",
        "InvalidToken",
        "KMS.DisabledException",
        "NoSuchBucket",
        "NoSuchKey",
        "PermanentRedirect",
        "QuotaExceeded",
        "RequestTimeTooSkewed",
        "ServiceUnavailable",
        "SignatureDoesNotMatch",
        "SlowDown",
        "TokenRefreshRequired",
    }
)
"""Codes of the protocol that messages name; the rest of a reply may be of any host."""
_PASSING_STATUSES = frozenset({"408", "425", "429"})


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """An S3-compatible store and the keys to it."""

    access_key_id: str
    secret_access_key: str
    session_token: str = ""
    endpoint: str = ""
    """http:// or https://; empty: Amazon's own."""
    region: str = "us-east-1"
    ca_certificate: str = ""
    """PEM of the authority that signs the endpoint's certificate; empty: a public one."""

    @override
    def __str__(self) -> str:
        """Return the name of the store in messages."""
        return self.endpoint or f"Amazon S3 in {self.region}"


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """What a store says of an object without its content."""

    size_bytes: int
    tag: str
    """Its ETag, or when it was last changed; another content has another one."""


class ObjectStoreError(Exception):
    """A store did not take or give an object; the message says why in words of ours."""

    def __init__(self, message: str, *, is_transient: bool) -> None:
        super().__init__(message)
        self.is_transient = is_transient


def store_from(
    what: str, environment: Mapping[str, str], *, field: str = "spec.model.credentialsSecret"
) -> ObjectStore:
    """Return the store in the environment variables of a process; raise ModelRefusedError.

    `field` is the field of the spec that names the Secret with the keys.
    """
    keys = {key: environment.get(name, "").strip() for key, name in STORE_VARIABLES.items()}
    missing = [key for key in _REQUIRED if not keys[key]]
    if missing:
        raise ModelRefusedError(
            f"The {what} needs the keys of its store, but {' and '.join(missing)} are missing: "
            f"set {field} to a Secret with accessKeyId, secretAccessKey and, "
            "for a store other than Amazon's, endpoint."
        )
    endpoint = keys["endpoint"].rstrip("/")
    if endpoint and not _is_address(endpoint):
        raise ModelRefusedError(
            f"The endpoint {endpoint!r} of the {what} is not an address: write "
            "http://HOST:PORT or https://HOST:PORT into the Secret's key endpoint."
        )
    return ObjectStore(
        access_key_id=keys["accessKeyId"],
        secret_access_key=keys["secretAccessKey"],
        session_token=keys["sessionToken"],
        endpoint=endpoint,
        region=keys["region"] or "us-east-1",
        ca_certificate=keys["caCertificate"],
    )


def _is_address(endpoint: str) -> bool:
    """Return whether it is http:// or https:// with a host; the library panics on some others."""
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None or int(found["port"] or 1) not in _PORTS:
        return False
    host = found["host"]
    try:
        if host.startswith("["):
            IPv6Address(host[1:-1])
        elif host.rpartition(".")[2].isdigit():
            IPv4Address(host)
        else:
            host.encode("ascii").decode("idna")
    except ValueError:
        return False
    return True


def object_stream(
    what: str,
    store: ObjectStore,
    bucket: str,
    key: str,
    *,
    first_byte: int = 0,
    report_size: Callable[[int], None] | None = None,
) -> Callable[[], Iterator[bytes]]:
    """Return a function that yields the content of an object, from `first_byte` on, at each call.

    `report_size` gets the bytes of the whole object before the first of them. The function raises
    TransientError if another try may succeed, and ModelRefusedError if it cannot: no such object or
    bucket, or keys that are wrong or must not read it.
    """

    def stream() -> Iterator[bytes]:
        options: GetOptions | None = {"range": {"offset": first_byte}} if first_byte else None
        with _faults(what, store):
            found = obstore.get(_opened(store, bucket), key, options=options)
        if report_size is not None:
            report_size(found.meta["size"])
        with _faults(what, store):
            for chunk in found.stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(chunk)

    return stream


@contextmanager
def _faults(what: str, store: ObjectStore) -> Iterator[None]:
    """Raise the library's errors as those of `object_stream`."""
    try:
        yield
    except FileNotFoundError as error:
        raise ModelRefusedError(
            f"The {what} does not exist, according to {store}: {_reason(error)}. "
            "Check bucket, key and accessKeyId."
        ) from error
    except (BaseError, ValueError, OSError) as error:
        raise _fault(what, store, error) from error


def object_version(what: str, store: ObjectStore, bucket: str, key: str) -> ObjectVersion:
    """Return size and tag of an object, which the store's keys may read.

    Raises ModelRefusedError if they may not or it does not exist, TransientError if the store does
    not answer.
    """
    with _faults(what, store):
        found = obstore.head(_opened(store, bucket), key)
    return ObjectVersion(found["size"], found["e_tag"] or found["last_modified"].isoformat())


def put_object(store: ObjectStore, bucket: str, key: str, file: BinaryIO) -> None:
    """Write a file as an object, in parts if it is large; raise StoreError.

    An object that is there already is replaced. The store checks the SHA-256 of what it receives.
    """
    try:
        obstore.put(
            _opened(store, bucket, checksum=True),
            key,
            file,
            chunk_size=_PART_BYTES,
            max_concurrency=_PARTS_AT_ONCE,
        )
    except (BaseError, ValueError, OSError) as error:
        status = _status(error)
        is_refused = status is not None and _is_final(status)
        raise ObjectStoreError(
            f"{store} reports: {_reason(error)}",
            is_transient=not (is_refused or isinstance(error, FileNotFoundError | ValueError)),
        ) from error


def _opened(store: ObjectStore, bucket: str, *, checksum: bool = False) -> S3Store:
    config: S3Config = {
        "access_key_id": store.access_key_id,
        "secret_access_key": store.secret_access_key,
        "region": store.region,
        # Buckets in the path: few stores except Amazon's have a host name for each bucket.
        "virtual_hosted_style_request": False,
    }
    if checksum:
        config["checksum_algorithm"] = "SHA256"
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
    # transfer.py retries whole transfers.
    return S3Store(bucket, config=config, client_options=client, retry_config={"max_retries": 0})


def _fault(what: str, store: ObjectStore, error: Exception) -> Exception:
    text = str(error)
    status = _status(error)
    certificate = _CERTIFICATE_FAULT.search(text)
    if certificate is not None and status is None:
        return ModelRefusedError(
            f"The {what} cannot be fetched: the certificate of {store} is not trusted "
            f"({certificate[1]}). Put the PEM of its authority into the Secret's key caCertificate."
        )
    if _UNKNOWN_HOST in text and status is None:
        return ModelRefusedError(
            f"The {what} cannot be fetched: the host of {store} is unknown. Correct the "
            "Secret's key endpoint."
        )
    if isinstance(error, ValueError) or (status is not None and _is_final(status)):
        return ModelRefusedError(
            f"The {what} cannot be fetched. {store} reports: {_reason(error)}. "
            "Check accessKeyId, secretAccessKey and region in the Secret, and their permissions."
        )
    return TransientError(f"{store}: {_reason(error)}")


def _status(error: Exception) -> str | None:
    found = re.search(r"status code: (\d{3})\b", str(error))
    return None if found is None else found[1]


def _is_final(status: str) -> bool:
    return status.startswith("4") and status not in _PASSING_STATUSES


def _reason(error: Exception) -> str:
    """Return what happened in words of ours.

    A pod may name a store that redirects to a host that only this process reaches: no byte
    of a reply is quoted, neither of its body nor of its headers.
    """
    text = str(error)
    status = _status(error)
    if status is not None:
        code = re.search(r"<Code>([\w.]+)</Code>", text)
        return _status_words(int(status)) + (
            f", {code[1]}" if code is not None and code[1] in _STORE_CODES else ""
        )
    if isinstance(error, ValueError):  # raised before there is a request
        return text.partition("\n")[0][:300].rstrip(". ")
    system = _SYSTEM_FAULT.search(text)
    if system is not None:
        return os.strerror(int(system[1]))
    if _UNRESOLVED_HOST in text:
        return "the name of its host cannot be resolved"
    return "it did not answer in time" if _TIMEOUT in text else "its reply is not one of S3"


def _status_words(status: int) -> str:
    try:
        return f"HTTP {status} ({HTTPStatus(status).phrase})"
    except ValueError:
        return f"HTTP {status}"
