"""What did a finished run find, and where does its report stand?"""

from grafana.dashboards.finished import result
from grafana.dashboards.frame import Panels
from grafana.dashboards.panels import Query, words
from grafana.dashboards.tables import columns, verdicts
from inferometer_api import metrics as m
from inferometer_api.metrics import Metric

_HOW = """\
Every figure with its bounds, and why the verdict is what it is:
```
kubectl inferometer report ${run} -n ${run_namespace}
```
A local run has `report.html` beside its `result.json`. In short:
```
kubectl describe bmr ${run} -n ${run_namespace}
```
What the reasons mean: `docs/reference/verdict.md`
"""
_ORDER = (
    *("scenario", "step", "verdict", "rate", "p50", "p90", "p99", "p99.9"),
    *("joules", "net joules", "attribution", "queries", "errors"),
)


def panels() -> Panels:
    """Return the table of the result, and how to have the report."""
    table = columns(
        "Result",
        "The finished run's figures by scenario and step, from the operator's inferometer_run_* "
        "gauges: the same as in status, document and report. Empty while it runs, and for local "
        "runs. Joules have their attribution beside them: dedicated, shared, node or estimated. "
        "INVALID: see the report for the reasons.",
        _ORDER,
        ("none", Query(_told(m.RUN_VALID), "verdict")),
        ("short", Query(_told(m.RUN_QUERIES), "queries")),
        ("short", Query(_told(m.RUN_ERRORS), "errors")),
        ("reqps", Query(_told(m.RUN_QPS), "rate")),
        ("s", Query(_told(m.RUN_LATENCY, "50"), "p50")),
        ("s", Query(_told(m.RUN_LATENCY, "90"), "p90")),
        ("s", Query(_told(m.RUN_LATENCY, "99"), "p99")),
        ("s", Query(_told(m.RUN_LATENCY, "99.9"), "p99.9")),
        ("joule", Query(_told(m.RUN_JOULES), "joules")),
        ("joule", Query(_told(m.RUN_NET_JOULES), "net joules")),
    )
    how = words(
        "Report and reasons",
        "The report says why a verdict is what it is, and of which conditions the figures are.",
        _HOW,
    )
    table = verdicts(table, "verdict")
    return [table.span(17).height(8), how.span(7).height(8)]


def _told(metric: Metric, percentile: str = "") -> str:
    by = "scenario, step, attribution" if "attribution" in metric.labels else "scenario, step"
    return f"max by ({by}) ({result(metric, percentile)})"
