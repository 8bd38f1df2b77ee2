"""The decision for a suite: creations, its status, and that nothing is repeated."""

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from inferometer_api.suite.plan_suite import SuitePlan
from inferometer_api.suite.progress import RunOutcome, State
from inferometer_api.suite.status import ReusedCell, SuiteConditionType, SuiteStatus
from inferometer_operator.reconcile.suite.cells import (
    SuiteDecision,
    SuiteObserved,
    decide,
    run_outcomes,
)
from inferometer_operator.reconcile.suite.draft import SuiteDraft, is_true
from inferometer_operator.reconcile.suite.status_size import fit_suite_status
from support.suites import a_suite, an_axis, an_outcome, parsed, planned

NOW = datetime(2026, 6, 1, 3, tzinfo=UTC)
_GATED: dict[str, Any] = {"baseline": {"axis": "stack", "value": "old"}, "gate": {}}


def decided(
    plan: SuitePlan,
    data: dict[str, Any],
    runs: dict[int, RunOutcome] | None = None,
    status: SuiteStatus | None = None,
    refused: dict[str, str] | None = None,
) -> SuiteDecision:
    """Return the decision for a suite of which these runs exist."""
    live = {plan.runs[at].name: outcome for at, outcome in (runs or {}).items()}
    draft = SuiteDraft(status or SuiteStatus(), NOW, 1)
    return decide(parsed(data).spec, plan, draft, SuiteObserved(live, refused or {}))


def reason(status: SuiteStatus, kind: str) -> str:
    """Return the reason of a condition."""
    return next((each.reason for each in status.conditions if each.type == kind), "")


def test_the_first_decision_records_the_plan_and_starts_the_first_run() -> None:
    """The status comes before the run: another operator goes on from it."""
    data = a_suite()
    plan = planned(data)
    found = decided(plan, data)
    assert found.create == (0,)
    assert found.status.plan_sha256 == plan.sha256
    assert (found.status.states, found.status.phase) == ("..", "Running")


def test_a_run_that_was_seen_is_never_created_again() -> None:
    """Active and gone: deleted. Over and gone: as it was. Unknown and there: taken up."""
    data = a_suite(axes=[an_axis("stack", "a", "b", "c")])
    plan = planned(data)
    first = decided(plan, data)
    # It was created and the operator died before it wrote so.
    second = decided(plan, data, {0: RunOutcome("a", "Measuring")}, first.status)
    assert (second.status.states, second.create) == ("a..", ())
    third = decided(plan, data, {}, second.status)
    assert (third.status.states, third.create) == ("D..", (1,))
    fourth = decided(plan, data, {1: an_outcome()}, third.status)
    assert (fourth.status.states, fourth.create) == ("DV.", (2,))
    fifth = decided(plan, data, {2: RunOutcome("F", problem="No server.")}, fourth.status)
    assert fifth.status.states == "DVF"
    assert fifth.create == ()
    assert is_true(fifth.status, "Finished")
    assert reason(fifth.status, "Failed") == "SomeFailed"
    assert "No server." in next(
        each.message for each in fifth.status.conditions if each.type == "Failed"
    )


def test_a_run_that_is_over_keeps_its_figures_while_it_exists() -> None:
    """Once it is deleted, or if its object says something else, the recorded state stays."""
    plan = planned(a_suite())
    name = plan.runs[0].name
    seen = an_outcome()
    assert run_outcomes(plan, "V.", SuiteObserved({name: seen}, {}))[0] is seen
    assert run_outcomes(plan, "V.", SuiteObserved({}, {}))[0] == RunOutcome("V")
    changed = SuiteObserved({name: RunOutcome("F", problem="No server.")}, {})
    assert run_outcomes(plan, "V.", changed)[0] == RunOutcome("V")


def test_a_suite_that_waited_for_a_right_is_accepted_in_other_words() -> None:
    """What it lacked until then is no longer so, and the same message would say it."""
    data, draft = a_suite(reuse=True), SuiteDraft(SuiteStatus(), NOW, 1)
    draft.wait_for_right("The operator may not list nodes.")
    found = decide(parsed(data).spec, planned(data), draft, SuiteObserved({}, {}))
    (accepted,) = (each for each in found.status.conditions if each.type == "Accepted")
    assert accepted.status == "True"
    assert accepted.message == "2 cells, 2 runs. 0 runs reuse stored results."


def test_the_nodes_that_are_left_out_are_counted_before_other_notes() -> None:
    """A message has 1,024 characters, which the reasons to measure may fill."""
    data = a_suite(reuse=True)
    note = "7 matching nodes are left out, since no run would start on them: a (cordoned)."
    observed = SuiteObserved({}, {}, reuse_note="Measured: why. " * 99, systems_note=note)
    draft = SuiteDraft(SuiteStatus(), NOW, 1)
    found = decide(parsed(data).spec, planned(data), draft, observed)
    (message,) = (each.message for each in found.status.conditions if each.type == "Accepted")
    assert message.startswith(f"2 cells, 2 runs. 0 runs reuse stored results. {note} Measured: why")


