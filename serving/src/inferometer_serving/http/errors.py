"""The HTTP errors, and the status of each refusal."""

from http import HTTPStatus
from typing import assert_never

from inferometer_serving.errors import RefusalReason


class HttpError(Exception):
    """A request that is not HTTP as this server speaks it; the connection ends after the answer."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def http_status(refusal: RefusalReason) -> HTTPStatus:  # noqa: PLR0911 - one for each
    """Return the HTTP status of a refusal."""
    match refusal:
        case RefusalReason.INVALID:
            return HTTPStatus.BAD_REQUEST
        case RefusalReason.FORBIDDEN:
            return HTTPStatus.FORBIDDEN
        case RefusalReason.NOT_FOUND:
            return HTTPStatus.NOT_FOUND
        case RefusalReason.TOO_LARGE:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        case RefusalReason.UNSUPPORTED:
            return HTTPStatus.NOT_IMPLEMENTED
        case RefusalReason.UNAVAILABLE:
            return HTTPStatus.SERVICE_UNAVAILABLE
        case RefusalReason.FAILED:
            return HTTPStatus.INTERNAL_SERVER_ERROR
        case _:
            assert_never(refusal)
