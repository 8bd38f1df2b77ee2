"""The API server as front proxy: the caller that it has authenticated, as its headers name them.

https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

FRONT_PROXY_CONFIG_MAP = ("kube-system", "extension-apiserver-authentication")
"""Namespace and name of the ConfigMap in which the API server publishes how it can be known."""

_MOST_GROUPS = 1000
_MOST_CHARACTERS = 256 << 10


class FrontProxyError(ValueError):
    """The ConfigMap does not say how the API server can be known; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller, as Kubernetes knows them."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """How the API server proves itself, and the headers in which it names the caller."""

    authority_pem: str
    """The certificates that sign its client certificate."""
    names: frozenset[str]
    """Common names that its certificate may have; empty: any."""
    user_headers: tuple[str, ...]
    uid_headers: tuple[str, ...]
    """Empty if the API server does not guard the header: anyone could send it then."""
    group_headers: tuple[str, ...]
    extra_prefixes: tuple[str, ...]

    def trusts(self, peer_name: str | None) -> bool:
        """Return whether the peer of a connection may name callers.

        `peer_name` is the common name of the client certificate that was verified against
        `authority_pem`, None if the peer had none.
        """
        return peer_name is not None and (not self.names or peer_name in self.names)


def read_front_proxy(config_map: Mapping[str, Any]) -> FrontProxy:
    """Return what the API server has published. Raises FrontProxyError."""
    data: Mapping[str, str] = config_map.get("data") or {}
    authority = data.get("requestheader-client-ca-file", "")
    if "BEGIN CERTIFICATE" not in authority:
        namespace, name = FRONT_PROXY_CONFIG_MAP
        raise FrontProxyError(
            f"ConfigMap {namespace}/{name} has no requestheader-client-ca-file. The API server "
            "needs its aggregation layer (--requestheader-client-ca-file)."
        )
    found = FrontProxy(
        authority,
        frozenset(_texts(data, "requestheader-allowed-names")),
        *(
            tuple(each.lower() for each in _texts(data, f"requestheader-{name}"))
            for name in ("username-headers", "uid-headers", "group-headers", "extra-headers-prefix")
        ),
    )
    if not found.user_headers:
        raise FrontProxyError("The API server publishes no header for the name of the caller.")
    return found


def proxied_identity(headers: Iterable[tuple[bytes, bytes]], proxy: FrontProxy) -> Identity | None:
    """Return the caller that a trusted front proxy names, None if it names none in UTF-8.

    Names of headers are in lower case, as in ASGI. Raises FrontProxyError if they are too many.
    """
    names = (*proxy.user_headers, *proxy.uid_headers, *proxy.group_headers, *proxy.extra_prefixes)
    own = [(name.decode("latin-1"), value) for name, value in headers]
    try:
        # The API server writes names as they are, in UTF-8.
        found = [(name, value.decode()) for name, value in own if name.startswith(names)]
    except UnicodeDecodeError:
        return None
    user = _first(found, proxy.user_headers)
    if not user:
        return None
    groups = [value for name in proxy.group_headers for key, value in found if key == name]
    extra: dict[str, list[str]] = {}
    for key, value in found:
        prefix = next((each for each in proxy.extra_prefixes if key.startswith(each)), None)
        if prefix is not None:
            extra.setdefault(unquote(key.removeprefix(prefix)).lower(), []).append(value)
    values = [*groups, *(value for some in extra.values() for value in some)]
    if len(values) > _MOST_GROUPS or sum(map(len, values)) > _MOST_CHARACTERS:
        raise FrontProxyError("The caller has too many groups or attributes.")
    return Identity(
        user,
        _first(found, proxy.uid_headers),
        tuple(groups),
        tuple(sorted((key, tuple(some)) for key, some in extra.items())),
    )


def _first(headers: list[tuple[str, str]], names: Iterable[str]) -> str:
    """Return the first value of the first header that has one."""
    return next((value for name in names for key, value in headers if key == name and value), "")


def _texts(data: Mapping[str, str], key: str) -> list[str]:
    try:
        found = json.loads(data.get(key) or "[]")
    except ValueError as error:
        raise FrontProxyError(f"{key} is not JSON: {error}.") from error
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise FrontProxyError(f"{key} is not a list of names.")
    return found
