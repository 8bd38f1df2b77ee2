"""Prepares the views of a suite: its executions, and the runs of one of them."""

from dataclasses import dataclass
from typing import Any

from inferometer_api.suite.outcome import SuiteOutcome
from inferometer_api.suite.wording import gate_word
from inferometer_results.service.answers import RequestError
from inferometer_results.store.database import NoSuchResultError
from inferometer_results.store.store import Store
from inferometer_results.suites.stored_suites import (
    engines_of,
    ranking_of,
    results_of,
    reused_runs,
    stored_executions,
    stored_outcomes,
    stored_runs,
    unmeasured_runs,
)
from inferometer_results.suites.view import (
    STATE_WORDS,
    Caveat,
    SuiteRun,
    SuiteView,
    label_of,
    suite_view,
)

LONGEST_NAME = 253
FLAT_COLUMNS = (
    "run", "cell", "system", "repeat", "role", "state", "reason", "result_id", "scenario", "figure",
    "value",
)  # fmt: skip
"""Of the rows that CSV has."""
_NOTE = (
    "The outcome of this execution is not in the database: the execution goes on, was interrupted, "
    "or its results were imported. Runs without a result are not shown."
)


@dataclass(frozen=True, slots=True)
class StoredSuite:
    """A suite with one of its executions."""

    view: SuiteView
    runs: tuple[SuiteRun, ...]
    """Those of the execution."""
    executions: dict[str, SuiteOutcome | None]
    """All executions, the newest first, with what became of them if that is known."""

    @property
    def gates(self) -> dict[str, str]:
        """Return the word of the gate of each execution, empty if it is not known."""
        return {
            name: "" if outcome is None else gate_word(outcome.gate)
            for name, outcome in self.executions.items()
        }


def show_suite(store: Store, name: str, execution: str) -> StoredSuite:
    """Return a suite with an execution, the newest if that is empty.

    Raises RequestError and NoSuchResultError.
    """
    if '"' in name or len(name) > LONGEST_NAME:
        raise RequestError("A suite's name has no quotes and at most 253 characters.")
    found = {each.name: each for each in stored_executions(store, name)}
    outcomes = stored_outcomes(store, name)
    names = list(dict.fromkeys((*found, *reversed(outcomes))))
    if not names:
        raise NoSuchResultError(f"No result belongs to a suite {name}. /suites lists all.")
    chosen = execution or names[0]
    if chosen not in names:
        raise NoSuchResultError(f"The suite {name} has no execution {chosen}.")
    rows = results_of(store, name, found[chosen]) if chosen in found else ()
    measured = stored_runs(rows, engines_of(store, rows))
    outcome = outcomes.get(chosen)
    reused = [] if outcome is None else reused_runs(store, outcome)
    view, runs = _view(name, chosen, [*measured, *reused], outcome, ranking_of(store))
    return StoredSuite(view, tuple(runs), {each: outcomes.get(each) for each in names})


def _view(
    name: str,
    execution: str,
    runs: list[SuiteRun],
    outcome: SuiteOutcome | None,
    caveat: Caveat,
) -> tuple[SuiteView, list[SuiteRun]]:
    """Return what the page shows of an execution, which is over if it has an outcome."""
    if outcome is None:
        return suite_view(name, execution, runs, note=_NOTE, caveat=caveat), runs
    known = [*runs, *unmeasured_runs(outcome, runs)]
    missing = outcome.planned - len(known)
    note = f"The results of {missing} runs are no longer in the database." if missing > 0 else ""
    view = suite_view(name, execution, known, gate=outcome.gate, note=note, caveat=caveat)
    return view, known


def suite_document(found: StoredSuite) -> dict[str, Any]:
    """Return a suite and one of its executions for the API."""
    outcome = found.executions[found.view.execution]
    gate = None if outcome is None else outcome.gate
    return {
        "suite": found.view.name,
        "executions": [
            {
                "execution": name,
                "finished_at": None if each is None else each.finished_at,
                "planned": None if each is None else each.planned,
                "gate": None if each is None or each.gate is None else each.gate.outcome,
            }
            for name, each in found.executions.items()
        ],
        "execution": found.view.execution,
        "gate": None if gate is None else gate.model_dump(mode="json", by_alias=False),
        "note": found.view.note,
        "runs": suite_rows(found),
    }


def suite_rows(found: StoredSuite) -> list[dict[str, Any]]:
    """Return a row for each run of an execution."""
    return [
        {
            "run": run.name,
            "cell": label_of(run),
            "values": dict(run.values),
            "system": run.system,
            "repeat": run.repeat,
            "role": run.role,
            "state": STATE_WORDS.get(run.state, run.state),
            "reason": run.reason,
            "result_id": run.link.rpartition("/")[2],
            "figures": run.figures or {},
        }
        for run in found.runs
    ]


def flat_rows(found: StoredSuite) -> list[dict[str, Any]]:
    """Return the rows as CSV has them: one for each figure, and one for a run without any."""
    return [
        {name: value for name, value in row.items() if name not in {"values", "figures"}}
        | {"scenario": scenario, "figure": figure, "value": value}
        for row in suite_rows(found)
        for scenario, figure, value in _figures(row["figures"])
    ]


def _figures(figures: dict[str, dict[str, float]]) -> list[tuple[str, str, float | None]]:
    found: list[tuple[str, str, float | None]] = [
        (scenario, name, value)
        for scenario, named in figures.items()
        for name, value in named.items()
    ]
    return found or [("", "", None)]
