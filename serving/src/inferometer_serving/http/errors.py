"""The HTTP errors, and the status of each refusal."""

from http import HTTPStatus
from typing import assert_never

from inferometer_serving.errors import Refusal


class HttpError(Exception):
    """A request that is not HTTP as this server speaks it; the connection ends after the answer."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def http_status(refusal: Refusal) -> HTTPStatus:
    """Return the HTTP status of a refusal."""
    match refusal:
        case Refusal.INVALID:
            return HTTPStatus.BAD_REQUEST
        case Refusal.NOT_FOUND:
            return HTTPStatus.NOT_FOUND
        case Refusal.TOO_LARGE:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        case Refusal.UNSUPPORTED:
            return HTTPStatus.NOT_IMPLEMENTED
        case Refusal.UNAVAILABLE:
            return HTTPStatus.SERVICE_UNAVAILABLE
        case Refusal.FAILED:
            return HTTPStatus.INTERNAL_SERVER_ERROR
        case _:
            assert_never(refusal)
