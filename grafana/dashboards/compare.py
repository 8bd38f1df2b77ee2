"""The dashboard Compare: finished runs side by side."""

from grafana_foundation_sdk.builders.dashboard import CustomVariable, Dashboard, QueryVariable
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from grafana.dashboards import palette
from grafana.dashboards.finished import (
    figure,
    latency_of,
    median,
    median_joules,
    table_of_runs,
)
from grafana.dashboards.frame import Panels, chosen, filled, framed, query_variable, several
from grafana.dashboards.panels import Query
from grafana.dashboards.promql import of
from grafana.dashboards.tables import bars
from inferometer_api.metrics import definitions as m

_SAYS = (
    "Finished runs side by side, by run, model, node, runtime or device. Runs appear until their "
    "TTL deletes them, the newest 200; for older ones move the time range back. Use `inferometer "
    "compare` to decide whether a difference is real."
)
_MEDIAN = (
    "the median of each group's VALID runs, by scenario and step (batch size, clients). To see "
    "fewer bars, select runs and scenarios above."
)
_FILTERS = {
    "run_namespace": ("Namespace", "Namespaces of the runs."),
    "model": ("Model", "Models that were served."),
    "runtime": ("Runtime", "Runtimes of the servers."),
    "device": ("Device", "CPU or GPU."),
    "node": ("Node", "Nodes of the runs' first servers."),
    "run": ("Run", "The runs."),
}
_GROUPS = {"run": "namespaced_run"} | {
    name: name for name in ("model", "node", "runtime", "device", "protocol")
}
_PERCENTILES = {"50": "p50", "90": "p90", "99": "p99", "99.9": "p99.9"}


def dashboard() -> Dashboard:
    """Return the dashboard Compare."""
    frame = framed("Compare", _SAYS, _variables()).time("now-24h", "now").refresh("1m")
    return filled(frame, [("", [_table()]), ("Side by side", _bars())])


def _variables() -> list[QueryVariable | CustomVariable]:
    """Return the filters, each of what those before it leave, and what bars are grouped by."""
    variables: list[QueryVariable | CustomVariable] = []
    where: list[str] = []
    for name, (label, says) in _FILTERS.items():
        selector = of(m.RUN_INFO, ", ".join(where))
        variables.append(several(query_variable(name, label, says, of=name, where=selector)))
        where.append(f'{name}=~"${name}"')
    selector = of(m.RUN_VALID, 'run_namespace=~"$run_namespace", run=~"$run"')
    says = "Scenarios of those runs."
    variables.append(
        several(query_variable("scenario", "Scenario", says, of="scenario", where=selector))
    )
    return [*variables, chosen("by", "Bars by", "What the bars are grouped by.", _GROUPS)]


def _table() -> Builder[Panel]:
    return table_of_runs(
        "Runs",
        "One row for each run, scenario and step, from the operator's inferometer_run_* gauges. A "
        "run's name opens it at its own time, and `open` its stored result. INVALID: the figure is "
        "wrong, too uncertain, or misses its bound; `kubectl inferometer report RUN -n NAMESPACE` "
        "gives the reason. Compare joules of the same attribution only.",
    ).height(11)


def _bars() -> Panels:
    return [
        bars(
            "Rate",
            "reqps",
            f"Queries answered per second, from inferometer_run_queries_per_second: {_MEDIAN}",
            {"rate": palette.ACHIEVED},
            Query(median(figure(m.RUN_QPS), "$by"), "rate"),
        ).span(12),
        bars(
            "Latency",
            "s",
            "Percentiles of the latency, from inferometer_run_latency_seconds: "
            f"{_MEDIAN} Different scenarios have different loads.",
            palette.PERCENTILES,
            *(Query(median(latency_of(q), "$by"), name) for q, name in _PERCENTILES.items()),
        ).span(12),
        bars(
            "Joules per inference",
            "joule",
            "Gross, and net of the idle power, from inferometer_run_joules_per_inference and "
            f"inferometer_run_net_joules_per_inference: {_MEDIAN} Each attribution has bars of "
            "its own: compare like with like. Runs without an energy source are missing.",
            {"gross": palette.DOUBTFUL, "net": palette.GOOD},
            Query(median_joules(m.RUN_JOULES, "$by"), "gross"),
            Query(median_joules(m.RUN_NET_JOULES, "$by"), "net"),
        ).span(12),
        bars(
            "Cold start",
            "s",
            "From the creation of the server to its first answer, from "
            f"inferometer_run_cold_start_seconds: {_MEDIAN} Only scenarios of the kind coldStart "
            "have it. The report shows which phase takes longest.",
            {"cold start": palette.ACHIEVED},
            Query(median(figure(m.RUN_COLD_START), "$by"), "cold start"),
        ).span(12),
    ]
