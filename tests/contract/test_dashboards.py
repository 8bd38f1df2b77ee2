"""Are the dashboards what Grafana can load, and do they ask only for what there is?"""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from grafana.dashboards import files, palette
from grafana.dashboards.frame import SCRAPE_INTERVALS, UIDS
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard as Model
from prometheus_client import CollectorRegistry, ProcessCollector

from inferometer_api.metrics.definitions import METRICS, Metric
from inferometer_api.plan.reports import ProgressReport
from support.dashboards import DASHBOARDS, Json, annotations, panels, queries, text_of

_KNOWN = {metric.name: metric for metrics in METRICS.values() for metric in metrics}
_OF_PROMETHEUS = {"job", "instance", "namespace", "le", "__name__"}
_MADE = {"bar", "namespaced_run"}
"""Labels that queries make themselves."""
_BUILT_IN = {"__rate_interval", "__range", "__data", "__url_time_range"}
_FAMILY = re.compile(r"\b((?:inferometer|process)_\w+)")
_SELECTOR = re.compile(r"\b((?:inferometer|process)_\w+)\{([^}]*)\}")
_MATCHER = re.compile(r"(\w+)\s*[=!]~?")
_GROUPING = re.compile(r"\b(?:by|on|group_left)\s*\(([^)]*)\)")
_VARIABLE = re.compile(r"\$\{?([a-z_]\w*)")
_MONITORED = re.compile(r"^ +interval: (\S+)", re.MULTILINE)
_UID = re.compile(r"/d/([\w-]+)")
_QUERIED = [pytest.param(query, id=query.where) for query in queries()]
_SHOWN = [pytest.param(panel, id=panel.where) for panel in panels()]


def _process_metrics() -> set[str]:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return {sample.name for family in registry.collect() for sample in family.samples}


_PROCESS = _process_metrics()


def _family(name: str) -> Metric | None:
    """Return the metric that a name in a query is a series of; None where there is none."""
    if name in _KNOWN:
        return _KNOWN[name] if _KNOWN[name].type != "histogram" else None
    base, _, part = name.rpartition("_")
    found = _KNOWN.get(base)
    return found if part in {"bucket", "sum", "count"} and found and found.buckets else None


def test_committed_files_are_what_the_code_says() -> None:
    """The JSON of every dashboard, in grafana/ and in the chart, is fresh."""
    for path, text in files().items():
        assert text_of(path) == text, f"{path} is not what the code says: make generate"


def test_uids_never_change() -> None:
    """Bookmarks and links name these."""
    assert {name: board["uid"] for name, board in DASHBOARDS.items()} == {
        "run": "inferometer-run",
        "compare": "inferometer-compare",
        "nodes": "inferometer-nodes",
        "operator": "inferometer-operator",
    }


@pytest.mark.parametrize("name", DASHBOARDS)
def test_grafana_s_own_schema_reads_it(name: str) -> None:
    """The SDK's model, made of Grafana's schema, reads all of a dashboard and writes the same."""
    register_default_plugins()
    board = DASHBOARDS[name]
    read = json.loads(json.dumps(Model.from_json(board), cls=JSONEncoder))
    assert list(_lost(board | {"annotations": None}, read | {"annotations": None}, name)) == []


def _lost(made: Any, read: Any, where: str) -> Iterator[str]:
    """Yield where something was made that is not read; defaults that reading adds are no loss."""
    if isinstance(made, dict) and isinstance(read, dict):
        for key, value in made.items():
            yield from _lost(value, read.get(key), f"{where}/{key}")
    elif isinstance(made, list) and isinstance(read, list) and len(made) == len(read):
        for place, (one, other) in enumerate(zip(made, read, strict=True)):
            yield from _lost(one, other, f"{where}/{place}")
    elif made != read:
        yield f"{where}: {made} was read as {read}"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_grafana_11_and_later_load_it(name: str) -> None:
    """Its schema is Grafana 11.0's, which later ones migrate; its ids are its own to give."""
    board = DASHBOARDS[name]
    ids = [panel["id"] for panel in board["panels"]]
    assert board["schemaVersion"] == 39
    assert "id" not in board
    assert ids == list(range(1, len(ids) + 1))


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_fill_the_grid_without_overlap(name: str) -> None:
    """No panel lies on another, and every row of panels is as wide as the page."""
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARDS[name]["panels"]:
        at = panel["gridPos"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]
    tops = {panel["gridPos"]["y"] for panel in DASHBOARDS[name]["panels"]}
    for top in tops:
        assert all((x, top) in taken for x in range(24)), f"a gap at line {top} of {name}"


@pytest.mark.parametrize("panel", _SHOWN)
def test_a_panel_says_what_it_shows(panel: Any) -> None:
    """Every panel has a description, that names what it is made of and what to do, and a unit."""
    assert len(panel.json["description"]) > 60
    assert panel.json["description"].endswith(".")
    if panel.json["type"] == "text":
        return
    assert panel.json["fieldConfig"]["defaults"]["unit"]
    assert _FAMILY.search(panel.json["description"])


