"""Refuses requests before the application sees them, and secures each answer."""

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inferometer_results.service.access.rules import AccessRules, refusal

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; connect-src 'self'; "
    "form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""Pages load only the style and the script of this service, and run nothing that is in a text."""
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def header_texts(scope: Scope) -> dict[str, str]:
    """Return the headers of a request by their names in lower case; of several the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def url_bytes(scope: Scope) -> int:
    """Return the length of a request's path and query."""
    return len(scope.get("raw_path") or b"") + len(scope["query_string"])


def secured(send: Send) -> Send:
    """Return what sends an answer with the headers that every answer has."""

    async def send_secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            sent = message.setdefault("headers", [])
            present = {name for name, _ in sent}
            sent += [
                (name.encode(), value.encode())
                for name, value in _HEADERS.items()
                if name.encode() not in present
            ]
            if b"cache-control" not in present:
                sent.append((b"cache-control", b"private, no-cache"))
        await send(message)

    return send_secured


class AccessControl:
    """Refuses requests before the application sees them, and secures each answer by headers."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        send_secured = secured(send)
        refused = refusal(scope["method"], url_bytes(scope), header_texts(scope), self._rules)
        if refused is None:
            # Servers drop the body of an answer to HEAD.
            await self._app({**scope, "method": "GET"}, receive, send_secured)
            return
        answer = PlainTextResponse(f"{refused.sentence}\n", refused.status)
        if refused.status == 401:
            answer.headers["www-authenticate"] = 'Basic realm="Inferometer", charset="UTF-8"'
        if refused.status == 405:
            answer.headers["allow"] = "GET, HEAD"
        await answer(scope, receive, send_secured)
