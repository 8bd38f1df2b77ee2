"""Who may send a request: the names of the host, the origin, the token, and the size."""

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MOST_URL_BYTES = 8192
_METHODS = frozenset({"GET", "HEAD"})
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; form-action 'self'; "
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


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Which requests are answered."""

    hosts: frozenset[str] = frozenset()
    """Names of this host besides `localhost`, in lower case. Addresses need no entry: a page of
    another site reaches this service under a name only (DNS rebinding)."""
    token: str | None = None
    """What callers must send; None if the service listens on loopback only."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    sentence: str


def refusal(
    method: str, url_bytes: int, headers: Mapping[str, str], rules: AccessRules
) -> Refusal | None:
    """Return why a request is refused, None if it may be answered.

    Names of headers are in lower case.
    """
    return _refused_caller(headers, rules) or _refused_request(method, url_bytes, headers)


def _refused_caller(headers: Mapping[str, str], rules: AccessRules) -> Refusal | None:
    host = headers.get("host", "")
    if not _is_own(host, rules.hosts):
        return Refusal(421, "The name of this host is unknown here. Allow it with --allow-host.")
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in {f"http://{host}", f"https://{host}"}:
        return Refusal(403, "Pages of other sites may not read results.")
    if rules.token is not None and not _is_authorised(headers.get("authorization"), rules.token):
        return Refusal(401, "Send the token: Authorization: Bearer TOKEN.")
    return None


def _refused_request(method: str, url_bytes: int, headers: Mapping[str, str]) -> Refusal | None:
    if method not in _METHODS:
        return Refusal(405, "Results are only read here: use GET or HEAD.")
    if url_bytes > _MOST_URL_BYTES:
        return Refusal(414, f"An address has at most {_MOST_URL_BYTES} bytes.")
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        return Refusal(413, "Requests have no body here.")
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

        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        url_bytes = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        refused = refusal(scope["method"], url_bytes, headers, self._rules)
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
