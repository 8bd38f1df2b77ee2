"""Takes result documents for a namespace: from its operator, and from people who may run there."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from inferometer_api import patterns
from inferometer_api.results.gzip_members import DOCUMENT_BYTES, IncompleteError, decompress
from inferometer_api.results.reading import read_result
from inferometer_api.results.result_transport import TooLargeError, check_document
from inferometer_api.results.service_paths import result_page
from inferometer_results.service.access.cluster import Authority, Caller
from inferometer_results.service.access.reviews import RunAccess
from inferometer_results.service.answers import RequestError, json_answer, refused_type
from inferometer_results.service.api import schema
from inferometer_results.store.index_rows import Origin
from inferometer_results.store.node_characteristics import keep_measurement
from inferometer_results.store.store import Kept, Store
from inferometer_results.store.suite_outcomes import keep_outcome
from inferometer_results.suites.labels import suite_label_fault

_MOST_CALLERS = 1000
NamespacePath = Annotated[str, Path(pattern=patterns.DNS_LABEL, max_length=63)]


@dataclass(slots=True)
class RateLimit:
    """Lets each caller send so many documents at once, and then so many a second."""

    clock: Callable[[], float]
    burst: int = 100
    per_second: float = 10.0
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)
    """What each caller may still send, and as of when."""

    def takes(self, caller: str) -> bool:
        """Return whether to take a document of a caller now."""
        now = self.clock()
        left, since = self._left.pop(caller, (float(self.burst), now))
        left = min(float(self.burst), left + (now - since) * self.per_second)
        taken = left >= 1.0
        self._left[caller] = (left - taken, now)
        if len(self._left) > _MOST_CALLERS:
            # Who has sent nothing for longest has a whole burst again, or nearly.
            del self._left[next(iter(self._left))]
        return taken


@dataclass(frozen=True, slots=True)
class Ingest:
    """What the route of documents needs."""

    store: Store
    authority: Authority
    cluster_uid: str
    limit: RateLimit
    now: Callable[[], str]
    """The time, as documents have it."""

    async def take(self, request: Request, namespace: str) -> Response:
        """Keep the result document in the body of a request."""
        return await self._take(request, namespace, self._keep_result, result_page)

    async def take_suite(self, request: Request, namespace: str) -> Response:
        """Keep the outcome of a suite in the body of a request; operators alone know it."""
        caller: Caller = request.state.caller
        if caller.way != "operator":
            return json_answer({"error": "Only an operator sends outcomes of suites."}, 403)
        return await self._take(request, namespace, self._keep_outcome, lambda _: "/suites")

    async def take_node(self, request: Request, namespace: str) -> Response:
        """Keep what a node gives in the body of a request, as an operator measured it."""
        caller: Caller = request.state.caller
        if caller.way != "operator":
            return json_answer({"error": "Only an operator sends measurements of nodes."}, 403)
        return await self._take(request, namespace, self._keep_node, lambda _: "/measured-nodes")

    def _keep_result(self, content: bytes, origin: Origin) -> Kept:
        if origin.source == "user":
            # An operator's runs have the labels that their suite gave them.
            labels = read_result(content, source="The document").document.run.metadata.labels
            if fault := suite_label_fault(labels):
                raise RequestError(f"The document cannot be kept. {fault}")
        return self.store.add(content, origin, source="The document")

    def _keep_outcome(self, content: bytes, origin: Origin) -> Kept:
        return keep_outcome(self.store, content, origin)

    def _keep_node(self, content: bytes, origin: Origin) -> Kept:
        return keep_measurement(self.store, content, origin)

    async def _take(
        self,
        request: Request,
        namespace: str,
        keep: Callable[[bytes, Origin], Kept],
        page: Callable[[str], str],
    ) -> Response:
        uid = await self.admitted_namespace(request, namespace)
        if isinstance(uid, Response):
            return uid
        try:
            content = await read_document(request)
        except TooLargeError as error:
            return json_answer({"error": str(error)}, 413)
        except IncompleteError as error:
            return json_answer({"error": str(error)}, 400)
        caller: Caller = request.state.caller
        kept = await run_in_threadpool(keep, content, self._origin(caller, namespace, uid))
        found = schema.Stored(id=kept.id, is_new=kept.is_new, page=page(kept.id))
        return json_answer(found.model_dump(), 201 if kept.is_new else 200)

    async def admitted_namespace(self, request: Request, namespace: str) -> str | Response:
        """Return the UID of a namespace for which the caller may send documents, or the refusal."""
        caller: Caller = request.state.caller
        if not self.limit.takes(caller.identity.user):
            answer = json_answer({"error": "Too many documents: send fewer a second."}, 429)
            answer.headers["retry-after"] = "1"
            return answer
        refused = refused_type(request) if caller.way == "person" else None
        if refused is not None:
            return refused
        if not await self.authority.may(caller.identity, _needed(caller, namespace)):
            return json_answer({"error": _forbidden(caller, namespace)}, 403)
        uid = await self.authority.namespace_uid(namespace)
        if uid is None:
            return json_answer({"error": f"There is no namespace {namespace}."}, 404)
        return uid

    def _origin(self, caller: Caller, namespace: str, uid: str) -> Origin:
        # What a person sends was measured anywhere: it never passes for a run of this cluster.
        source, cluster = (
            ("operator", self.cluster_uid) if caller.way == "operator" else ("user", "")
        )
        return Origin(source, self.now(), cluster, namespace, uid)


def ingest_routes(ingest: Ingest) -> APIRouter:
    """Return the routes that take documents."""
    routes = APIRouter(prefix="/api/v1")

    async def push_result(request: Request, namespace: NamespacePath) -> Response:
        """Keep a result document, which may be compressed by gzip, for a namespace."""
        return await ingest.take(request, namespace)

    async def push_suite(request: Request, namespace: NamespacePath) -> Response:
        """Keep the outcome of an execution of a suite, as its operator sends it."""
        return await ingest.take_suite(request, namespace)

    async def push_node(request: Request, namespace: NamespacePath) -> Response:
        """Keep what a node gives, as an operator sends it."""
        return await ingest.take_node(request, namespace)

    for path, endpoint in (
        ("/namespaces/{namespace}/results", push_result),
        ("/namespaces/{namespace}/suites", push_suite),
        ("/namespaces/{namespace}/nodes", push_node),
    ):
        routes.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            response_class=Response,
            responses={
                200: {"model": schema.Stored},
                201: {"model": schema.Stored},
                **{
                    code: {"model": schema.ErrorBody}
                    for code in (400, 403, 404, 413, 415, 422, 429, 503)
                },
            },
        )
    return routes


def _needed(caller: Caller, namespace: str) -> RunAccess:
    """Return the right that sending needs: that of an operator where it serves runs."""
    if caller.way == "operator":
        return RunAccess("patch", namespace, "status")
    return RunAccess("create", namespace)


def _forbidden(caller: Caller, namespace: str) -> str:
    what = "serve" if caller.way == "operator" else "create"
    return f"{caller.identity.user} may not {what} benchmarkruns in namespace {namespace}."


async def read_document(request: Request) -> bytes:
    """Return the document in a body. Raises TooLargeError and IncompleteError."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > DOCUMENT_BYTES:
            raise TooLargeError(f"A document has at most {DOCUMENT_BYTES} bytes.")
    match request.headers.get("content-encoding", ""):
        case "gzip":
            content = bytes(await run_in_threadpool(decompress, bytes(body)))
        case "" | "identity":
            content = bytes(body)
        case other:
            raise IncompleteError(f"Content-Encoding {other!r} is unknown: send gzip or none.")
    check_document(content)
    return content
