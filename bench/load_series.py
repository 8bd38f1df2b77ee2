"""Scenarios that one process of the load generator measures, one after the other.

    python -m bench.load_series

For each line with a plan on standard input it answers with the result of the plan's scenario, or
with how the run ended: {"scenario": ...} or {"outcome": ...}. What differs from one process to the
next, such as where its memory lies, is then the same for all of them.
"""

import json
import sys
from typing import Any

import uvloop

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.reports import ProgressReport, ScenarioReport
from inferometer_loadgen.reporting.report_writer import LastingReport
from inferometer_loadgen.run.execution import PlanExecution


class _Reports:
    """Keeps the scenarios that a run reports."""

    def __init__(self) -> None:
        self.scenarios: list[ScenarioReport] = []

    def progress(self, report: ProgressReport) -> None:
        """Pass over the progress."""

    def add(self, report: LastingReport) -> None:
        """Keep a report of a scenario."""
        if isinstance(report, ScenarioReport):
            self.scenarios.append(report)


def main() -> None:
    """Answer until standard input ends."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_measured(line)) + "\n")
        sys.stdout.flush()


def _measured(line: str) -> dict[str, Any]:
    reports = _Reports()
    final = uvloop.run(PlanExecution(LoadPlan.model_validate_json(line), reports).run())
    if final.outcome.state != "Complete" or len(reports.scenarios) != 1:
        return {"outcome": final.outcome.model_dump(mode="json", by_alias=True)}
    (found,) = reports.scenarios
    return {"scenario": found.scenario.model_dump(mode="json", by_alias=True, exclude_none=True)}


if __name__ == "__main__":
    main()
