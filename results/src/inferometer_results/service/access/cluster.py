"""Lets callers of the API server, and pods with a token for us, send requests in a cluster."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inferometer_api.results.service_paths import PAGE_TYPE
from inferometer_results.service.access.front_proxy import (
    FrontProxy,
    FrontProxyError,
    Identity,
    proxied_identity,
)
from inferometer_results.service.access.requests import header_texts, secured, url_bytes
from inferometer_results.service.access.reviews import RunAccess
from inferometer_results.service.access.rules import RefusedRequest, refused_request
from inferometer_results.service.answers import json_answer
from inferometer_results.service.api.discovery import discovery_document, explorer_path, failure
from inferometer_results.store.visibility import READABLE, Readable

PEER_NAME = "peer_name"
"""Where the server puts the common name of a client certificate into the state of a request."""
_FORBIDDEN = RefusedRequest(403, "Pods read and push results through the API server, not here.")
_FOREIGN = RefusedRequest(
    403, "Web pages get no answers here: read the results by kubectl inferometer web."
)
_UNKNOWN = RefusedRequest(
    401, "Send requests through the API server: kubectl inferometer web, or results --cluster."
)


class ReviewError(Exception):
    """The API server does not say who a caller is or what they may do; a sentence."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, and by which way."""

    identity: Identity
    way: Literal["person", "operator"]
    """Whether the API server named the caller, or it is an operator that sent its token."""


class Authority(Protocol):
    """Queries the API server. Every method raises ReviewError if that does not answer."""

    async def bearer(self, token: str) -> Identity | None:
        """Return the bearer of a token of our audience, None if it is none."""
        ...

    async def may(self, identity: Identity, right: RunAccess) -> bool:
        """Return whether a caller has a right."""
        ...

    async def readable(self, identity: Identity) -> Readable:
        """Return the namespaces whose results a caller may read."""
        ...

    async def namespace_uid(self, name: str) -> str | None:
        """Return the UID of a namespace, None if it does not exist."""
        ...


class ClusterAccess:
    """Finds out who the caller is, limits what is read to their rights, and secures answers."""

    def __init__(
        self, app: ASGIApp, authority: Authority, proxy: FrontProxy, operators: frozenset[str]
    ) -> None:
        """Take the explorer, and the user names of the operators' service accounts."""
        self._app = app
        self._authority = authority
        self._proxy = proxy
        self._operators = operators

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        send = secured(_disguised(send))
        try:
            found = await self._caller(scope)
            if isinstance(found, Caller):
                await self._answer(found, scope, receive, send)
                return
            refused = found
        except ReviewError as error:
            refused = RefusedRequest(503, str(error))
        except FrontProxyError as error:
            refused = RefusedRequest(431, str(error))
        await _refuse(refused, scope, receive, send)

    async def _caller(self, scope: Scope) -> Caller | RefusedRequest:
        if "origin" in header_texts(scope):
            # A browser at the API server, which has its user's certificate, sends it for a page of
            # any site. No page of ours is there: `web` serves them, and sends no origin. A host is
            # not checked, because it is the API server that writes it.
            return _FOREIGN
        if self._proxy.trusts(scope.get("state", {}).get(PEER_NAME)):
            identity = proxied_identity(scope["headers"], self._proxy)
            return _UNKNOWN if identity is None else Caller(identity, "person")
        kind, _, token = header_texts(scope).get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            return _UNKNOWN
        identity = await self._authority.bearer(token.strip())
        if identity is None:
            return _UNKNOWN
        return Caller(identity, "operator") if identity.user in self._operators else _FORBIDDEN

    async def _answer(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        document = discovery_document(scope["path"])
        path = explorer_path(scope["path"])
        if document is not None and scope["method"] in {"GET", "HEAD"}:
            await json_answer(document)(scope, receive, send)
            return
        if path is None:
            await _refuse(RefusedRequest(404, "There is no such path here."), scope, receive, send)
            return
        inner: dict[str, Any] = {
            **scope,
            "path": path,
            "raw_path": path.encode(),
            "state": {**scope.get("state", {}), "caller": caller},
        }
        if scope["method"] in {"POST", "DELETE"}:
            # Who may send or change what, its route decides.
            READABLE.set(frozenset())
            await self._app(inner, receive, send)
            return
        refused = refused_request(scope["method"], url_bytes(scope), header_texts(scope))
        if caller.way == "operator":
            refused = _FORBIDDEN
        if refused is not None:
            await _refuse(refused, scope, receive, send)
            return
        READABLE.set(await self._authority.readable(caller.identity))
        await self._app({**inner, "method": "GET"}, receive, send)


def _disguised(send: Send) -> Send:
    """Return what sends an answer that is no HTML to the API server in between."""

    async def send_disguised(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                (name, value.replace(b"text/html", PAGE_TYPE.encode(), 1))
                if name == b"content-type"
                else (name, value)
                for name, value in message.get("headers", ())
            ]
        await send(message)

    return send_disguised


async def _refuse(refused: RefusedRequest, scope: Scope, receive: Receive, send: Send) -> None:
    answer = json_answer(failure(refused.status, refused.sentence), refused.status)
    if refused.status == 503:
        answer.headers["retry-after"] = "5"
    await answer(scope, receive, send)
