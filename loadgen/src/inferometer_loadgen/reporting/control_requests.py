"""Requests that need the plan's token: who may send them, and POST /targets."""

import asyncio
import hmac
from collections.abc import Callable

from aiohttp import web
from pydantic import ValidationError

from inferometer_api.plan.load_plan import ServerTargets
from inferometer_loadgen.reporting.http_endpoint import text_response

_MOST_TARGET_BYTES = 512 * 1024
_BODY_SECONDS = 5.0
_BEARER = "Bearer "


def unauthorized(request: web.BaseRequest, token: str, most_bytes: int) -> web.Response | None:
    """Return the refusal of a request without the token, or with a large body; else None.

    An empty token authorizes no request.
    """
    if (request.content_length or 0) > most_bytes:
        return text_response(413, f"A body of at most {most_bytes} bytes is taken.")
    header = request.headers.get("Authorization", "")
    given = header.removeprefix(_BEARER).encode("utf-8", "surrogateescape")
    known = hmac.compare_digest(given, token.encode())
    if known and token and header.startswith(_BEARER):
        return None
    return text_response(403, "The token of this load generator's plan was not given.")


async def take_targets(
    request: web.BaseRequest, token: str, deliver: Callable[[ServerTargets], str]
) -> web.Response:
    """Answer POST /targets: deliver the servers in its body; 409 if they are not taken."""
    refusal = unauthorized(request, token, _MOST_TARGET_BYTES)
    if refusal is not None:
        return refusal
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            body = await request.read()
    except TimeoutError:
        return text_response(408, f"The body did not arrive within {_BODY_SECONDS:g} s.")
    try:
        targets = ServerTargets.model_validate_json(body)
    except ValidationError as error:
        return text_response(400, f"The body is not that of POST /targets: {error}")
    reason = deliver(targets)
    if reason:
        return text_response(409, reason)
    return text_response(202, f"The servers of repeat {targets.repeat} are taken.")
