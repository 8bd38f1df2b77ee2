"""Errors of requests to the API server."""

from collections.abc import Mapping
from typing import Any

_MAY_PASS = frozenset({408, 409, 429, 500, 502, 503, 504})


class ApiUnreachableError(Exception):
    """No answer came: the connection was refused, cut or silent for too long."""


class ApiError(Exception):
    """The API server answered with an error."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        what: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{what}: {message}" if what else message)
        self.code = code
        self.reason = reason
        """The API's reason in CamelCase: AlreadyExists, Forbidden, NotFound."""
        self.message = message
        self.retry_after_seconds = retry_after_seconds

    @property
    def conflict(self) -> bool:
        """Whether the object has changed since it was read: read it again."""
        return self.code == 409 and self.reason == "Conflict"

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in _MAY_PASS or self.retry_after_seconds is not None


class NodesForbiddenError(ApiError):
    """The operator may not list the nodes of the cluster; the message says what to grant."""


def api_error(
    code: int, body: Any, headers: Mapping[str, str], *, what: str, text: str = ""
) -> ApiError:
    """Return an error answer as an exception; `body` is its JSON, or None."""
    status = body if isinstance(body, dict) else {}
    details = status.get("details")
    detail = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    after = headers.get("Retry-After") or detail
    try:
        seconds = None if after is None else float(after)
    except ValueError:  # a date, which no API server sends
        seconds = None
    message = str(status.get("message") or text.strip()[:500] or f"HTTP status {code}")
    reason = str(status.get("reason") or "")
    return ApiError(code, reason, message, what=what, retry_after_seconds=seconds)
