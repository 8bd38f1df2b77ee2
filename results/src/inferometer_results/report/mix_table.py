"""The table of the models of a mix in the report."""

from inferometer_api.results.result import ScenarioResult, nanoseconds_at
from inferometer_results.quantity import PERCENTILES, significant, time_unit
from inferometer_results.report.facts import Table
from inferometer_results.report.summary import FigureCell
from inferometer_results.wording.mix import model_with_share


def mix_table(result: ScenarioResult) -> Table:
    """Return the figures of each model in each step; no rows without a mix."""
    found = [(step, each) for step in result.steps for each in step.models]
    unit = time_unit(
        nanoseconds_at(each.latency, percentile) for _, each in found for percentile in PERCENTILES
    )
    rows = tuple(
        tuple(
            FigureCell(text)
            for text in (
                " ".join(part for part in (step.label, model_with_share(each)) if part),
                f"{each.queries:,}",
                f"{each.failed:,}",
                significant(each.achieved_qps),
                *(unit.text(nanoseconds_at(each.latency, one)) for one in PERCENTILES),
            )
        )
        for step, each in found
    )
    latencies = (f"p{percentile:g} {unit.name}" for percentile in PERCENTILES)
    return Table(("", "Queries", "Failed", "Queries/s", *latencies), rows)
