"""What do the endpoints that compute nothing answer?"""

from http import HTTPStatus
from typing import Any, Literal, assert_never

from inferometer_api.exposition import CONTENT_TYPE
from inferometer_serving.errors import RequestRefusedError
from inferometer_serving.http.reply import Reply, json_reply, refusal_reply
from inferometer_serving.http.routes import Endpoint, Route
from inferometer_serving.metrics import Exposition
from inferometer_serving.service import Service


def page(service: Service, exposition: Exposition, route: Route) -> Reply:
    """Return the answer of an endpoint other than infer."""
    try:
        if route.model_name:
            service.check_model(route.model_name, route.model_version)
        return _page(service, exposition, route.endpoint)
    except RequestRefusedError as error:
        return refusal_reply(error)


def _page(service: Service, exposition: Exposition, endpoint: Endpoint) -> Reply:
    match endpoint:
        case Endpoint.LIVE:
            return json_reply({"live": True})
        case Endpoint.READY:
            return _ready(service, {"ready": service.is_ready})
        case Endpoint.MODEL_READY:
            return _ready(service, {"name": service.options.model_name, "ready": service.is_ready})
        case Endpoint.METRICS:
            service.metrics.pending = service.pending
            return Reply(HTTPStatus.OK, CONTENT_TYPE.encode(), [exposition.text()])
        case Endpoint.INFER:
            raise ValueError("an inference is no page")
        case Endpoint.SERVER | Endpoint.MODEL | Endpoint.CONFIG:
            return json_reply(_description(service, endpoint))
        case _:
            assert_never(endpoint)


def _description(
    service: Service, endpoint: Literal[Endpoint.SERVER, Endpoint.MODEL, Endpoint.CONFIG]
) -> dict[str, Any]:
    match endpoint:
        case Endpoint.SERVER:
            return service.server_metadata()
        case Endpoint.MODEL:
            return service.model_metadata()
        case Endpoint.CONFIG:
            return service.config()
        case _:
            assert_never(endpoint)


def _ready(service: Service, document: dict[str, object]) -> Reply:
    if service.is_ready:
        return json_reply(document)
    document["error"] = str(service.unavailable())
    return json_reply(document, HTTPStatus.SERVICE_UNAVAILABLE)
