"""The HTTP endpoints, and their paths."""

import urllib.parse
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

from inferometer_serving.http.errors import HttpError


class Endpoint(Enum):
    """Everything this server answers over HTTP; the value is its word in metrics."""

    LIVE = "live"
    READY = "ready"
    SERVER = "server_metadata"
    MODEL = "model_metadata"
    MODEL_READY = "model_ready"
    CONFIG = "config"
    INFER = "infer"
    STATISTICS = "statistics"
    INDEX = "repository_index"
    LOAD = "load"
    UNLOAD = "unload"
    PROFILE = "profile"
    SPANS = "spans"
    LAYERS = "layers"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint, and the model in its path if there is one."""

    endpoint: Endpoint
    model_name: str = ""
    model_version: str = ""


_WITHOUT_MODEL = {
    "/v2/health/live": Endpoint.LIVE,
    "/v2/health/ready": Endpoint.READY,
    "/v2": Endpoint.SERVER,
    "/v2/models/stats": Endpoint.STATISTICS,
    "/v2/repository/index": Endpoint.INDEX,
    "/v2/spans": Endpoint.SPANS,
    "/metrics": Endpoint.METRICS,
}
_OF_A_MODEL = {
    "": Endpoint.MODEL,
    "ready": Endpoint.MODEL_READY,
    "config": Endpoint.CONFIG,
    "stats": Endpoint.STATISTICS,
    "infer": Endpoint.INFER,
    "profile": Endpoint.PROFILE,
    "layers": Endpoint.LAYERS,
}
_OF_THE_REPOSITORY = {"load": Endpoint.LOAD, "unload": Endpoint.UNLOAD}
_POSTED = frozenset(
    {
        Endpoint.INFER,
        Endpoint.INDEX,
        Endpoint.LOAD,
        Endpoint.UNLOAD,
        Endpoint.PROFILE,
        Endpoint.SPANS,
        Endpoint.LAYERS,
    }
)
_NOT_HERE = ("systemsharedmemory", "cudasharedmemory", "trace", "logging")
"""Triton's extensions, by the first part of their path behind /v2."""
_NOT_HERE_OF_A_MODEL = ("trace", "generate", "generate_stream")


def route(method: str, target: str) -> Route:
    """Return the route of a target; a query is allowed and ignored.

    Raises HttpError: 404 for an unknown path, 405 for the wrong method, 501 for an extension of
    the protocol that this server does not have.
    """
    path = target.partition("?")[0].rstrip("/")
    found = _find(path)
    allowed = "POST" if found.endpoint in _POSTED else "GET"
    if method != allowed and (method, allowed) != ("HEAD", "GET"):
        raise HttpError(
            HTTPStatus.METHOD_NOT_ALLOWED, f"{path} does not support {method}: use {allowed}."
        )
    return found


def _find(path: str) -> Route:
    endpoint = _WITHOUT_MODEL.get(path)
    if endpoint is not None:
        return Route(endpoint)
    parts = path.split("/")
    match parts[1:]:
        case ["v2", "repository", "models", name, change] if name and change in _OF_THE_REPOSITORY:
            return Route(_OF_THE_REPOSITORY[change], urllib.parse.unquote(name))
        case ["v2", "models", name, "versions", version, *rest] if name and version:
            return _of_model(path, name, version, rest)
        case ["v2", "models", name, *rest] if name:
            return _of_model(path, name, "", rest)
        case ["v2", extension, *_] if extension in _NOT_HERE:
            raise _not_here(path)
        case _:
            raise _unknown(path)


def _of_model(path: str, name: str, version: str, rest: list[str]) -> Route:
    match rest:
        case [extension, *_] if extension in _NOT_HERE_OF_A_MODEL:
            raise _not_here(path)
        case [] | [_]:
            endpoint = _OF_A_MODEL.get(rest[0] if rest else "")
            if endpoint is not None:
                unquote = urllib.parse.unquote
                return Route(endpoint, unquote(name), unquote(version))
        case _:
            pass
    raise _unknown(path)


def _unknown(path: str) -> HttpError:
    return HttpError(
        HTTPStatus.NOT_FOUND,
        f"{path or '/'} is not an endpoint of this server. It has "
        "/v2, /v2/health/live, /v2/health/ready, /v2/models/NAME with /ready, /config, /stats, "
        "/infer, /profile and /layers, /v2/repository/index, /v2/repository/models/NAME/load "
        "and /unload, /v2/spans, and /metrics.",
    )


def _not_here(path: str) -> HttpError:
    return HttpError(
        HTTPStatus.NOT_IMPLEMENTED,
        f"{path} belongs to an extension of the protocol that is not available in this "
        "version: GET /v2 lists those that are.",
    )
