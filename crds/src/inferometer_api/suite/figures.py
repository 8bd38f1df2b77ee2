"""The figures of a run that a suite's gate looks at."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from inferometer_api.status.run_status import ScenarioSummary
from inferometer_api.suite.plan_suite import PlannedRun

CellKey = tuple[str, str]
"""The key of a cell, and the name of its system."""
Figures = Mapping[str, Mapping[str, float]]
"""The figures of one run: by scenario, then by name."""
MORE_IS_BETTER = {"qps": True, "p50": False}


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


def cell_key(run: PlannedRun) -> CellKey:
    """Return the cell and the system of a run."""
    return run.cell.key, run.block.system.name
