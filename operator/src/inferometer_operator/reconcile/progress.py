"""How far is the measurement, and what does it show until now?"""

from typing import assert_never

from inferometer_api.plan.load_report import LoadReport
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.spec.run import RunSpec
from inferometer_api.spec.scenario import Scenario, Validity
from inferometer_api.status.run_status import Display, RunStatus, ScenarioSummary
from inferometer_operator.reconcile.conditions import ConditionUpdate

USUAL_PROBES = 18
"""Of a search: what its simulations took on average, and a few more."""
_BEFORE_PROBES = ("one at a time", "closed loop")
_UNDER_LOAD = {"WarmUp", "Measuring", "Draining"}


def progress_under_load(report: LoadReport | None) -> ProgressReport | None:
    """Return how far the measurement is, None while no load is sent."""
    progress = None if report is None else report.progress
    return progress if progress is not None and progress.stage in _UNDER_LOAD else None


def load_was_sent(report: LoadReport | None) -> bool:
    """Whether load was sent already."""
    if report is None:
        return False
    return (
        progress_under_load(report) is not None
        or bool(report.scenarios)
        or report.outcome is not None
    )


def measuring_condition(progress: ProgressReport) -> ConditionUpdate:
    """Return what the condition Measuring says while load is sent: the same for one scenario."""
    number = f"{progress.scenario_index + 1} of {progress.scenario_count}"
    repeats = progress.repeat_count
    which = f", repeat {progress.repeat} of {repeats}" if repeats > 1 else ""
    sentence = f"Scenario {progress.scenario} ({number}{which}) is measured."
    return ConditionUpdate("Measuring", "True", "Measuring", sentence)


def merge_report(status: RunStatus, report: LoadReport | None, spec: RunSpec) -> RunStatus:
    """Return the status with what a load generator tells while it works.

    Its progress never goes back, and a scenario that was told stays.
    """
    if report is None:
        return status
    scenarios = report.scenarios if len(report.scenarios) > len(status.scenarios) else None
    if scenarios is not None:
        status = status.model_copy(update={"scenarios": scenarios})
    progress = progress_under_load(report)
    if progress is None:
        return status
    percent = max(percent_complete(progress, spec), status.progress_percent or 0)
    return status.model_copy(
        update={"progress_percent": percent, "display": _live_figures(progress, status.display)}
    )


def percent_complete(progress: ProgressReport, spec: RunSpec) -> int:
    """Return how much of all scenarios is done, by their asked seconds of warm-up and measuring.

    Each scenario counts alike, and so do its repeats, and each of its steps.
    """
    count = max(1, progress.scenario_count)
    index = min(progress.scenario_index, len(spec.scenarios) - 1)
    scenario = spec.scenarios[index]
    steps, step = _steps(scenario, progress.step)
    validity = spec.validity.raised(scenario.kind)
    of_repeat = min(1.0, (step + _of_step(progress, validity)) / steps)
    of_scenario = (progress.repeat - 1 + of_repeat) / max(1, progress.repeat_count)
    return max(0, min(99, int(100 * (progress.scenario_index + of_scenario) / count)))


def _of_step(progress: ProgressReport, validity: Validity) -> float:
    warm, long = validity.warm_up_seconds, validity.min_duration_seconds
    match progress.stage:
        case "WaitingForWorkers" | "WaitingForServer" | "Preparing" | "Idle":
            return 0.0
        case "WarmUp":
            return progress.fraction * warm / (warm + long)
        case "Measuring":
            return (warm + progress.fraction * long) / (warm + long)
        case "Draining":
            return 1.0
        case _:
            assert_never(progress.stage)


def _steps(scenario: Scenario, label: str) -> tuple[int, int]:
    """Return how many steps a scenario has, and which one a label names, counted from 0.

    How many probes a search takes is not known before; `USUAL_PROBES` are counted on.
    """
    if scenario.batch is not None:
        labels = [f"batch {size}" for size in scenario.batch.batch_sizes]
    elif scenario.concurrency is not None:
        labels = [f"clients {number}" for number in scenario.concurrency.clients]
    elif scenario.find_peak is not None:
        labels = [*_BEFORE_PROBES, *(f"probe {number + 1}" for number in range(USUAL_PROBES))]
        if label.startswith("probe ") and label not in labels:
            return len(labels), len(labels) - 1
    else:
        return 1, 0
    return len(labels), labels.index(label) if label in labels else 0


def _live_figures(progress: ProgressReport, before: Display | None) -> Display:
    same = before is not None and before.scenario == progress.scenario
    p99 = progress.p99_nanoseconds
    return Display(
        scenario=progress.scenario[:64],
        qps=f"{progress.qps:.1f}"
        if progress.qps is not None
        else (before.qps if same and before else None),
        p99=milliseconds(p99 / 1000)
        if p99 is not None
        else (before.p99 if same and before else None),
    )


def final_figures(scenarios: list[ScenarioSummary]) -> Display | None:
    """Return the ready-to-read figures of the last scenario, None where there is none."""
    if not scenarios:
        return None
    last = scenarios[-1]
    qps, p99 = last.achieved_milli_qps, last.p99_microseconds
    energy = last.microjoules_per_inference
    return Display(
        scenario=last.name,
        valid=last.verdict,
        qps=None if qps is None else f"{qps / 1000:.1f}",
        p99=None if p99 is None else milliseconds(p99),
        joules_per_inference=None if energy is None else f"{energy / 1e6:.3g}J",
    )


def milliseconds(microseconds: float) -> str:
    """Return a latency as people read it: "12.3ms", "0.45ms", "1234ms"."""
    value = microseconds / 1000
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f}ms"
