"""The decision for a suite: which of its runs to create or cancel now, and its status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never, get_args

from inferometer_api.suite.anchor import add_pairs
from inferometer_api.suite.comparisons import BaselineCell
from inferometer_api.suite.figures import CellKey
from inferometer_api.suite.gate import judge_suite
from inferometer_api.suite.plan_suite import SuitePlan
from inferometer_api.suite.progress import (
    OPEN,
    RunOutcome,
    State,
    count_states,
    next_runs,
    scenario_ranges,
)
from inferometer_api.suite.spec import SuiteSpec
from inferometer_api.suite.status import (
    AnchorPairs,
    CurrentRun,
    GateStatus,
    ReusedCell,
    SuiteDisplay,
    SuiteReason,
    SuiteStatus,
)
from inferometer_api.suite.wording import gate_sentence, gate_word
from inferometer_api.timestamps import format_time
from inferometer_api.wording import counted
from inferometer_operator.reconcile.suite.draft import SuiteDraft

_MOST_CURRENT = _MOST_REUSED = 20
_STATES: dict[str, State] = {each: each for each in get_args(State)}


@dataclass(frozen=True, slots=True)
class SuiteObserved:
    """What is known of a suite in addition to its spec and status."""

    runs: Mapping[str, RunOutcome]
    """The runs that exist and that it owns, by name."""
    refused: Mapping[str, str]
    """Runs that the API server will never accept, by name, with its words."""
    refusal: str = ""
    """Why the API server accepts no run at the moment."""
    history: Sequence[AnchorPairs] = ()
    """A/A pairs of earlier executions."""
    baseline: Mapping[CellKey, BaselineCell] | None = None
    """Runs of the execution that `baseline.suite` names."""
    reused: Mapping[str, RunOutcome] = field(default_factory=dict)
    """Runs for which a stored result stands, by name, as far as that is known."""
    reuse_note: str = ""
    """Why others are measured."""
    preparing: str = ""
    """Work on the nodes that the first run waits for, as a sentence; empty: none."""
    canary_note: str = ""
    """What has changed on the nodes before it, as sentences."""
    systems_note: str = ""
    """Which nodes match and are left out, as a sentence."""


@dataclass(frozen=True, slots=True)
class SuiteDecision:
    """What to do for a suite now, in this order: status, creations, cancellations."""

    status: SuiteStatus
    create: tuple[int, ...] = ()
    """Indices of planned runs."""
    cancel: tuple[str, ...] = ()
    """Names of runs to cancel."""


def decide(
    spec: SuiteSpec, plan: SuitePlan, draft: SuiteDraft, observed: SuiteObserved
) -> SuiteDecision:
    """Return what to do for a suite whose runs are planned.

    A run that was seen once is never created again: its letter in status.states outlives it.
    """
    if draft.status.plan_sha256 is None:
        draft.update(plan_sha256=plan.sha256, start_time=format_time(draft.now))
    elif draft.status.plan_sha256 != plan.sha256:
        draft.end(
            "Failed",
            "SpecChanged",
            "The cells are not those with which the suite started, so its results would not "
            "belong together. Create a new BenchmarkSuite.",
        )
        return SuiteDecision(draft.status)
    outcomes = run_outcomes(plan, draft.status.states, observed)
    stop = _stop_reason(spec, outcomes)
    if stop is not None:
        outcomes = [RunOutcome("S") if each.state == "." else each for each in outcomes]
    states = [each.state for each in outcomes]
    draft.set("Accepted", "True", "Accepted", _accepted_text(spec, plan, draft, states, observed))
    _show(draft, plan, outcomes)
    if OPEN.isdisjoint(states):
        _finish(spec, plan, draft, outcomes, stop, observed)
        return SuiteDecision(draft.status)
    create = (
        ()
        if spec.suspend or observed.preparing
        else tuple(next_runs(plan, states, max_concurrent=spec.max_concurrent))
    )
    _go_on(spec, draft, observed)
    active = [run.name for run, state in zip(plan.runs, states, strict=True) if state == "a"]
    return SuiteDecision(draft.status, create, tuple(active) if stop == "Cancelled" else ())


def _accepted_text(
    spec: SuiteSpec,
    plan: SuitePlan,
    draft: SuiteDraft,
    states: Sequence[State],
    observed: SuiteObserved,
) -> str:
    """Return what was accepted; only the first operator knows the notes."""
    text = f"{counted(len(plan.cells), 'cell')}, {counted(len(plan.runs), 'run')}."
    known = [
        each.message
        for each in draft.status.conditions
        if (each.type, each.status) == ("Accepted", "True")
    ]
    is_noted = bool(observed.reuse_note or observed.canary_note or observed.systems_note)
    if known and not is_noted and (spec.reuse or known[0].startswith(text)):
        return known[0]
    if spec.reuse:
        text = f"{text} {states.count('R')} runs reuse stored results."
    notes = (observed.systems_note, observed.reuse_note if spec.reuse else "", observed.canary_note)
    return " ".join(filter(None, (text, *notes)))


def run_outcomes(plan: SuitePlan, states: str, observed: SuiteObserved) -> list[RunOutcome]:
    """Return the outcome of each planned run, from the status and the runs that exist.

    Which runs are reused is decided once, before the first one is recorded.
    """
    recorded = states.ljust(len(plan.runs), ".")
    found = []
    for run, letter in zip(plan.runs, recorded, strict=False):
        live = observed.runs.get(run.name)
        state = _STATES.get(letter, "F")
        reused = observed.reused.get(run.name)
        if letter == "R" or (not states and reused is not None and live is None):
            found.append(reused or RunOutcome("R"))
        elif state in OPEN and live is None and run.name in observed.refused:
            found.append(RunOutcome("F", problem=observed.refused[run.name]))
        elif state in OPEN and live is None:
            found.append(RunOutcome("D" if state == "a" else "."))
        elif state in OPEN and live is not None:
            found.append(live)
        else:
            # It is over; if it still exists, its figures are known.
            same = live is not None and live.state == state
            found.append(live if same and live is not None else RunOutcome(state))
    return found


def _stop_reason(spec: SuiteSpec, outcomes: Sequence[RunOutcome]) -> SuiteReason | None:
    if spec.cancel:
        return "Cancelled"
    if spec.on_failure == "Stop" and any(each.state == "F" for each in outcomes):
        return "StoppedAfterFailure"
    return None


def _show(draft: SuiteDraft, plan: SuitePlan, outcomes: Sequence[RunOutcome]) -> None:
    states = [each.state for each in outcomes]
    counts = count_states(states)
    over = sum(state not in OPEN for state in states)
    words = {
        "failed": counts.failed,
        "INVALID": counts.invalid,
        "deleted": counts.deleted,
        "skipped": counts.skipped,
    }
    draft.update(
        left_out="",
        cells=counts,
        states="".join(states),
        current=[
            CurrentRun(run=run.name, cell=run.label[:253])
            for run, state in zip(plan.runs, states, strict=True)
            if state == "a"
        ][:_MOST_CURRENT],
        reused=[
            ReusedCell(run=run.name, cell=run.label[:253], result=outcome.result)
            for run, outcome in zip(plan.runs, outcomes, strict=True)
            if outcome.state == "R" and outcome.result
        ][:_MOST_REUSED]
        or draft.status.reused,
        scenarios=scenario_ranges(plan, outcomes),
        display=SuiteDisplay(
            cells=f"{over}/{len(states)}",
            problems=", ".join(f"{count} {word}" for word, count in words.items() if count)[:64],
        ),
    )


def _go_on(spec: SuiteSpec, draft: SuiteDraft, observed: SuiteObserved) -> None:
    if observed.refusal:
        reason: SuiteReason = "CreationRefused"
        text = f"The API server does not accept the next run: {observed.refusal} It is tried again."
    elif spec.suspend:
        reason, text = "Suspended", "spec.suspend is true: no run is started."
    else:
        text = observed.preparing or "Cells are measured; status.cells counts them."
        reason = "Running"
    draft.update(phase="Suspended" if spec.suspend else "Running")
    draft.set("Complete", "False", reason, text)
    draft.set("Finished", "False", reason, text)


def _finish(
    spec: SuiteSpec,
    plan: SuitePlan,
    draft: SuiteDraft,
    outcomes: Sequence[RunOutcome],
    stop: SuiteReason | None,
    observed: SuiteObserved,
) -> None:
    draft.update(anchors=add_pairs((), plan, outcomes))
    if spec.gate is not None:
        gate = judge_suite(spec, plan, outcomes, observed.history, observed.baseline)
        _set_gate(draft, gate)
    counts = count_states([each.state for each in outcomes])
    lost = counts.failed + counts.deleted
    if stop is not None:
        text = {"Cancelled": "spec.cancel is true"}.get(stop, "A run failed, and onFailure is Stop")
        draft.end("Failed", stop, f"{text}: {counts.skipped} runs were not started.")
    elif lost:
        text = (
            f"{counts.failed} runs failed and {counts.deleted} were deleted, of {counts.planned}. "
            "They are not repeated: create a new BenchmarkSuite for them. "
            + " ".join(each.problem for each in outcomes if each.state == "F" and each.problem)
        )
        draft.end("Failed", "SomeFailed", text.strip())
    else:
        text = f"{counts.planned} runs are complete; {counts.invalid} are INVALID."
        if counts.reused:
            text = (
                f"{counts.planned - counts.reused} runs are complete; {counts.invalid} are "
                f"INVALID. {counts.reused} runs reuse stored results."
            )
        draft.end("Complete", "Complete", text)


def _set_gate(draft: SuiteDraft, gate: GateStatus) -> None:
    draft.update(gate=gate)
    if draft.status.display is not None:
        draft.update(display=draft.status.display.model_copy(update={"gate": gate_word(gate)}))
    sentence = gate_sentence(gate)
    if not gate.armed:
        draft.set("Gate", "Unknown", "Advisory", f"{gate.outcome}, advisory: {sentence}")
        return
    match gate.outcome:
        case "PASS":
            draft.set("Gate", "True", "Pass", sentence)
        case "FAIL":
            draft.set("Gate", "False", "Fail", sentence)
        case "INCONCLUSIVE":
            draft.set("Gate", "Unknown", "Inconclusive", sentence)
        case "CouldNotRun":
            draft.set("Gate", "Unknown", "CouldNotRun", sentence)
        case _:
            assert_never(gate.outcome)
