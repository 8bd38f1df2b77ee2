"""The page of a suite in the explorer: the matrix of one execution."""

from collections.abc import Callable
from urllib.parse import urlencode

from fastapi import APIRouter, Response
from starlette.responses import HTMLResponse

from inferometer_results.service.api.summaries import ExecutionQuery
from inferometer_results.service.pages.rendering import render_page
from inferometer_results.service.views.suites import show_suite
from inferometer_results.store.store import Store
from inferometer_results.suites.page import suite_context


def suite_routes(store: Store) -> APIRouter:
    """Return the route of the suites' pages over a store."""
    routes = APIRouter(include_in_schema=False)
    routes.add_api_route("/suites/{name}", _suite(store), response_class=HTMLResponse)
    return routes


def _suite(store: Store) -> Callable[..., Response]:
    def suite(name: str, execution: ExecutionQuery = "") -> Response:
        found = show_suite(store, name, execution)
        return render_page(
            "suite_page.html.j2",
            **suite_context(found.view),
            executions=found.gates,
            query=urlencode({"execution": found.view.execution}),
        )

    return suite
