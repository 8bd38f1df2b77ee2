"""The columns of `kubectl get`: every status shows what its conditions and scenarios hold."""

import math
from collections.abc import Sequence

from inferometer_api.plan.reports import ProgressReport
from inferometer_api.scenarios.headline import headline_scenario
from inferometer_api.spec.scenario import Scenario
from inferometer_api.status.run_status import Display, RunStatus, ScenarioSummary
from inferometer_operator.reconcile.conditions import find_condition, is_decided

_NOTHING = Display()
_MAX_CHARACTERS = 64


def with_display(status: RunStatus, scenarios: Sequence[Scenario]) -> RunStatus:
    """Return the status with the columns that follow from the rest of it.

    `scenarios` are those of the spec. The live figures of a run that is over are replaced by those
    of its headline scenario. The verdict is that of the condition Valid.
    """
    figures = _final_figures(status, scenarios) if is_decided(status) else status.display
    display = (figures or _NOTHING).model_copy(
        update={"valid": _verdict(status), "nodes": _nodes(status.nodes)}
    )
    return status.model_copy(update={"display": None if display == _NOTHING else display})


def live_figures(progress: ProgressReport, before: Display | None) -> Display:
    """Return the figures of the current step; those of its last second stay until the next."""
    step = progress.step[:_MAX_CHARACTERS] or None
    scenario = progress.scenario[:_MAX_CHARACTERS]
    same = before is not None and (before.scenario, before.step) == (scenario, step)
    known = before if same and before is not None else _NOTHING
    p99 = progress.p99_nanoseconds
    return Display(
        scenario=scenario,
        step=step,
        qps=known.qps if progress.qps is None else f"{progress.qps:.1f}",
        p99=known.p99 if p99 is None else milliseconds(p99 / 1000),
    )


def median_repeat(repeats: Sequence[ScenarioSummary]) -> ScenarioSummary:
    """Return the repeat with the median rate among the INVALID ones, else among all."""
    worst = [each for each in repeats if each.verdict == "INVALID"] or repeats
    ordered = sorted(worst, key=lambda each: each.achieved_milli_qps or -math.inf)
    return ordered[(len(ordered) - 1) // 2]


def _final_figures(status: RunStatus, scenarios: Sequence[Scenario]) -> Display | None:
    """Return the figures of the headline scenario, or None if nothing was measured."""
    invalid = [each for each in status.scenarios if each.verdict == "INVALID"]
    shown = invalid if _verdict(status) == "INVALID" else status.scenarios
    name = headline_scenario(scenarios, {each.name for each in shown})
    if name is None:
        return None
    return summary_figures(median_repeat([each for each in shown if each.name == name]))


def summary_figures(summary: ScenarioSummary) -> Display:
    """Return the readable figures of a scenario, all of one step."""
    qps, p99 = summary.achieved_milli_qps, summary.p99_microseconds
    energy = summary.microjoules_per_inference
    return Display(
        scenario=summary.name,
        step=summary.step or None,
        qps=None if qps is None else f"{qps / 1000:.1f}",
        p99=None if p99 is None else milliseconds(p99),
        joules_per_inference=None if energy is None else f"{energy / 1e6:.3g}J",
    )


def _verdict(status: RunStatus) -> str | None:
    """Return the verdict of the whole run; None while there is none."""
    valid = find_condition(status, "Valid")
    if valid is None:
        return None
    if valid.status == "True":
        return "VALID"
    return "INVALID" if valid.reason == "Invalid" else None


def _nodes(nodes: Sequence[str]) -> str | None:
    if not nodes:
        return None
    every = ", ".join(nodes)
    if len(every) <= _MAX_CHARACTERS:
        return every
    more = f" (+{len(nodes) - 1})" if len(nodes) > 1 else ""
    return f"{nodes[0][: _MAX_CHARACTERS - len(more)]}{more}"


def milliseconds(microseconds: float) -> str:
    """Return a readable latency: "12.3ms", "0.45ms", "1234ms"."""
    value = microseconds / 1000
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f}ms"
