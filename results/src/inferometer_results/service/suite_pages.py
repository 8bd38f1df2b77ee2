"""The page of a suite in the explorer: the matrix of one execution."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Response
from starlette.responses import HTMLResponse

from inferometer_results.service.answers import RequestError
from inferometer_results.service.rendering import render_page
from inferometer_results.store.store import Store
from inferometer_results.suites.page import suite_context
from inferometer_results.suites.stored import results_of, stored_executions, stored_runs
from inferometer_results.suites.view import suite_view

_LONGEST_NAME = 253
_NOTE = "Runs that were not measured have no result, and are not shown here."


def suite_routes(store: Store) -> APIRouter:
    """Return the route of the suites' pages over a store."""
    routes = APIRouter(include_in_schema=False)
    routes.add_api_route("/suites/{name}", _suite(store), response_class=HTMLResponse)
    return routes


def _suite(store: Store) -> Callable[..., Response]:
    def suite(
        name: str, execution: Annotated[str, Query(max_length=_LONGEST_NAME)] = ""
    ) -> Response:
        if '"' in name or len(name) > _LONGEST_NAME:
            raise RequestError("A suite's name has no quotes and at most 253 characters.")
        found = {each.name: each for each in stored_executions(store, name)}
        if not found:
            raise RequestError(f"No result belongs to a suite {name}. /suites lists all.")
        chosen = execution or next(iter(found))
        if chosen not in found:
            raise RequestError(f"The suite {name} has no execution {chosen}.")
        runs = stored_runs(results_of(store, name, found[chosen]))
        view = suite_view(name, chosen, runs, note=_NOTE)
        return render_page("suite_page.html.j2", **suite_context(view), executions=list(found))

    return suite
