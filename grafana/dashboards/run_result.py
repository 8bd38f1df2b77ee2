"""The panels of a finished run's result."""

from grafana.dashboards.finished import address_by_step, result_by_step
from grafana.dashboards.frame import Panels
from grafana.dashboards.panels import Query, words
from grafana.dashboards.tables import addresses, columns, verdicts, wide
from inferometer_api.metrics import definitions as m

_HOW = """\
Every figure with its bounds and why the verdict is what it is; the same in short:
```
kubectl inferometer report ${run} -n ${run_namespace}
kubectl describe bmr ${run} -n ${run_namespace}
```
A local run has `report.html` next to its `result.json`. Reasons: `docs/reference/verdict.md`
"""
_ORDER = (
    *("scenario", "step", "verdict", "rate", "p50", "p90", "p99", "p99.9"),
    *("joules", "net joules", "attribution", "cold start", "queries", "errors", "url"),
)
_WIDTHS = {
    "verdict": 75,
    "net joules": 90,
    "attribution": 95,
    "cold start": 80,
    "queries": 75,
    "errors": 65,
    "result": 55,
}


def panels() -> Panels:
    """Return the table of the result, and how to have the report."""
    table = columns(
        "Result",
        "The finished run's figures by scenario and step, from the operator's inferometer_run_* "
        "gauges: the same as in status, document and report. Empty during the run, and for local "
        "runs. The attribution of joules is dedicated, shared, node or estimated. If a scenario "
        "is INVALID, read the reasons in the report. `open` leads to the stored result.",
        _ORDER,
        ("none", Query(result_by_step(m.RUN_VALID), "verdict")),
        ("short", Query(result_by_step(m.RUN_QUERIES), "queries")),
        ("short", Query(result_by_step(m.RUN_ERRORS), "errors")),
        ("reqps", Query(result_by_step(m.RUN_QPS), "rate")),
        ("s", Query(result_by_step(m.RUN_LATENCY, "50"), "p50")),
        ("s", Query(result_by_step(m.RUN_LATENCY, "90"), "p90")),
        ("s", Query(result_by_step(m.RUN_LATENCY, "99"), "p99")),
        ("s", Query(result_by_step(m.RUN_LATENCY, "99.9"), "p99.9")),
        ("joule", Query(result_by_step(m.RUN_JOULES), "joules")),
        ("joule", Query(result_by_step(m.RUN_NET_JOULES), "net joules")),
        ("s", Query(result_by_step(m.RUN_COLD_START), "cold start")),
        ("none", Query(address_by_step())),
    )
    how = words(
        "Report and reasons",
        "The report explains the verdict and lists the conditions of the figures.",
        _HOW,
    )
    table = addresses(wide(verdicts(table, "verdict"), _WIDTHS), "result")
    return [table.span(17).height(8), how.span(7).height(8)]
