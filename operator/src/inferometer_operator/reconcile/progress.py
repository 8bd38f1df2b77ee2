"""Progress of the measurement, and its figures so far."""

from typing import assert_never

from inferometer_api.plan.load_report import LoadReport
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.scenarios.table import SCENARIOS, effective_validity, usual_labels
from inferometer_api.spec.run import RunSpec
from inferometer_api.spec.scenario import Scenario, Validity
from inferometer_api.status.run_status import RunStatus
from inferometer_operator.reconcile.conditions import ConditionUpdate, StatusDraft, is_decided
from inferometer_operator.reconcile.display import live_figures

_UNDER_LOAD = {"WarmUp", "Measuring", "Draining"}
_WRITTEN_PERCENT = 25
"""Progress alone is written after so much of a run: three times, or after `_PROGRESS_SECONDS`."""
_PROGRESS_SECONDS = 240.0
_MESSAGE_SECONDS = 30.0


def progress_under_load(report: LoadReport | None) -> ProgressReport | None:
    """Return the progress of the measurement, or None while no load is sent."""
    progress = None if report is None else report.progress
    return progress if progress is not None and progress.stage in _UNDER_LOAD else None


def load_was_sent(report: LoadReport | None) -> bool:
    """Return whether load was sent already."""
    if report is None:
        return False
    return (
        progress_under_load(report) is not None
        or bool(report.scenarios)
        or report.outcome is not None
    )


def measuring_condition(progress: ProgressReport) -> ConditionUpdate:
    """Return the condition Measuring while load is sent; it is constant within a scenario."""
    number = f"{progress.scenario_index + 1} of {progress.scenario_count}"
    repeats = progress.repeat_count
    which = f", repeat {progress.repeat} of {repeats}" if repeats > 1 else ""
    sentence = f"Scenario {progress.scenario} ({number}{which}) is measured."
    return ConditionUpdate("Measuring", "True", "Measuring", sentence)


def merge_report(draft: StatusDraft, report: LoadReport | None, spec: RunSpec) -> None:
    """Copy a load generator's report to the status.

    Progress never decreases, and a scenario that was reported stays.
    """
    if report is None:
        return
    if len(report.scenarios) > len(draft.status.scenarios):
        draft.update(scenarios=report.scenarios)
    progress = progress_under_load(report)
    if progress is not None:
        percent = max(percent_complete(progress, spec), draft.status.progress_percent or 0)
        draft.update(progress_percent=percent, display=live_figures(progress, draft.status.display))


def may_wait_seconds(status: RunStatus, stored: RunStatus) -> float:
    """Return how long after the last write a changed status of a run may be written: 0 is at once.

    Small changes wait, so that a run costs as few writes if it takes long to start or to measure:
    the words of a condition whose reason stays, and progress of less than a quarter of the run.
    """
    if status == stored or stored.start_time is None or is_decided(status):
        return 0.0
    before, percent = stored.progress_percent, status.progress_percent
    if percent is not None and (before is None or percent >= before + _WRITTEN_PERCENT):
        return 0.0
    other = status
    if before is not None:
        figures = {"progress_percent": before, "display": stored.display}
        other = status.model_copy(update=figures)
    if other == stored:
        return _PROGRESS_SECONDS
    return _MESSAGE_SECONDS if _without_words(other) == _without_words(stored) else 0.0


def _without_words(status: RunStatus) -> RunStatus:
    mute = [each.model_copy(update={"message": ""}) for each in status.conditions]
    return status.model_copy(update={"conditions": mute})


def percent_complete(progress: ProgressReport, spec: RunSpec) -> int:
    """Return how much of all scenarios is done, by their seconds of warm-up and measurement.

    Scenarios count alike, and so do repeats and steps.
    """
    count = max(1, progress.scenario_count)
    index = min(progress.scenario_index, len(spec.scenarios) - 1)
    scenario = spec.scenarios[index]
    steps, step = _steps(scenario, progress.step)
    validity = effective_validity(scenario, spec.validity)
    of_scenario = min(1.0, (step + _of_step(progress, validity)) / steps)
    of_repeat = (progress.scenario_index + of_scenario) / count
    whole = (progress.repeat - 1 + of_repeat) / max(1, progress.repeat_count)
    return max(0, min(99, int(100 * whole)))


def _of_step(progress: ProgressReport, validity: Validity) -> float:
    warm, long = validity.warm_up_seconds, validity.min_duration_seconds
    match progress.stage:
        case "WaitingForWorkers" | "WaitingForServer" | "WaitingForRestart" | "Preparing" | "Idle":
            return 0.0
        case "WarmUp":
            return progress.fraction * warm / (warm + long)
        case "Measuring" if progress.sample_count is not None:
            return progress.fraction
        case "Measuring":
            return (warm + progress.fraction * long) / (warm + long)
        case "Draining":
            return 1.0
        case _:
            assert_never(progress.stage)


def _steps(scenario: Scenario, label: str) -> tuple[int, int]:
    """Return how many steps a scenario has, and which one a label names, counted from 0.

    How many probes a search takes is not known in advance: the usual number counts.
    """
    labels = usual_labels(scenario)
    is_search = SCENARIOS[scenario.kind].steps == "search"
    if is_search and label and label not in labels:
        return len(labels), len(labels) - 1
    return len(labels), labels.index(label) if label in labels else 0
