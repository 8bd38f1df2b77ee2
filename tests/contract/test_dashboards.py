"""The dashboards load in Grafana, and query only metrics and variables that exist."""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

from grafana.dashboards import files, palette
from grafana.dashboards.frame import SCRAPE_INTERVALS, UIDS
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard as Model
from prometheus_client import CollectorRegistry, ProcessCollector

from inferometer_api.metrics.definitions import METRICS, Metric
from inferometer_api.plan.reports import ProgressReport
from support.dashboards import (
    DASHBOARDS,
    Json,
    PanelQuery,
    Shown,
    annotations,
    panels,
    queries,
    text_of,
)

_KNOWN = {metric.name: metric for metrics in METRICS.values() for metric in metrics}
_OF_PROMETHEUS = {"job", "instance", "namespace", "le", "__name__"}
_MADE = {"bar", "namespaced_run"}
"""Labels that queries create."""
_BUILT_IN = {"__rate_interval", "__range", "__data", "__url_time_range"}
_FAMILY = re.compile(r"\b((?:inferometer|process)_\w+)")
_SELECTOR = re.compile(r"\b((?:inferometer|process)_\w+)\{([^}]*)\}")
_MATCHER = re.compile(r"(\w+)\s*[=!]~?")
_GROUPING = re.compile(r"\b(?:by|on|group_left)\s*\(([^)]*)\)")
_VARIABLE = re.compile(r"\$\{?([a-z_]\w*)")
_MONITORED = re.compile(r"^ +interval: (\S+)", re.MULTILINE)
_UID = re.compile(r"/d/([\w-]+)")


def _process_metrics() -> set[str]:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return {sample.name for family in registry.collect() for sample in family.samples}


_PROCESS = _process_metrics()


def _family(name: str) -> Metric | None:
    """Return the metric that a name in a query belongs to; None if there is none."""
    if name in _KNOWN:
        return _KNOWN[name] if _KNOWN[name].type != "histogram" else None
    base, _, part = name.rpartition("_")
    found = _KNOWN.get(base)
    return found if part in {"bucket", "sum", "count"} and found and found.buckets else None


def test_committed_files_are_up_to_date() -> None:
    """The JSON of every dashboard, in grafana/ and in the chart, is generated from the code."""
    for path, text in files().items():
        assert text_of(path) == text, f"{path} is out of date: run make generate"


def test_uids_never_change() -> None:
    """The uids in bookmarks and links stay valid."""
    assert {name: board["uid"] for name, board in DASHBOARDS.items()} == {
        "run": "inferometer-run",
        "compare": "inferometer-compare",
        "nodes": "inferometer-nodes",
        "operator": "inferometer-operator",
    }


def test_grafana_s_own_schema_reads_them() -> None:
    """The SDK's model of Grafana's schema reads all of each dashboard and writes the same."""
    register_default_plugins()
    lost: list[str] = []
    for name, board in DASHBOARDS.items():
        read = json.loads(json.dumps(Model.from_json(board), cls=JSONEncoder))
        lost += _lost(board | {"annotations": None}, read | {"annotations": None}, name)
    assert lost == []


def _lost(made: Any, read: Any, where: str) -> Iterator[str]:
    """Yield each difference; defaults that reading adds are none."""
    if isinstance(made, dict) and isinstance(read, dict):
        for key, value in made.items():
            yield from _lost(value, read.get(key), f"{where}/{key}")
    elif isinstance(made, list) and isinstance(read, list) and len(made) == len(read):
        for place, (one, other) in enumerate(zip(made, read, strict=True)):
            yield from _lost(one, other, f"{where}/{place}")
    elif made != read:
        yield f"{where}: {made} was read as {read}"


def test_grafana_11_and_later_load_them() -> None:
    """The schema is Grafana 11.0's, which later versions migrate, and Grafana assigns the ids."""
    for board in DASHBOARDS.values():
        ids = [panel["id"] for panel in board["panels"]]
        assert board["schemaVersion"] == 39
        assert "id" not in board
        assert ids == list(range(1, len(ids) + 1))


def test_panels_fill_the_grid_without_overlap() -> None:
    """No panel covers another, and every row of panels is as wide as the page."""
    assert [fault for name in DASHBOARDS for fault in _layout_faults(name)] == []


