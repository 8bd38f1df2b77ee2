"""The figures of a run that a suite's gate looks at."""

import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, TypeVar

from inferometer_api.ranking import Computation, engine_of
from inferometer_api.scenarios.table import SCENARIOS, is_evaluation
from inferometer_api.spec.scenario import Scenario
from inferometer_api.spec.server import Server
from inferometer_api.status.run_status import ScenarioSummary
from inferometer_api.suite.plan_suite import PlannedRun

CellKey = tuple[str, str]
"""The key of a cell, and the name of its system."""
StepKey = tuple[str, str]
"""The names of a scenario and of its step; that of a peak, and mostly of an only step, is empty."""
Figures = Mapping[str, Mapping[str, float]]
"""The figures of one run's headline steps: by scenario, then by name."""
StepFigures = Mapping[StepKey, Mapping[str, float]]
"""The figures of every step of one run, by name."""
_Key = TypeVar("_Key")
_EVALUATED = ("sampledAccuracy", *filter(is_evaluation, SCENARIOS))
"""Members of a scenario by which it evaluates the model."""
MORE_IS_BETTER = {"qps": True, "p50": False}


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """What the gate knows of a VALID run."""

    figures: StepFigures
    without_steps: frozenset[str] = frozenset()
    """Scenarios of several steps whose figures the status of the run leaves out."""
    specs: Mapping[str, str] = field(default_factory=dict)
    """The specification of each scenario; see `scenario_specs`."""
    node: str = ""
    """The nodes of its servers in one text, or the class of the machine; empty: not known."""


def figures_of(scenarios: Sequence[ScenarioSummary]) -> dict[str, dict[str, float]]:
    """Return the figures of the headline step of each scenario of a run.

    A rate, unless the schedule fixes it, and the median latency; of a search its peak alone.
    Repeats within the run count as one value: their geometric mean.
    """
    return {each.name: {} for each in scenarios} | mean_figures(
        (each.name, figure, value) for each in scenarios for figure, value in _headline(each)
    )


def step_figures(scenarios: Sequence[ScenarioSummary]) -> dict[StepKey, dict[str, float]]:
    """Return the figures of each step of a run, as `figures_of` does; a step may have none."""
    found = [
        ((each.name, step), figure, value)
        for each in scenarios
        for step, figure, value in _of_steps(each)
    ]
    return {key: {} for key, _, _ in found} | mean_figures(found)


def mean_figures(
    values: Iterable[tuple[_Key, str, float | None]],
) -> dict[_Key, dict[str, float]]:
    """Return the geometric mean of each figure of each key; those that are absent or 0 are not."""
    found: dict[_Key, dict[str, list[float]]] = {}
    for key, figure, value in values:
        if value:
            found.setdefault(key, {}).setdefault(figure, []).append(value)
    return {
        key: {figure: math.exp(fmean(map(math.log, some))) for figure, some in of_one.items()}
        for key, of_one in found.items()
    }


def _headline(summary: ScenarioSummary) -> Iterator[tuple[str, float | None]]:
    if summary.peak_milli_qps:
        yield "qps", summary.peak_milli_qps / 1000
        return
    if summary.scheduled_milli_qps is None:
        yield "qps", (summary.achieved_milli_qps or 0) / 1000
    yield "p50", (summary.p50_microseconds or 0) / 1e6


def _of_steps(summary: ScenarioSummary) -> Iterator[tuple[str, str, float | None]]:
    """Yield the step, the name and the value of each figure; none that the status leaves out."""
    for each in summary.steps:
        yield each.step, "qps", (each.achieved_milli_qps or 0) / 1000
        yield each.step, "p50", (each.p50_microseconds or 0) / 1e6
    if not summary.steps and not _lacks_steps(summary):
        step = "" if summary.peak_milli_qps else summary.step
        yield from ((step, figure, value) for figure, value in _headline(summary))


def _lacks_steps(summary: ScenarioSummary) -> bool:
    """Return whether a scenario has several steps, of which the status has no figures."""
    has_several = summary.total_queries is not None and summary.queries is not None
    return has_several and summary.peak_milli_qps is None and not summary.steps


def measured_run(
    scenarios: Sequence[ScenarioSummary], specs: Mapping[str, str], node: str
) -> MeasuredRun:
    """Return what the gate knows of a run, from its scenarios: their summaries and specs."""
    return MeasuredRun(
        step_figures(scenarios),
        frozenset(each.name for each in scenarios if _lacks_steps(each)),
        specs,
        node,
    )


def scenario_specs(spec: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the specification of each scenario by its name, from the spec of a run in JSON.

    Texts are equal if the specifications are, whichever defaults the JSON leaves out.
    """
    return _scenario_specs(json.dumps(spec["scenarios"], sort_keys=True))


@functools.lru_cache(maxsize=1024)
def _scenario_specs(scenarios: str) -> Mapping[str, str]:
    return specs_by_name(
        Scenario.model_validate(each, by_alias=True, by_name=False)
        for each in json.loads(scenarios)
    )


def specs_by_name(scenarios: Iterable[Scenario]) -> Mapping[str, str]:
    """Return the specification of each scenario by its name, as a text."""
    return {each.name: each.model_dump_json() for each in scenarios}


def cell_key(run: PlannedRun) -> CellKey:
    """Return the cell and the system of a run."""
    return run.cell.key, run.block.system.name


def planned_computation(run: PlannedRun, scenarios: Sequence[ScenarioSummary]) -> Computation:
    """Return what computes the outputs of a planned run, see `computation_of_run`."""
    return computation_of_run(run.data["spec"], scenarios)


def computation_of_run(
    spec: Mapping[str, Any], scenarios: Sequence[ScenarioSummary]
) -> Computation:
    """Return what computes the outputs of a run, as its spec in JSON and its status show it."""
    names = {
        each["name"]
        for each in spec["scenarios"]
        if any(each.get(member) is not None for member in _EVALUATED)
    }
    known = any(each.name in names and each.verdict == "VALID" for each in scenarios)
    server = {key: each for key, each in (spec.get("server") or {}).items() if key != "placement"}
    return Computation(_engine(json.dumps(server)), known)


@functools.lru_cache(maxsize=1024)
def _engine(server: str) -> tuple[str, ...]:
    """Return the engine of a server in JSON; most runs of a suite share a few servers."""
    return engine_of(Server.model_validate(json.loads(server), by_alias=True, by_name=False), {})
