"""Decides which requests the service answers: by host name, origin, token and size."""

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

_MOST_URL_BYTES = 8192
_METHODS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Which requests are answered."""

    hosts: frozenset[str] = frozenset()
    """Names of this host besides `localhost`, in lower case. Addresses need no entry: a page of
    another site reaches this service under a name only (DNS rebinding)."""
    token: str | None = None
    """What callers must send; None if the service listens on loopback only."""


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """Why a request is not answered."""

    status: int
    sentence: str


def refusal(
    method: str, url_length: int, headers: Mapping[str, str], rules: AccessRules
) -> RefusedRequest | None:
    """Return why a request is refused, None if it may be answered.

    Names of headers are in lower case.
    """
    return _refused_caller(headers, rules) or refused_request(method, url_length, headers)


def _refused_caller(headers: Mapping[str, str], rules: AccessRules) -> RefusedRequest | None:
    host = headers.get("host", "")
    if not _is_own(host, rules.hosts):
        return RefusedRequest(
            421, "The name of this host is unknown here. Allow it with --allow-host."
        )
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in {f"http://{host}", f"https://{host}"}:
        return RefusedRequest(403, "Pages of other sites may not read results.")
    if rules.token is not None and not _is_authorised(headers.get("authorization"), rules.token):
        return RefusedRequest(401, "Send the token: Authorization: Bearer TOKEN.")
    return None


def refused_request(
    method: str, url_length: int, headers: Mapping[str, str]
) -> RefusedRequest | None:
    """Return why a request that reads is refused for any caller; None if it is not."""
    if method not in _METHODS:
        return RefusedRequest(405, "Results are only read here: use GET or HEAD.")
    if url_length > _MOST_URL_BYTES:
        return RefusedRequest(414, f"An address has at most {_MOST_URL_BYTES} bytes.")
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        return RefusedRequest(413, "Requests have no body here.")
    return None


def _is_own(host: str, names: frozenset[str]) -> bool:
    name = host.lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    if name == "localhost" or name in names:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_authorised(header: str | None, token: str) -> bool:
    """Return whether a header carries the token: Bearer, or the password of Basic."""
    kind, _, value = (header or "").partition(" ")
    sent = value.strip()
    if kind.lower() == "basic":
        try:
            sent = base64.b64decode(sent, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return False
    elif kind.lower() != "bearer":
        return False
    return hmac.compare_digest(sent.encode(), token.encode())
