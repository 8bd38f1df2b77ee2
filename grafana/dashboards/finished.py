"""Queries and tables of finished runs."""

from grafana_foundation_sdk.builders.common import TableSortByFieldState
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from grafana.dashboards.frame import UIDS
from grafana.dashboards.panels import SCRAPE, Query
from grafana.dashboards.promql import RUN, SCENARIO, of
from grafana.dashboards.tables import addresses, columns, linked, verdicts, wide
from inferometer_api.metrics import definitions as m
from inferometer_api.metrics.definitions import Metric

FACTS = ("model", "runtime", "device", "protocol", "node")
CHOSEN = ", ".join(
    f'{name}=~"${name}"' for name in ("run_namespace", "run", "model", "runtime", "device", "node")
)
"""The runs that the variables of Compare choose, by the labels of inferometer_run_info."""
_SCENARIOS = 'scenario=~"$scenario"'
_KEY = "run_namespace, run"
_OPEN = (
    f"/d/{UIDS['Run']}?var-datasource=${{datasource}}&var-scrape=${{scrape}}"
    "&var-run_namespace=${__data.fields.run_namespace}&var-run=${__data.fields.run}"
    "&from=${__data.fields.began.numeric}&to=${__data.fields.ended.numeric}"
)
"""A finished run in the dashboard Run, at its own time."""
_AFTERWARDS_MILLISECONDS = 120_000
"""Extends the time range to what the operator reports after the end of a run."""
_ORDER = (
    *("began", "run_namespace", "run", "model", "device", "node", "scenario", "step"),
    *("verdict", "rate", "p50", "p90", "p99", "p99.9", "joules", "net joules", "attribution"),
    *("errors", "url", "runtime", "protocol"),
)
_WIDTHS = {
    "began": 95,
    "namespace": 105,
    "run": 125,
    "model": 90,
    "device": 60,
    "node": 75,
    "scenario": 90,
    "step": 60,
    "verdict": 70,
    "rate": 82,
    **dict.fromkeys(("p50", "p90", "p99", "p99.9"), 62),
    "joules": 62,
    "net joules": 80,
    "attribution": 88,
    "errors": 55,
    "result": 55,
    "runtime": 98,
    "protocol": 70,
}
"""Together what a page of 1600 pixels has room for."""


def figure(metric: Metric, where: str = _SCENARIOS, of_runs: str = CHOSEN) -> str:
    """Return a gauge of finished runs, with what each run was of; of the runs chosen."""
    by = f"{_KEY}, scenario, step"
    if "attribution" in metric.labels:
        by += ", attribution"
    return f"max by ({by}) ({of(metric, where)}) * {_known(of_runs)}"


def latency_of(percentile: str, where: str = _SCENARIOS, of_runs: str = CHOSEN) -> str:
    """Return a percentile of the latency of finished runs, likewise."""
    narrowed = ", ".join(part for part in (where, f'percentile="{percentile}"') if part)
    return figure(m.RUN_LATENCY, narrowed, of_runs)


def median(expr: str, *by: str) -> str:
    """Return the median over the VALID runs of each group, whose name is in the label `bar`.

    The name is made of what the labels `by` say, the scenario and, where there is one, the step.
    The label namespaced_run distinguishes runs of the same name.
    """
    named = f'label_join({_medians(expr, *by)}, "bar", "/", {_quoted(*by)}, "scenario", "step")'
    return f"sum by (bar) ({_trimmed(named)})"


def median_joules(metric: Metric, *by: str, where: str = _SCENARIOS, of_runs: str = CHOSEN) -> str:
    """Return the same of joules, for each attribution: it stands at the end of the name."""
    medians = _medians(figure(metric, where, of_runs), *by, "attribution")
    named = f'label_join({medians}, "bar", "/", {_quoted(*by)}, "scenario", "step")'
    full = f'label_join({_trimmed(named)}, "bar", " ", "bar", "attribution")'
    return f"sum by (bar) ({full})"


def _medians(expr: str, *by: str) -> str:
    key = f"{_KEY}, scenario, step"
    valid = f"{expr} and on ({key}) max by ({key}) ({of(m.RUN_VALID)}) == 1"
    told_apart = f'label_join({valid}, "namespaced_run", "/", "run_namespace", "run")'
    return f"quantile by ({', '.join(by)}, scenario, step) (0.5, {told_apart})"


