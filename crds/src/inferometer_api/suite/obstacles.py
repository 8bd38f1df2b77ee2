"""Explains in sentences what keeps figures of a suite's runs from being compared."""

import json
from collections.abc import Collection, Sequence

from inferometer_api.scenarios.table import PROFILED, SEARCHES
from inferometer_api.suite.figures import MeasuredRun, StepKey
from inferometer_api.suite.plan_suite import System

_DIFFERS = "The scenario's specification differs from that of the baseline."
_PROFILE = "A profile is no baseline. Measure profiles in a suite without a gate."
_WITHOUT_STEPS = (
    "The status of a run has no figures of its steps: they were too many, or an older version "
    "wrote it. Set fewer steps or repeats."
)


def obstacle_of_nodes(runs: Sequence[MeasuredRun], system: System) -> str:
    """Return why runs on a system cannot be compared, empty if they can."""
    nodes = sorted({run.node or "not known" for run in runs})
    if len(nodes) == 1 or system.node_class:
        return ""
    return (
        f"The runs were on several nodes ({'; '.join(nodes)}). Use systems, or a "
        "placement.nodeSelector that one node has."
    )


def obstacle_of_figure(key: StepKey, figure: str, runs: Sequence[MeasuredRun]) -> str:
    """Return why a figure of these runs cannot be compared, empty if it can.

    As in `compare`: scenarios of one specification, no profile, and each run has the figure.
    """
    scenario, step = key
    specs = {run.specs.get(scenario, "") for run in runs}
    if len(specs) > 1:
        return _DIFFERS
    spec = specs.pop() if specs else ""
    if _has_kind(spec, PROFILED):
        return _PROFILE
    lacking = sum(figure not in run.figures.get(key, {}) for run in runs)
    if lacking and _has_kind(spec, SEARCHES):
        return f"{lacking} of {len(runs)} runs found no peak. Their results have the reason."
    if any(scenario in run.without_steps for run in runs):
        return _WITHOUT_STEPS
    return _lack(step, figure, lacking, len(runs)) if lacking else ""


def _lack(step: str, figure: str, lacking: int, runs: int) -> str:
    place = f" of {step}" if step else ""
    if not figure:
        return f"No run has a rate or a median latency{place}. Look at the results."
    return f"{lacking} of {runs} runs lack a figure{place}. Look at their results."


def _has_kind(spec: str, kinds: Collection[str]) -> bool:
    """Return whether a specification of `scenario_specs` is of one of these kinds."""
    found = json.loads(spec) if spec else {}
    return any(found.get(kind) is not None for kind in kinds)
