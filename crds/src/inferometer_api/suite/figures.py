"""The figures of a run that a suite's gate looks at."""

import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from inferometer_api.ranking import Computation, engine_of
from inferometer_api.spec.scenario import Scenario
from inferometer_api.spec.server import Server
from inferometer_api.status.run_status import ScenarioSummary
from inferometer_api.suite.plan_suite import PlannedRun

CellKey = tuple[str, str]
"""The key of a cell, and the name of its system."""
Figures = Mapping[str, Mapping[str, float]]
"""The figures of one run: by scenario, then by name."""
MORE_IS_BETTER = {"qps": True, "p50": False}


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """What the gate knows of a VALID run."""

    figures: Figures
    steps: Mapping[str, str] = field(default_factory=dict)
    """The step that the figures of a scenario are of, by scenario."""
    specs: Mapping[str, str] = field(default_factory=dict)
    """The specification of each scenario; see `scenario_specs`."""
    node: str = ""
    """The nodes of its servers in one text, or the class of the machine; empty: not known."""


def figures_of(scenarios: Sequence[ScenarioSummary]) -> dict[str, dict[str, float]]:
    """Return the figures of a run that a gate looks at, by scenario.

    A rate, unless the schedule fixes it, and the median latency; of a search its peak alone.
    Repeats within the run count as one value: their geometric mean.
    """
    values: dict[str, dict[str, list[float]]] = {}
    for each in scenarios:
        of_one = values.setdefault(each.name, {})
        if each.peak_milli_qps:
            of_one.setdefault("qps", []).append(each.peak_milli_qps / 1000)
            continue
        if each.achieved_milli_qps and each.scheduled_milli_qps is None:
            of_one.setdefault("qps", []).append(each.achieved_milli_qps / 1000)
        if each.p50_microseconds:
            of_one.setdefault("p50", []).append(each.p50_microseconds / 1e6)
    return {
        name: {key: math.exp(fmean(map(math.log, some))) for key, some in of_one.items()}
        for name, of_one in values.items()
    }


def measured_run(
    scenarios: Sequence[ScenarioSummary], specs: Mapping[str, str], node: str
) -> MeasuredRun:
    """Return what the gate knows of a run, from its scenarios: their summaries and specs."""
    return MeasuredRun(
        figures_of(scenarios),
        join_steps((each.name, each.step) for each in scenarios if not each.peak_milli_qps),
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


def join_steps(steps: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the step of each scenario, from pairs of both; of repeats each that occurs."""
    found: dict[str, set[str]] = {}
    for scenario, step in steps:
        found.setdefault(scenario, set()).add(step)
    return {scenario: ", ".join(sorted(some)) for scenario, some in found.items()}


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
    names = {each["name"] for each in spec["scenarios"] if each.get("accuracy") is not None}
    known = any(each.name in names and each.verdict == "VALID" for each in scenarios)
    server = {key: each for key, each in (spec.get("server") or {}).items() if key != "placement"}
    return Computation(_engine(json.dumps(server)), known)


@functools.lru_cache(maxsize=1024)
def _engine(server: str) -> tuple[str, ...]:
    """Return the engine of a server in JSON; most runs of a suite share a few servers."""
    return engine_of(Server.model_validate(json.loads(server), by_alias=True, by_name=False), {})
