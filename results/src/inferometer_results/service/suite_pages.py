"""The pages of suites in the explorer: all suites, and the matrix of one execution."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Response
from starlette.responses import HTMLResponse

from inferometer_results.service.answers import RequestError
from inferometer_results.service.rendering import render_page
from inferometer_results.store.store import Store
from inferometer_results.suites.page import suite_context
from inferometer_results.suites.stored import executions, stored_runs, suite_names
from inferometer_results.suites.view import suite_view

_LONGEST_NAME = 253
_NOTE = "Runs that were not measured have no result, and are not shown here."


def suite_routes(store: Store) -> APIRouter:
    """Return the routes of the suites' pages over a store."""
    routes = APIRouter(include_in_schema=False)
    routes.add_api_route("/suites", _suites(store), response_class=HTMLResponse)
    routes.add_api_route("/suites/{name}", _suite(store), response_class=HTMLResponse)
    return routes


def _suites(store: Store) -> Callable[[], Response]:
    def suites() -> Response:
        return render_page("suites.html.j2", names=suite_names(store))

    return suites


def _suite(store: Store) -> Callable[..., Response]:
    def suite(
        name: str, execution: Annotated[str, Query(max_length=_LONGEST_NAME)] = ""
    ) -> Response:
        if '"' in name or len(name) > _LONGEST_NAME:
            raise RequestError("A suite's name has no quotes and at most 253 characters.")
        found = executions(store, name)
        if not found:
            raise RequestError(f"No result belongs to a suite {name}. /suites lists all.")
        chosen = execution or next(iter(found))
        if chosen not in found:
            raise RequestError(f"The suite {name} has no execution {chosen}.")
        view = suite_view(name, chosen, stored_runs(found[chosen]), note=_NOTE)
        return render_page("suite_page.html.j2", **suite_context(view), executions=list(found))

    return suite