@pytest.mark.parametrize(
    ("spec", "states", "create", "cancelled", "ended"),
    [
        ({"suspend": True}, "a..", (), 0, ""),
        ({"suspend": True}, "...", (), 0, ""),
        ({"cancel": True}, "aSS", (), 1, ""),
        ({"cancel": True}, "SSS", (), 0, "Cancelled"),
        ({"cancel": True}, "VFS", (), 0, "Cancelled"),
        ({"onFailure": "Stop"}, "VFS", (), 0, "StoppedAfterFailure"),
        ({"onFailure": "Stop"}, "VI.", (2,), 0, ""),
        ({"onFailure": "Continue"}, "VF.", (2,), 0, ""),
        ({"maxConcurrent": 2}, "a..", (1,), 0, ""),
        ({}, "VVI", (), 0, "Complete"),
    ],
)
def test_suspend_cancel_and_failures(
    spec: dict[str, Any], states: str, create: tuple[int, ...], cancelled: int, ended: str
) -> None:
    """What is started, cancelled and skipped, and how the suite ends."""
    data = a_suite(axes=[an_axis("stack", "a", "b", "c")], **spec)
    plan = planned(data)
    letters: list[State] = [each for each in states if each in {"a", "V", "I", "F"}]  # type: ignore[misc]  # letters
    live = {at: RunOutcome(letter) for at, letter in enumerate(letters)}
    found = decided(plan, data, live)
    assert (found.status.states, found.create, len(found.cancel)) == (states, create, cancelled)
    assert is_true(found.status, "Finished") == bool(ended)
    if ended:
        kind: SuiteConditionType = "Complete" if ended == "Complete" else "Failed"
        assert (is_true(found.status, kind), reason(found.status, kind)) == (True, ended)


def test_a_run_that_the_api_server_never_accepts_counts_as_failed() -> None:
    """With its words; the others go on."""
    data = a_suite()
    plan = planned(data)
    found = decided(plan, data, refused={plan.runs[0].name: "the policy forbids it"})
    assert (found.status.states, found.create) == ("F.", (1,))


def test_a_suite_whose_cells_have_changed_starts_nothing_more() -> None:
    """Its results would not belong together."""
    data = a_suite()
    status = decided(planned(data), data).status
    other = a_suite(axes=[an_axis("stack", "old", "other")])
    found = decided(planned(other), other, status=status)
    assert found.create == ()
    assert reason(found.status, "Failed") == "SpecChanged"


def test_the_gate_is_a_condition() -> None:
    """Unknown while it is advisory; its outcome is a column."""
    data = a_suite(repeats=3, **_GATED)
    plan = planned(data)
    found = decided(plan, data, {at: an_outcome() for at in range(len(plan.runs))})
    assert found.status.gate is not None
    assert reason(found.status, "Gate") == "Advisory"
    assert found.status.display is not None
    assert found.status.display.gate == f"{found.status.gate.outcome} (advisory)"
    assert [len(each.ratios_parts_per_million) for each in found.status.anchors] == [3]


def test_the_status_of_a_thousand_cells_stays_below_64_kib() -> None:
    """With the longest names, 32 scenarios, 100 systems, and a gate that fails everywhere."""
    values = [f"{'v' * 58}-{at:03}" for at in range(100)]
    data = a_suite(
        "s" * 253,
        axes=[an_axis("stack", "old", "new"), an_axis("a", *values[:50], path="spec.load.seed")],
        repeats=10,
        **_GATED,
    )
    plan = planned(data)
    assert sum(run.role == "cell" for run in plan.runs) == 1000
    (summary,) = an_outcome().scenarios

    def outcome(at: int) -> RunOutcome:
        slower = 1 + (dict(plan.runs[at].cell.values)["stack"] == "new")
        scenarios = tuple(
            summary.model_copy(
                update={
                    "name": f"{'n' * 60}-{number:02}",
                    "p50_microseconds": round(1000 * slower * (1 + math.sin(at) / 100)),
                }
            )
            for number in range(32)
        )
        return RunOutcome("V", "Complete", scenarios, "n" * 63)

    runs = {at: outcome(at) for at in range(len(plan.runs))}
    runs[1] = RunOutcome("F", problem="x" * 5000)
    found = decided(plan, data, runs).status
    assert found.gate is not None
    assert len(found.gate.slower) == 20
    assert fit_suite_status(found) == found
    reused = [ReusedCell(run="r" * 63, cell="c" * 253, result="0" * 32)] * 20
    systems = [f"{'s' * 250}-{at:02}" for at in range(100)]
    fitted = fit_suite_status(found.model_copy(update={"systems": systems, "reused": reused}))
    assert len(json.dumps(fitted.model_dump(mode="json", exclude_none=True))) < 64 * 1024
    kept = (fitted.systems, fitted.states, fitted.conditions, fitted.cells)
    assert kept == (systems, found.states, found.conditions, found.cells)
    long = [each.model_copy(update={"message": "é" * 1024}) for each in found.conditions]
    wide = found.model_copy(update={"systems": systems, "reused": reused, "conditions": long})
    assert len(fit_suite_status(wide).model_dump_json(exclude_none=True).encode()) <= 64 * 1024
    assert [each.name for each in fitted.scenarios] == [each.name for each in found.scenarios]
