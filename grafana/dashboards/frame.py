"""The frame of every dashboard: variables, links, refresh, and the layout of panels."""

from collections.abc import Iterable, Sequence

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    Panel,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from grafana.dashboards.panels import SOURCE, link
from inferometer_api.metrics.definitions import Metric

UIDS = {
    "Run": "inferometer-run",
    "Compare": "inferometer-compare",
    "Nodes": "inferometer-nodes",
    "Operator": "inferometer-operator",
}
"""They never change: links and bookmarks name them."""
_SCHEMA_OF_GRAFANA_11 = 39
SCRAPE_INTERVALS = ("5s", "10s", "15s", "30s", "1m")
"""The first is what the charts' monitors ask for."""
_HANDED_ON = {("Run", "Compare"): ("run_namespace",)}
"""Variables that a link keeps, besides data source and interval; others would choose one run."""

Panels = Sequence[Builder[Panel]]


def framed(
    name: str, says: str, variables: Iterable[build.QueryVariable | build.CustomVariable]
) -> build.Dashboard:
    """Return a dashboard without panels: its variables, its links to the others, its refresh."""
    frame = (
        build.Dashboard(f"Inferometer / {name}")
        .uid(UIDS[name])
        .description(says)
        .tags(["inferometer"])
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .refresh("10s")
        .with_variable(
            build.DatasourceVariable("datasource")
            .label("Prometheus")
            .description("The Prometheus that scrapes Inferometer.")
            .type("prometheus")
        )
    )
    for variable in variables:
        frame.with_variable(variable)
    frame.with_variable(
        chosen(
            "scrape",
            "Scraped every",
            "The scrape interval of Inferometer in that Prometheus. Rates cover four intervals.",
            {interval: interval for interval in SCRAPE_INTERVALS},
        )
    )
    for other, uid in UIDS.items():
        if other != name:
            names = ("datasource", "scrape", *_HANDED_ON.get((name, other), ()))
            frame.link(link(other, uid, *names))
    frame.build().schema_version = _SCHEMA_OF_GRAFANA_11
    return frame


def filled(frame: build.Dashboard, rows: Iterable[tuple[str, Panels]]) -> build.Dashboard:
    """Return the dashboard with its rows; one without a title has no heading."""
    for title, panels in rows:
        if title:
            frame.with_row(build.Row(title))
        for panel in panels:
            frame.with_panel(panel)
    for number, placed in enumerate(frame.build().panels or [], start=1):
        placed.id_val = number
    return frame


def query_variable(name: str, label: str, says: str, *, of: str, where: str) -> build.QueryVariable:
    """Return a variable with one of the values that a label has in the series of a selector."""
    return (
        build.QueryVariable(name)
        .label(label)
        .description(says)
        .datasource(SOURCE)
        .query({"query": f"label_values({where}, {of})", "refId": name})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )


def newest(name: str, label: str, says: str, *, by: str) -> build.QueryVariable:
    """Return a variable with one of the values of the label `name`, those with the highest first.

    `by` is an expression whose series have that label.
    """
    query = f"query_result(sort_desc({by}))"
    return (
        query_variable(name, label, says, of=name, where="")
        .query({"query": query, "refId": name})
        .regex(f'/{name}="([^"]+)"/')
        .sort(VariableSort.DISABLED)
    )


def several(variable: build.QueryVariable) -> build.QueryVariable:
    """Return a variable of which several values, or all, are chosen; all, to begin with."""
    return (
        variable.multi(multi=True)
        .include_all(include_all=True)
        .all_value(".*")
        .current(VariableOption(text=["All"], value=["$__all"], selected=True))
    )


def chosen(name: str, label: str, says: str, values: dict[str, str]) -> build.CustomVariable:
    """Return a variable with one of these values, by the names that they are shown by."""
    options = [
        VariableOption(text=text, value=value, selected=place == 0)
        for place, (text, value) in enumerate(values.items())
    ]
    return (
        build.CustomVariable(name)
        .label(label)
        .description(says)
        .values(", ".join(f"{text} : {value}" for text, value in values.items()))
        .options(options)
        .current(options[0])
    )


def any_of(*metrics: Metric, where: str = "") -> str:
    """Return the selector of several metrics' series."""
    names = "|".join(metric.name for metric in metrics)
    return f'{{__name__=~"{names}"{where and ", " + where}}}'
