"""The ASGI application: API, pages, health and metrics behind access control."""

import gc
import sys
from collections.abc import Callable

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp

from inferometer_api.results.reading import UnreadableDocumentError
from inferometer_results.explore.prices import PriceList
from inferometer_results.service.access.cluster import ReviewError
from inferometer_results.service.access.requests import AccessControl
from inferometer_results.service.access.rules import AccessRules
from inferometer_results.service.answers import RequestError, json_answer
from inferometer_results.service.api.changes import Changes, change_routes
from inferometer_results.service.api.ingest import Ingest, ingest_routes
from inferometer_results.service.api.results import api_routes
from inferometer_results.service.api.reuse import reuse_routes
from inferometer_results.service.metrics import RequestMetrics, ServiceMetrics
from inferometer_results.service.pages.nodes import node_routes
from inferometer_results.service.pages.rendering import message_page
from inferometer_results.service.pages.runs import page_routes
from inferometer_results.service.pages.suites import suite_routes
from inferometer_results.store.database import DatabaseFailedError, NoSuchResultError, StoreError
from inferometer_results.store.query import Search
from inferometer_results.store.search_fields import SearchError
from inferometer_results.store.store import Store

_STATUS: dict[type[Exception], int] = {
    RequestError: 400,
    SearchError: 400,
    NoSuchResultError: 404,
    UnreadableDocumentError: 422,
    StoreError: 503,
}
_NOT_FOUND = "There is no such page. / lists all results."


def create_app(
    store: Store,
    rules: AccessRules,
    version: str,
    clock: Callable[[], float],
    prices: PriceList | None = None,
) -> ASGIApp:
    """Return the application over an open store; `clock` returns seconds and never goes back."""
    metrics = ServiceMetrics(clock)
    app = _explorer(store, version, prices)
    _add_probes(app, store, metrics)
    return AccessControl(RequestMetrics(app, metrics), rules)


def create_cluster_app(
    ingest: Ingest, version: str, metrics: ServiceMetrics, prices: PriceList | None = None
) -> ASGIApp:
    """Return the application of a cluster without its access control, which is to go round it.

    The store of `ingest` is limited to what the caller may read.
    """
    app = _explorer(ingest.store, version, prices)
    app.description = (
        "Finds, shows and compares results, takes documents, and what people add to them."
    )
    app.include_router(ingest_routes(ingest))
    app.include_router(change_routes(Changes(ingest)))
    app.include_router(reuse_routes(ingest))
    app.add_exception_handler(ReviewError, _answering(503))
    return RequestMetrics(app, metrics)


def create_probe_app(store: Store, metrics: ServiceMetrics) -> ASGIApp:
    """Return what the kubelet and Prometheus use, on a port of its own."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    _add_probes(app, store, metrics)
    app.add_exception_handler(StoreError, _answering(503))
    app.add_exception_handler(DatabaseFailedError, _answer_failed_database)
    return app


def exempt_from_collection() -> None:
    """Exempt all present objects from garbage collection, for a process that only serves.

    Imports leave 160,000 objects that stay. A full collection looked at each of them, and the
    request that it fell into took 100 ms longer.
    """
    gc.collect()
    gc.freeze()


def _add_probes(app: FastAPI, store: Store, metrics: ServiceMetrics) -> None:
    app.add_api_route("/healthz", _health, include_in_schema=False)
    app.add_api_route("/readyz", _readiness(store), include_in_schema=False)
    app.add_api_route("/metrics", _metrics(store, metrics), include_in_schema=False)


def _explorer(store: Store, version: str, prices: PriceList | None = None) -> FastAPI:
    """Return the API and the pages over a store."""
    if prices is not None:
        store.price = prices.of_node_set
    app = FastAPI(
        title="Inferometer results",
        version=version,
        description="Finds, shows and compares results. Nothing can be changed here.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    app.add_middleware(GZipMiddleware)
    app.include_router(api_routes(store, prices))
    app.include_router(page_routes(store, version, prices))
    app.include_router(suite_routes(store))
    app.include_router(node_routes(store))
    for kind, status in _STATUS.items():
        app.add_exception_handler(kind, _answering(status))
    app.add_exception_handler(DatabaseFailedError, _answer_failed_database)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_unknown)
    return app


def _health() -> Response:
    """Answer while the process lives."""
    return Response("ok\n", media_type="text/plain")


def _readiness(store: Store) -> Callable[[], Response]:
    def readiness() -> Response:
        """Answer if the database does."""
        store.count(Search(limit=1))
        return Response("ok\n", media_type="text/plain")

    return readiness


def _metrics(store: Store, metrics: ServiceMetrics) -> Callable[[], Response]:
    def exposition() -> Response:
        """Return the metrics for Prometheus."""
        stored = store.count(Search(with_retracted=True))
        return Response(
            metrics.exposition(stored), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    return exposition


def _answering(status: int) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        return _fault(request, status, str(error))

    return answer


def _answer_failed_database(request: Request, error: Exception) -> Response:
    """Log the reason with the address of the database, and answer without it."""
    if not isinstance(error, DatabaseFailedError):
        raise error
    sys.stderr.write(f"inferometer-results: {error}\n")
    return _fault(request, 503, error.public)


def _answer_invalid(request: Request, error: Exception) -> Response:
    """Name the first parameter that is wrong."""
    if not isinstance(error, RequestValidationError):
        raise error
    first = error.errors()[0]
    name, reason = first["loc"][1], str(first["msg"])
    return _fault(request, 400, f"Parameter {name!r} is wrong: {reason[:1].lower()}{reason[1:]}.")


def _answer_unknown(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code != 405:
        return _fault(request, error.status_code, _NOT_FOUND)
    sentence = f"This address does not take {request.method}: see /api/v1/openapi.json."
    answer = _fault(request, 405, sentence)
    answer.headers.update(error.headers or {})
    return answer


def _fault(request: Request, status: int, sentence: str) -> Response:
    """Return an error as JSON to programs, and as a page to people."""
    if request.url.path.startswith("/api/"):
        return json_answer({"error": sentence}, status)
    return message_page(sentence, status)
