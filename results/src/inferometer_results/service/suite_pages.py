"""The page of a suite in the explorer: the matrix of one execution."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Response
from starlette.responses import HTMLResponse

from inferometer_api.suite.outcome import SuiteOutcome
from inferometer_api.suite.wording import gate_word
from inferometer_results.service.answers import RequestError
from inferometer_results.service.rendering import render_page
from inferometer_results.store.store import Store
from inferometer_results.suites.page import suite_context
from inferometer_results.suites.stored import (
    results_of,
    stored_executions,
    stored_outcomes,
    stored_runs,
    unmeasured_runs,
)
from inferometer_results.suites.view import SuiteRun, SuiteView, suite_view

_LONGEST_NAME = 253
_NOTE = (
    "The outcome of this execution is not in the database: the execution goes on, was interrupted, "
    "or its results were imported. Runs without a result are not shown."
)


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
        outcomes = stored_outcomes(store, name)
        names = list(dict.fromkeys((*found, *reversed(outcomes))))
        if not names:
            raise RequestError(f"No result belongs to a suite {name}. /suites lists all.")
        chosen = execution or names[0]
        if chosen not in names:
            raise RequestError(f"The suite {name} has no execution {chosen}.")
        rows = results_of(store, name, found[chosen]) if chosen in found else ()
        view = _view(name, chosen, stored_runs(rows), outcomes.get(chosen))
        gates = {each: gate_word(outcomes[each].gate) if each in outcomes else "" for each in names}
        return render_page("suite_page.html.j2", **suite_context(view), executions=gates)

    return suite


def _view(
    name: str, execution: str, runs: list[SuiteRun], outcome: SuiteOutcome | None
) -> SuiteView:
    """Return what the page shows of an execution, which is over if it has an outcome."""
    if outcome is None:
        return suite_view(name, execution, runs, note=_NOTE)
    known = [*runs, *unmeasured_runs(outcome, runs)]
    missing = outcome.planned - len(known)
    note = f"The results of {missing} runs are no longer in the database." if missing > 0 else ""
    return suite_view(name, execution, known, gate=outcome.gate, note=note)