def _layout_faults(name: str) -> Iterator[str]:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARDS[name]["panels"]:
        at = panel["gridPos"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                if (x, y) in taken:
                    yield f"{name}: {panel['title']} covers {taken[x, y]} at {x}, {y}"
                taken[x, y] = panel["title"]
    for top in {panel["gridPos"]["y"] for panel in DASHBOARDS[name]["panels"]}:
        if not all((x, top) in taken for x in range(24)):
            yield f"{name}: a gap at line {top}"


def test_panels_describe_themselves() -> None:
    """Every panel has a description with its metrics, and a unit."""
    shown = list(panels())
    assert len(shown) > 50
    assert [fault for panel in shown for fault in _panel_faults(panel)] == []


def _panel_faults(panel: Shown) -> Iterator[str]:
    description = panel.json["description"]
    if len(description) <= 60 or not description.endswith("."):
        yield f"{panel.where}: the description is no full sentence"
    if panel.json["type"] == "text":
        return
    if not panel.json["fieldConfig"]["defaults"]["unit"]:
        yield f"{panel.where}: no unit"
    if not _FAMILY.search(description):
        yield f"{panel.where}: the description names no metric"
    sources = {each["datasource"]["uid"] for each in (panel.json, *panel.json["targets"])}
    if sources != {"${datasource}"}:
        yield f"{panel.where}: the data source is not the dashboard's variable, but {sources}"


def test_queries_use_what_exists() -> None:
    """Metrics, labels and variables in queries exist."""
    all_queries = list(queries())
    assert len(all_queries) > 100
    assert [fault for query in all_queries for fault in _query_faults(query)] == []


def _query_faults(query: PanelQuery) -> Iterator[str]:
    labels = set(_OF_PROMETHEUS | _MADE)
    for name in _FAMILY.findall(query.expr):
        metric = _family(name)
        if metric:
            labels.update(metric.labels)
        elif name not in _PROCESS:
            yield f"{query.where}: no component exposes {name}"
    for name, matchers in _SELECTOR.findall(query.expr):
        metric = _family(name)
        known = {*metric.labels, *_OF_PROMETHEUS} if metric else set()
        unknown = set(_MATCHER.findall(matchers)) - known
        if unknown:
            yield f"{query.where}: {name} has no label {unknown}"
    for group in _GROUPING.findall(query.expr):
        unknown = {label.strip() for label in group.split(",")} - {"", "$by"} - labels
        if unknown:
            yield f"{query.where}: none of its metrics has a label {unknown}"
    unknown = set(_VARIABLE.findall(query.expr)) - query.variables - _BUILT_IN
    if unknown:
        yield f"{query.where}: the dashboard has no variable {unknown}"


def test_links_lead_to_dashboards() -> None:
    """A link leads to a dashboard, keeps the time, and sets only variables that it has."""
    for board in DASHBOARDS.values():
        for link in board["links"]:
            found = _UID.search(link["url"])
            assert found
            assert found.group(1) in UIDS.values()
            assert link["keepTime"]
        assert {link["title"] for link in board["links"]} == {
            title for title, uid in UIDS.items() if uid != board["uid"]
        }
        # The address of a stored result leads out of Grafana.
        inside = [url for url in _data_links(board) if url != "${__value.raw}"]
        for url in (*inside, *(link["url"] for link in board["links"])):
            target = next(each for each in DASHBOARDS.values() if f"/d/{each['uid']}?" in url)
            variables = {variable["name"] for variable in target["templating"]["list"]}
            assert set(re.findall(r"var-(\w+)=", url)) <= variables


def test_links_to_other_dashboards_select_no_run() -> None:
    """They keep data source, interval and, from Run to Compare, the namespace: nothing narrower."""
    for name, board in DASHBOARDS.items():
        for link in board["links"]:
            forwarded = {"datasource", "scrape"}
            if (name, link["title"]) == ("run", "Compare"):
                forwarded.add("run_namespace")
            assert set(re.findall(r"var-(\w+)=\$\{(?:\w+)\}", link["url"])) == forwarded
            assert not link["includeVars"]


def test_dashboards_start_with_the_scrape_interval_of_the_charts() -> None:
    """With both charts installed nothing has to be selected: rates use the monitors' interval."""
    charts = ("helm/inferometer/values.yaml", "helm/inferometer-agent/values.yaml")
    intervals = {each for chart in charts for each in _MONITORED.findall(text_of(chart))}
    for board in DASHBOARDS.values():
        variables = board["templating"]["list"]
        scrape = next(each for each in variables if each["name"] == "scrape")
        assert intervals == {SCRAPE_INTERVALS[0]} == {scrape["current"]["value"]}


def test_an_idle_operator_is_not_alarming() -> None:
    """Without a started run there is no deadline, and its text has a plain colour."""
    panel = next(
        each for each in DASHBOARDS["operator"]["panels"] if each["title"] == "Nearest deadline"
    )
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["noValue"] == "none"
    assert defaults["thresholds"]["steps"][0]["color"] == palette.PLAIN


def _data_links(found: Any) -> Iterator[str]:
    """Yield the URLs of the links in table cells."""
    if isinstance(found, dict):
        if found.get("id") == "links":
            yield from (link["url"] for link in found["value"])
        for value in found.values():
            yield from _data_links(value)
    if isinstance(found, list):
        for value in found:
            yield from _data_links(value)


def test_scenario_edges_are_annotated() -> None:
    """Run shows the start and the end of each measurement, and how exact these times are."""
    expected: list[Json] = annotations(DASHBOARDS["run"])
    assert [each["name"] for each in expected] == ["Measuring begins", "Measuring ends"]
    for each in expected:
        assert "inferometer_load_stage" in each["target"]["expr"]
        assert each["useValueForTime"]
        assert "one scrape" in each["textFormat"]


def test_every_stage_has_a_name_and_a_colour() -> None:
    """The timeline has a name and a colour for each stage of the load generator."""
    stages = get_args(ProgressReport.model_fields["stage"].annotation)
    assert set(palette.STAGES) == set(stages)