def _quoted(*labels: str) -> str:
    return ", ".join(f'"{label}"' for label in labels)


def _trimmed(named: str) -> str:
    """Return names without the slashes at their end, where labels are empty."""
    return f'label_replace({named}, "bar", "$1", "bar", "(.+?)/*")'


def result(metric: Metric, percentile: str = "", *, where: str = SCENARIO) -> str:
    """Return a gauge of the run that Run shows: nothing while it goes on.

    For a deleted run it is the last value. Only series that were exposed as long as the run's end
    count, because others belong to an earlier run of that name.
    """
    series = of(metric, f'{where}, percentile="{percentile}"' if percentile else where)
    ended, goes_on = of(m.RUN_FINISHED, RUN), of(m.RUN_PHASE_SINCE, RUN)
    at, ended_at = (
        f"max_over_time(timestamp({each})[$__range:{SCRAPE}])" for each in (series, ended)
    )
    latest = f"{at} == on ({_KEY}) group_left () max by ({_KEY}) ({ended_at})"
    before = f"last_over_time({series}[$__range]) and {latest} unless on ({_KEY}) {ended}"
    return f"({series} or ({before})) unless on ({_KEY}) {goes_on}"


def result_by_step(metric: Metric, percentile: str = "") -> str:
    """Return the same by scenario and step and, of joules, by their attribution."""
    by = "scenario, step, attribution" if "attribution" in metric.labels else "scenario, step"
    return f"max by ({by}) ({result(metric, percentile)})"


def table_of_runs(title: str, says: str, where: str = _SCENARIOS, of_runs: str = CHOSEN) -> Table:
    """Return a table of finished runs, newest first, whose names lead to the dashboard Run."""

    def gauge(unit: str, heading: str, metric: Metric) -> tuple[str, Query]:
        return unit, Query(figure(metric, where, of_runs), heading)

    def latency(heading: str, percentile: str) -> tuple[str, Query]:
        return "s", Query(latency_of(percentile, where, of_runs), heading)

    def moment(heading: str, metric: Metric, later_milliseconds: int = 0) -> tuple[str, Query]:
        rows = f"0 * {figure(m.RUN_VALID, where, of_runs)}"
        at = f"1000 * max by ({_KEY}) ({of(metric)}) + {later_milliseconds}"
        return "time:MM-DD HH:mm", Query(f"({rows}) + on ({_KEY}) group_left () ({at})", heading)

    table = columns(
        title,
        says,
        _ORDER,
        moment("began", m.RUN_STARTED),
        moment("ended", m.RUN_FINISHED, _AFTERWARDS_MILLISECONDS),
        gauge("none", "verdict", m.RUN_VALID),
        gauge("reqps", "rate", m.RUN_QPS),
        latency("p50", "50"),
        latency("p90", "90"),
        latency("p99", "99"),
        latency("p99.9", "99.9"),
        gauge("joule", "joules", m.RUN_JOULES),
        gauge("joule", "net joules", m.RUN_NET_JOULES),
        gauge("short", "errors", m.RUN_ERRORS),
        ("none", Query(_with_address(figure(m.RUN_VALID, where, of_runs), of(m.RUN_STORED)))),
    )
    table = wide(linked(table, "run", "Open this run", _OPEN), _WIDTHS)
    table.override_by_name("ended", [DynamicConfigValue("custom.hidden", value=True)])
    newest_first = TableSortByFieldState().display_name("began").desc(desc=True)
    return addresses(verdicts(table, "verdict"), "result").sort_by([newest_first])


def address_by_step() -> str:
    """Return the result that Run shows by scenario and step, with its permanent address."""
    shown = f"max by ({_KEY}, scenario, step) ({result(m.RUN_VALID)})"
    stored = result(m.RUN_STORED, where=RUN)
    return f"max by (scenario, step, url) ({_with_address(shown, stored)})"


def _with_address(rows: str, stored: str) -> str:
    """Return the rows of those runs whose results are stored, with the label url."""
    return f"{rows} * on ({_KEY}) group_left (url) max by ({_KEY}, url) ({stored})"


def _known(of_runs: str) -> str:
    facts = ", ".join(FACTS)
    info = f"max by ({_KEY}, {facts}) ({of(m.RUN_INFO, of_runs)})"
    return f"on ({_KEY}) group_left ({facts}) {info}"
