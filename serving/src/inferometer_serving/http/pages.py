"""The replies of the endpoints that compute nothing."""

from http import HTTPStatus
from typing import Any, Literal, assert_never

import orjson
import structlog

from inferometer_api.metrics.exposition import CONTENT_TYPE
from inferometer_serving.errors import RequestRefusedError, invalid
from inferometer_serving.http.reply import JSON, Reply, error_reply, json_reply, refusal_reply
from inferometer_serving.http.routes import Endpoint, Route
from inferometer_serving.infer.tensors import Raw
from inferometer_serving.layers.in_pod_request import KINDS, LayersRequest
from inferometer_serving.metadata import server_metadata
from inferometer_serving.metrics import Exposition
from inferometer_serving.profile.profiler import ProfileRequest
from inferometer_serving.server_state import ServerState

CHANGES = frozenset({Endpoint.LOAD, Endpoint.UNLOAD, Endpoint.PROFILE, Endpoint.LAYERS})
"""Endpoints whose answer takes a while."""


def page(state: ServerState, exposition: Exposition, route: Route, body: Raw) -> Reply:
    """Return the answer of an endpoint that computes nothing and changes nothing."""
    try:
        if route.model_name:
            state.check_model(route.model_name, route.model_version)
        if route.endpoint is Endpoint.SPANS:
            return Reply(HTTPStatus.OK, JSON, [state.spans.take()])
        return _page(state, exposition, route, body)
    except RequestRefusedError as error:
        return refusal_reply(error)


async def apply_change(state: ServerState, route: Route, body: bytes) -> Reply:
    """Load, unload or measure the model, and return the reply."""
    try:
        members = _members("request", body)
        if route.endpoint is Endpoint.PROFILE:
            state.check_first_model(route.model_name, route.model_version)
            return json_reply(await state.profile(_profile_request(members)))
        if route.endpoint is Endpoint.LAYERS:
            state.check_first_model(route.model_name, route.model_version)
            return json_reply(await state.time_layers(_layers_request(members)))
        parameters = _members("parameters", members.get("parameters") or {})
        if route.endpoint is Endpoint.LOAD:
            await state.load_again(route.model_name, parameters)
        else:
            await state.unload(route.model_name)
    except RequestRefusedError as error:
        return refusal_reply(error)
    except Exception as error:  # noqa: BLE001 - one request's fault must not end the server
        structlog.get_logger().error("request failed", error=repr(error))
        sentence = f"The server failed on this request: {error!r}."
        return error_reply(HTTPStatus.INTERNAL_SERVER_ERROR, sentence)
    return Reply(HTTPStatus.OK, b"application/json", [])


def _page(state: ServerState, exposition: Exposition, route: Route, body: Raw) -> Reply:
    match route.endpoint:
        case Endpoint.LIVE:
            return json_reply({"live": True})
        case Endpoint.READY:
            return _ready(state, {"ready": state.is_ready})
        case Endpoint.MODEL_READY:
            return _ready(state, {"name": route.model_name, "ready": state.is_ready})
        case Endpoint.METRICS:
            state.metrics.pending = state.pending
            state.settle()
            return Reply(HTTPStatus.OK, CONTENT_TYPE.encode(), [exposition.text()])
        case Endpoint.INDEX:
            only_ready = _members("request", bytes(body)).get("ready") is True
            return json_reply(state.repository_index(only_ready=only_ready))
        case (
            Endpoint.INFER
            | Endpoint.LOAD
            | Endpoint.UNLOAD
            | Endpoint.PROFILE
            | Endpoint.LAYERS
            | Endpoint.SPANS
        ):
            raise ValueError(f"{route.endpoint.value} is no page")
        case Endpoint.SERVER | Endpoint.MODEL | Endpoint.CONFIG | Endpoint.STATISTICS:
            return json_reply(_description(state, route.endpoint, route.model_name))
        case _:
            assert_never(route.endpoint)


def _description(
    state: ServerState,
    endpoint: Literal[Endpoint.SERVER, Endpoint.MODEL, Endpoint.CONFIG, Endpoint.STATISTICS],
    model_name: str,
) -> dict[str, Any]:
    match endpoint:
        case Endpoint.SERVER:
            return server_metadata(state.version, has_profiles=state.options.profiling)
        case Endpoint.MODEL:
            return state.loaded_router(model_name).metadata
        case Endpoint.CONFIG:
            return state.loaded_router(model_name).config
        case Endpoint.STATISTICS:
            return state.model_statistics(model_name)
        case _:
            assert_never(endpoint)


def _profile_request(members: dict[str, Any]) -> ProfileRequest:
    """Return the request of a profile. Raises RequestRefusedError for other members or values."""
    known = {"batchSize": 1, "iterations": 30, "layers": True, "kernels": True}
    found = _known_members(members, known, {"batchSize": 4096, "iterations": 10_000})
    for name in ("layers", "kernels"):
        if not isinstance(found[name], bool):
            raise invalid(f"{name} is {found[name]!r}: give true or false.")
    return ProfileRequest(
        found["batchSize"], found["iterations"], found["layers"], found["kernels"]
    )


def _layers_request(members: dict[str, Any]) -> LayersRequest:
    """Return the request for timings. Raises RequestRefusedError for other members or values."""
    known = {
        "kind": "Kernels",
        "models": [],
        "batchSize": 1,
        "budgetSeconds": 600,
        "advise": False,
    }
    found = _known_members(members, known, {"batchSize": 4096, "budgetSeconds": 86_400})
    if found["kind"] not in KINDS:
        raise invalid(f"kind is {found['kind']!r}: give {', '.join(KINDS)}.")
    models = found["models"]
    if not isinstance(models, list) or not all(
        isinstance(each, str) and each.startswith("zoo://") for each in models
    ):
        raise invalid(f"models is {models!r}: give a list of built-in models, as zoo://TASK/NAME.")
    if not isinstance(found["advise"], bool):
        raise invalid(f"advise is {found['advise']!r}: give true or false.")
    return LayersRequest(
        *(found["kind"], tuple(models), found["batchSize"], found["budgetSeconds"]),
        advise=found["advise"],
    )


def _known_members(
    members: dict[str, Any], known: dict[str, Any], largest: dict[str, int]
) -> dict[str, Any]:
    """Return the members with defaults; the whole numbers are at least 1 and at most `largest`."""
    unknown = sorted(set(members) - set(known))
    if unknown:
        raise invalid(f"The request has '{unknown[0]}': it may have {', '.join(known)}.")
    found = known | members
    for name, most in largest.items():
        value = found[name]
        if type(value) is not int or not 1 <= value <= most:
            raise invalid(f"{name} is {value!r}: give a whole number from 1 to {most}.")
    return found


def _ready(state: ServerState, document: dict[str, object]) -> Reply:
    if state.is_ready:
        return json_reply(document)
    document["error"] = str(state.unavailable())
    return json_reply(document, HTTPStatus.SERVICE_UNAVAILABLE)


def _members(what: str, value: object) -> dict[str, Any]:
    """Return the members of an object, or of a body, which may be empty.

    Raises RequestRefusedError.
    """
    try:
        members = orjson.loads(value or b"{}") if isinstance(value, bytes) else value
    except orjson.JSONDecodeError as error:
        raise invalid(f"The request's JSON cannot be read: {error}.") from error
    if not isinstance(members, dict):
        raise invalid(f"The {what} is no JSON object: send an object, or nothing.")
    return members