@pytest.mark.parametrize("panel", _SHOWN)
def test_a_panel_asks_the_chosen_prometheus(panel: Any) -> None:
    """A data source is named by the variable alone, never by the uid of somebody's own."""
    if panel.json["type"] == "text":
        return
    sources = [panel.json, *panel.json["targets"]]
    assert {source["datasource"]["uid"] for source in sources} == {"${datasource}"}


@pytest.mark.parametrize("query", _QUERIED)
def test_a_query_asks_for_metrics_that_exist(query: Any) -> None:
    """Every metric in a query is one of the reference, with the labels that it has."""
    labels = set(_OF_PROMETHEUS | _MADE)
    for name in _FAMILY.findall(query.expr):
        if name in _PROCESS:
            continue
        metric = _family(name)
        assert metric, f"no component exposes {name}"
        labels.update(metric.labels)
    for name, matchers in _SELECTOR.findall(query.expr):
        metric = _family(name)
        assert metric, name
        assert set(_MATCHER.findall(matchers)) <= {*metric.labels, *_OF_PROMETHEUS}, (
            name,
            matchers,
        )
    for group in _GROUPING.findall(query.expr):
        asked = {label.strip() for label in group.split(",")} - {"", "$by"}
        assert asked <= labels, f"{asked - labels} is a label of none of them"


@pytest.mark.parametrize("query", _QUERIED)
def test_a_query_uses_variables_that_exist(query: Any) -> None:
    """Every variable in a query is one of its dashboard's, or Grafana's own."""
    assert set(_VARIABLE.findall(query.expr)) <= query.variables | _BUILT_IN


@pytest.mark.parametrize("name", DASHBOARDS)
def test_links_lead_somewhere(name: str) -> None:
    """A link leads to one of the dashboards, keeps the time, and names variables that it has."""
    board = DASHBOARDS[name]
    for link in board["links"]:
        assert _UID.search(link["url"]).group(1) in UIDS.values()  # type: ignore[union-attr] # else it fails
        assert link["keepTime"]
    assert {link["title"] for link in board["links"]} == {
        title for title, uid in UIDS.items() if uid != board["uid"]
    }
    for url in (*_data_links(board), *(link["url"] for link in board["links"])):
        target = next(each for each in DASHBOARDS.values() if f"/d/{each['uid']}?" in url)
        variables = {variable["name"] for variable in target["templating"]["list"]}
        assert set(re.findall(r"var-(\w+)=", url)) <= variables


@pytest.mark.parametrize("name", DASHBOARDS)
def test_links_to_the_others_choose_no_run(name: str) -> None:
    """They keep data source, interval and, from Run to Compare, the namespace: nothing narrower."""
    for link in DASHBOARDS[name]["links"]:
        kept = {"datasource", "scrape"}
        if (name, link["title"]) == ("run", "Compare"):
            kept.add("run_namespace")
        assert set(re.findall(r"var-(\w+)=\$\{(?:\w+)\}", link["url"])) == kept
        assert not link["includeVars"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_they_begin_with_the_interval_that_the_charts_ask_for(name: str) -> None:
    """Whoever installs all of it chooses nothing: rates are of the pods' monitors' interval."""
    variables = DASHBOARDS[name]["templating"]["list"]
    scrape = next(each for each in variables if each["name"] == "scrape")
    asked = set(_MONITORED.findall(text_of("helm/inferometer/values.yaml")))
    asked |= set(_MONITORED.findall(text_of("helm/inferometer-agent/values.yaml")))
    assert asked == {SCRAPE_INTERVALS[0]} == {scrape["current"]["value"]}


def test_an_idle_operator_is_not_alarming() -> None:
    """Without a run that has begun there is no deadline, and its word has no colour of danger."""
    panel = next(
        each for each in DASHBOARDS["operator"]["panels"] if each["title"] == "Nearest deadline"
    )
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["noValue"] == "none"
    assert defaults["thresholds"]["steps"][0]["color"] == palette.PLAIN


def _data_links(found: Any) -> Iterator[str]:
    """Yield the URLs of the links that a value's cell has, wherever they are."""
    if isinstance(found, dict):
        if found.get("id") == "links":
            yield from (link["url"] for link in found["value"])
        for value in found.values():
            yield from _data_links(value)
    if isinstance(found, list):
        for value in found:
            yield from _data_links(value)


def test_scenario_edges_are_annotated() -> None:
    """On Run both edges of each measurement are drawn, and say how exact their times are."""
    expected: list[Json] = annotations(DASHBOARDS["run"])
    assert [each["name"] for each in expected] == ["Measuring begins", "Measuring ends"]
    for each in expected:
        assert "inferometer_load_stage" in each["target"]["expr"]
        assert each["useValueForTime"]
        assert "one scrape" in each["textFormat"]


def test_every_stage_has_a_name_and_a_colour() -> None:
    """The timeline knows each stage that a load generator can be in."""
    stages = get_args(ProgressReport.model_fields["stage"].annotation)
    assert set(palette.STAGES) == set(stages)
