"""The pages about many results show figures, reasons and links of real documents."""

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import BaseModel
from starlette.testclient import TestClient

from inferometer_results.explore.prices import read_prices
from inferometer_results.history.series import series_of
from inferometer_results.service.access.rules import AccessRules
from inferometer_results.service.api import schema, summary_schema
from inferometer_results.service.app import create_app
from inferometer_results.service.views import summaries as summary_views
from inferometer_results.service.views.run_list import COLUMNS, list_query
from inferometer_results.store import summaries as stored_summaries
from inferometer_results.store.condition import read_condition
from inferometer_results.store.index_rows import ACCEPT_CHANGE, JournalRow
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from support.html_page import HtmlPage
from support.stored_results import LOCAL, ORIGIN, a_document

_MODEL = "mobilenet_v3_small"
_SCRIPT = "<script>alert(8641969)</script>"
_PRICES = "{currency: EUR, nodes: [{node: 'bench-*', perHour: 0.36}]}"


def _document(number: int, node: str, factor: float, **settings: str) -> bytes:
    """Return a result of a node, all of whose scenarios are VALID, slower by a factor."""
    found: dict[str, Any] = json.loads(
        a_document(number, LOCAL, startedAt=f"2026-10-{number:02}T08:00:00.000Z")
    )
    found["environment"]["node"]["hostname"] = node
    found["environment"]["server"]["settings"] |= settings
    for scenario in found["scenarios"]:
        if scenario["name"] != "traffic":
            scenario["verdict"] |= {"state": "VALID", "reasons": []}
        for step in scenario["steps"]:
            step["achievedSamplesPerSecond"] /= factor
            for each in step["latency"]["percentiles"]:
                each["nanoseconds"] = int(each["nanoseconds"] * factor)
    return json.dumps(found).encode()


def _cold_document(number: int, node: str, *milliseconds: int, state: str = "ModelCached") -> bytes:
    """Return a result of a node that has a coldStart of the same stack, a repeat for each time."""
    found: dict[str, Any] = json.loads(_document(number, node, 1.0))
    (run,) = (each for each in found["run"]["spec"]["scenarios"] if each["name"] == "latency")
    run.pop("singleStream")
    run["coldStart"] = {"repeats": len(milliseconds), "state": state}
    first = next(each for each in found["scenarios"] if each["name"] == "latency")
    others = [each for each in found["scenarios"] if each["name"] != "latency"]
    starts = [
        first
        | {"kind": "coldStart", "repeat": repeat, "coldStart": _cold_start(each * 10**6, state)}
        for repeat, each in enumerate(milliseconds, start=1)
    ]
    found["scenarios"] = starts + others
    return json.dumps(found).encode()


def _cold_start(total: int, state: str) -> dict[str, Any]:
    phases = [("imported", 0, total // 4), ("sessionCreated", total // 4, total // 2)]
    return {
        "state": state,
        "totalNanoseconds": total,
        "phases": [
            {
                "name": name,
                "startNanoseconds": start,
                "durationNanoseconds": duration,
                "evidence": "the server's log",
            }
            for name, start, duration in phases
        ],
        "gapNanoseconds": total // 4,
        "clientDelayNanoseconds": 0,
        "firstQueriesNanoseconds": [10**6],
    }


class _Explorer:
    """A store with results of one specification on five nodes, and a client of its service."""

    def __init__(self, address: str) -> None:
        self.store = Store(address)
        app = create_app(
            self.store, AccessRules(), "1.2.3", lambda: 0.0, read_prices(_PRICES, "prices")
        )
        self.client = TestClient(app, base_url="http://127.0.0.1:8090", follow_redirects=False)
        documents = [_document(number, "bench-1", 1.0) for number in (1, 2)]
        documents.append(_document(3, "bench-1", 1.0, runtime_version="1.32.0"))
        documents += [
            _document(4 + number, node, 1.5 if node == "bench-4" else 1.0)
            for number, node in enumerate(("bench-2", "bench-3", "bench-4", _SCRIPT))
        ]
        origin = replace(ORIGIN, source="operator")
        self.ids = [self.store.add(each, origin, source="x").id for each in documents]
        self.spec = self.store.find(Search(limit=1))[0]["spec_digest"]

    def page(self, path: str, **parameters: Any) -> HtmlPage:
        """Return a page that is shown."""
        answer = self.client.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return HtmlPage(answer.text)

    def json(self, path: str, **parameters: Any) -> Any:
        """Return the answer of the API."""
        answer = self.client.get(f"/api/v1{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Explorer]:
    """Return the store and its service."""
    found = _Explorer(str(tmp_path_factory.mktemp("store") / "results.db"))
    with found.store, found.client:
        yield found


def test_runs_are_found_by_words_and_narrowed_by_facets(explorer: _Explorer) -> None:
    """Words match any name; each facet leads to a narrower list that has as many results."""
    found = explorer.page("/", text="MOBILE bench-2")
    assert "1\N{EN DASH}1 of 1" in found.text
    facets = explorer.page("/facets")
    (link,) = [each for each in facets.values("href") if "bench-1" in each]
    assert "3" in facets.text
    narrowed = HtmlPage(explorer.client.get(link).text)
    assert "1\N{EN DASH}3 of 3" in narrowed.text
    summary_schema.Facets.model_validate(explorer.json("/facets"), strict=True)


def test_the_rate_of_a_list_is_the_one_that_it_is_sorted_by() -> None:
    """The peak of a search has a column of its own, next to the rate of its probe."""
    measured = {"qps": 90.0, "peak_qps": 95.0}
    shown = {
        each.heading: each.text({}, measured, None)
        for each in COLUMNS
        if each.field in {"qps", "peak"}
    }
    assert shown == {"Queries/s": "90.0", "Peak": "95.0"}


@pytest.mark.parametrize(
    ("where", "narrowed"),
    [
        ("p99<1s", 'p99<1s and node="a"'),
        ("model=x or model=y", '(model=x or model=y) and node="a"'),
        ("(model=x)or(model=y)", '((model=x)or(model=y)) and node="a"'),
        ('model="x"or model=y', '(model="x"or model=y) and node="a"'),
        ("model=oracle", 'model=oracle and node="a"'),
    ],
)
def test_a_facet_narrows_all_alternatives(where: str, narrowed: str) -> None:
    """However they are written."""
    link = list_query(Search(where), (), None).narrowed_url("node", "a")
    assert link is not None
    assert parse_qs(urlsplit(link).query)["where"] == [narrowed]
    assert read_condition(narrowed)


def test_a_facet_narrows_to_a_value_with_quotation_marks() -> None:
    """Its condition can be read again."""
    link = list_query(Search(""), (), None).narrowed_url("model", 'a"b')
    assert link is not None
    assert parse_qs(urlsplit(link).query)["where"] == ['model="a""b"']
    assert read_condition('model="a""b"')


def test_columns_are_chosen_by_the_address(explorer: _Explorer) -> None:
    """They stay in the links of the list; the cost has the currency of the prices."""
    usual = explorer.page("/")
    assert "EUR/1M" in usual.text
    chosen = explorer.page("/", columns=["cpu", "p90"], limit=2)
    heads = chosen.headings()
    assert [each for each in heads if each in {"Run", "CPU", "p90", "p99", "Model"}] == [
        "Run",
        "CPU",
        "p90",
    ]
    (next_page,) = [
        each for each in chosen.values("href") if "offset=2" in each and each.startswith("/?")
    ]
    assert "columns=cpu&columns=p90" in next_page
    assert "api/v1/results?" in "".join(chosen.values("href"))


def test_results_of_the_api_have_the_cost_that_the_list_shows(explorer: _Explorer) -> None:
    """As JSON and CSV, alone and in a list; also in the heading of a table without rows."""
    listed = explorer.json("/results", sort="-cost", limit=1)
    (result,) = schema.ResultList.model_validate(listed, strict=True).model_dump()["items"]
    one = explorer.json(f"/results/{result['id']}")
    schema.Result.model_validate(one, strict=True)
    costs = [each["cost_per_million"] for each in one["measurements"]]
    rates = [each["samples_per_second"] for each in one["measurements"]]
    assert costs == [pytest.approx(0.36 / 3600 / each * 1e6) for each in rates]
    assert [each["cost_per_million"] for each in result["measurements"]] == costs
    full, empty = (
        explorer.client.get(f"/api/v1/results?format=csv&{query}").text
        for query in ("sort=-cost&limit=1", "where=model%3Dnothing")
    )
    assert [float(row["cost_per_million"]) for row in csv.DictReader(full.splitlines())] == costs
    assert empty.splitlines() == full.splitlines()[:1]


def test_a_view_of_the_newest_measurements_alone_says_so(
    explorer: _Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a page, and in a header of the API in both forms; a view of all of them does not."""
    views = {
        "/model": {"model": _MODEL},
        "/trend": {"spec": explorer.spec, "node": "bench-1"},
        "/node-figures": {"spec": explorer.spec},
    }

    def headers(path: str) -> set[str | None]:
        answers = [
            explorer.client.get(f"/api/v1{path}", params=views[path] | {"format": form})
            for form in ("json", "csv")
        ]
        return {each.headers.get("inferometer-cut-at") for each in answers}

    for path, parameters in views.items():
        assert "Only the newest" not in explorer.page(path, **parameters).text
        assert headers(path) == {None}
    for module in (stored_summaries, summary_views):
        monkeypatch.setattr(module, "MOST_MEASUREMENTS", 7)
    for path, parameters in views.items():
        page = explorer.page(path, **parameters)
        assert "Only the newest 7 measurements are shown." in page.text
        assert headers(path) == {"7"}


def test_a_list_that_is_cut_says_so(explorer: _Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a page, and in a header of the API in both forms; a whole list does not."""
    for most, is_cut in ((5, False), (4, True)):
        monkeypatch.setattr(summary_views, "MOST_LISTED", most)
        page = explorer.page("/nodes")
        assert ("Only the first 4 nodes are listed." in page.text) == is_cut
        for form in ("json", "csv"):
            answer = explorer.client.get("/api/v1/nodes", params={"format": form})
            assert answer.headers.get("inferometer-cut-at") == ("4" if is_cut else None)
    assert len(explorer.json("/nodes")) == 4
    monkeypatch.setattr(summary_views, "MOST_LISTED", 0)
    for name in ("models", "trends", "specs"):
        assert explorer.client.get(f"/api/v1/{name}").headers["inferometer-cut-at"] == "0"


def test_a_model_ranks_only_under_equal_conditions_unless_asked(explorer: _Explorer) -> None:
    """Each condition that differs is named, with a link that ranks across them."""
    page = explorer.page("/model", model=_MODEL, scenario="latency")
    assert "Not ranked" in page.text
    assert "engine: onnxruntime 1.31.1; onnxruntime 1.32.0" in page.text
    assert "FRONT" not in page.text
    (link,) = [each for each in page.values("href") if "mixed=true" in each]
    ranked = HtmlPage(explorer.client.get(link).text)
    assert "Ranked across conditions that differ: engine." in ranked.text
    assert "FRONT" in ranked.text
    alike = explorer.page("/model", model=_MODEL, scenario="latency", where="node=bench-2")
    assert "FRONT" in alike.text
    document = explorer.json("/model", model=_MODEL, scenario="latency")
    summary_schema.ModelDocument.model_validate(document, strict=True)
    assert (document["ranked"], document["currency"]) == (False, "EUR")
    group = next(each for each in document["groups"] if each["node"] == "bench-2")
    # 0.36 an hour are 100 for a million at one a second.
    assert group["cost_per_million"] == pytest.approx(100 / group["samples_per_second"])


def test_what_is_invalid_never_ranks_and_is_shown_with_its_reason(explorer: _Explorer) -> None:
    """The scenario traffic broke rules in all results."""
    page = explorer.page("/model", model=_MODEL, scenario="traffic", mixed="true")
    assert "INVALID: " in page.text
    assert "FRONT" not in page.text
    groups = explorer.json("/model", model=_MODEL, scenario="traffic", mixed="true")["groups"]
    assert {each["on_front"] for each in groups} == {False}
    assert all(each["excluded"].startswith("INVALID: ") for each in groups)
    listed = explorer.json("/node-figures", spec=explorer.spec, step="traffic")
    assert listed == []


def test_batch_sizes_scale_with_both_rules(explorer: _Explorer) -> None:
    """The sweep of the model has a table and a chart."""
    page = explorer.page("/model", model=_MODEL, scenario="sizes", mixed="true")
    assert "Optimal batch size" in page.text
    assert "Throughput by batch size" in page.text
    groups = explorer.json("/model", model=_MODEL, scenario="sizes")["groups"]
    assert {each["batch_of_most_throughput"] for each in groups} <= {1, 2}


def test_a_trend_names_changes_and_adds_up_latencies(explorer: _Explorer) -> None:
    """The engine changed; latencies of equal conditions are those of the added histograms."""
    wanted = {"spec": explorer.spec, "node": "bench-1", "step": "latency", "figure": "p50"}
    page = explorer.page("/trend", **wanted)
    assert "engine: onnxruntime 1.31.1 to onnxruntime 1.32.0" in page.text
    assert page.tags.count("svg") == 1
    rows = explorer.json("/trend", **wanted)
    assert [each["result_id"] for each in rows] == explorer.ids[:3]
    summary_schema.TrendRow.model_validate(rows[0], strict=True)
    together = explorer.page("/trend/together", **wanted, where='engine~"1.31"')
    queries = [
        step["latency"]["count"]
        for scenario in LOCAL["scenarios"]
        if scenario["name"] == "latency"
        for step in scenario["steps"]
    ]
    assert f"({2 * sum(queries):,} queries, histograms added)" in together.text


def test_no_scenario_of_a_profiled_run_counts(tmp_path: Path) -> None:
    """Neither in the pages nor in `results trend`, although the scenario itself is VALID."""
    found = _Explorer(str(tmp_path / "results.db"))
    document = json.loads(_document(9, "bench-1", 1.0))
    document["scenarios"].append(document["scenarios"][0] | {"name": "layers", "kind": "profile"})
    with found.store, found.client:
        origin = replace(ORIGIN, source="operator")
        id_ = found.store.add(json.dumps(document).encode(), origin, source="x").id
        wanted = {"spec": found.spec, "node": "bench-1", "step": "latency", "figure": "p50"}
        rows = found.json("/trend", **wanted, where="node=bench-1")
        (ranked,) = found.json("/model", model=_MODEL, scenario="latency", where=f"id={id_}")[
            "groups"
        ]
        nodes = found.json("/node-figures", **wanted, where=f"id={id_}")
        charted = series_of(found.store.find(Search("node=bench-1")), "p50")
    excluded = [each["result_id"] for each in rows if each["excluded"]]
    assert excluded == [id_]
    assert (ranked["excluded"], nodes) == ("profiled: the run has a profile scenario", [])
    assert id_ not in {point.result_id for each in charted for point in each.points}


def test_a_model_is_not_opened_at_its_evaluation(tmp_path: Path) -> None:
    """Which has no latency, however often it was run."""
    found = _Explorer(str(tmp_path / "results.db"))
    document = json.loads(_document(9, "bench-1", 1.0))
    first = document["scenarios"][0]
    document["scenarios"] = [
        first | {"name": "a", "kind": "accuracy"},
        first | {"name": "a", "kind": "accuracy", "repeat": 2},
        first,
    ]
    with found.store, found.client:
        id_ = found.store.add(json.dumps(document).encode(), ORIGIN, source="x").id
        page = found.client.get("/model", params={"model": _MODEL, "where": f"id={id_}"}).text
    choices = re.findall(r"scenario=(\w+)", page)
    assert choices.index("latency") < choices.index("a")


def test_a_trend_stays_readable_with_a_finding_that_is_not(tmp_path: Path) -> None:
    """The page counts it, and the API leaves it out."""
    found = _Explorer(str(tmp_path / "results.db"))
    wanted = {"spec": found.spec, "node": "bench-1", "step": "latency", "figure": "p50"}
    with found.store, found.client:
        assert "cannot be read" not in found.page("/trend", **wanted).text
        for words in ("1 finding about", "2 findings about"):
            found.store.note(
                found.ids[2],
                JournalRow(ORIGIN.received_at, "ann", ACCEPT_CHANGE, '{"scenario": []}'),
            )
            assert (
                f"{words} changes of these results cannot be read"
                in found.page("/trend", **wanted).text
            )
        rows = found.json("/trend", **wanted)
    assert [each["state"] for each in rows] == [None, None, None]


@pytest.mark.parametrize("prefix", ["", "/api/v1"])
@pytest.mark.parametrize(
    ("path", "parameter"),
    [("/model", "scenario"), ("/trend", "step"), ("/node-figures", "step")],
)
def test_an_unknown_scenario_or_step_is_rejected_with_those_that_exist(
    explorer: _Explorer, prefix: str, path: str, parameter: str
) -> None:
    """Figures of another one would be taken for those of the one in the address."""
    wanted = {"model": _MODEL, "spec": explorer.spec, "node": "bench-1", parameter: "nope"}
    answer = explorer.client.get(f"{prefix}{path}", params=wanted)
    assert answer.status_code == 400
    text = answer.text if prefix else HtmlPage(answer.text).text
    assert f"No result that matches has the {parameter} 'nope'. Choose one of: " in text
    assert "latency" in text


def test_nodes_show_what_ran_there_and_which_stands_apart(explorer: _Explorer) -> None:
    """bench-4 is slower by half than the four others."""
    page = explorer.page("/nodes")
    assert f"/node-figures?spec={explorer.spec}" in page.values("href")
    assert _MODEL in page.text
    figures = explorer.page("/node-figures", spec=explorer.spec, step="latency", figure="p50")
    assert figures.text.count("as the others") == 4
    rows = explorer.json("/node-figures", spec=explorer.spec, step="latency", figure="p50")
    assert [each["node"] for each in rows if each["outlier"]] == ["bench-4"]
    listed = {each["node"]: each["count"] for each in explorer.json("/nodes")}
    assert all(each["results"] <= listed[each["node"]] for each in rows)
    summary_schema.NodeRow.model_validate(rows[0], strict=True)
    assert {each["differing"] for each in rows} == {""}
    wanted = {"spec": explorer.spec, "step": "latency", "figure": "p50"}
    where = 'engine~"1.32" or not node="bench-1"'
    mixed = explorer.page("/node-figures", **wanted, where=where)
    assert "engine: onnxruntime 1.32.0 instead of onnxruntime 1.31.1" in mixed.text
    named = {row["node"]: row for row in explorer.json("/node-figures", **wanted, where=where)}
    assert named["bench-1"]["differing"] == "engine: onnxruntime 1.31.1 to onnxruntime 1.32.0"
    assert named["bench-1"]["deviations"] is None


def _together(text: str) -> list[tuple[int, int]]:
    """Return the windows and the queries of each sum that a comparison shows."""
    found = re.findall(r"All (\d+) windows together \(([\d,]+) queries\)", text)
    return [(int(windows), int(queries.replace(",", ""))) for windows, queries in found]


def test_several_runs_are_compared_with_the_first(explorer: _Explorer) -> None:
    """Equal conditions add up; the conditions that differ stand in a column of each result."""
    alike = explorer.page("/compare", id=[*explorer.ids[:2], explorer.ids[4]])
    assert "3 runs side by side" in alike.text
    assert "All were measured under the same conditions." in alike.text
    (windows, queries), *_ = _together(alike.text)
    ((own, own_queries), *_) = _together(explorer.page("/compare", id=explorer.ids[:2]).text)
    assert windows * own_queries == queries * own
    repeated = explorer.page("/compare", id=[*explorer.ids[:2], explorer.ids[0]])
    assert _together(repeated.text)[0] == (own, own_queries)
    itself = explorer.page("/compare", id=[explorer.ids[0]] * 2)
    assert _together(itself.text)[0] == (own // 2, own_queries // 2)
    other = explorer.page("/compare", id=explorer.ids[:3])
    assert "onnxruntime 1.32.0" in other.text
    assert "C is not judged: it is INVALID in A and C." in other.text
    assert "windows together" not in other.text
    found = explorer.json("/comparisons", id=explorer.ids[:3])
    assert [each["b"]["id"] for each in found] == explorer.ids[1:3]
    refused = explorer.client.get("/compare", params={"id": explorer.ids[:1] * 9})
    assert refused.status_code == 400


@pytest.mark.parametrize("why", ["retracted", "failed", "profiled"])
def test_runs_that_do_not_count_are_not_added(tmp_path: Path, why: str) -> None:
    """A retracted run, one that is not complete, and one with a profile scenario."""
    found = _Explorer(str(tmp_path / "results.db"))
    document = json.loads(_document(8, "bench-1", 1.0))
    if why == "failed":
        document["outcome"] = {"state": "Failed", "reason": "ServerDied", "message": "killed"}
    elif why == "profiled":
        first = document["scenarios"][0]
        document["scenarios"].append(first | {"name": "layers", "kind": "profile"})
    with found.store, found.client:
        id_ = found.store.add(json.dumps(document).encode(), ORIGIN, source="x").id
        if why == "retracted":
            found.store.note(id_, JournalRow(ORIGIN.received_at, "ann", "retract", "a backup ran"))
        assert _together(found.page("/compare", id=found.ids[:2]).text)
        assert not _together(found.page("/compare", id=[found.ids[0], id_]).text)
        assert not _together(found.page("/compare", id=[*found.ids[:2], id_]).text)


def test_earlier_results_are_those_of_the_specification(explorer: _Explorer) -> None:
    """Whatever node they ran on, with their trend."""
    page = explorer.page(f"/results/{explorer.ids[3]}")
    links = page.values("href")
    assert [f"/compare?id={each}&id={explorer.ids[3]}" in links for each in explorer.ids[:3]] == [
        True,
        True,
        True,
    ]
    assert any(each.startswith(f"/trend?spec={explorer.spec}") for each in links)


_LISTS: dict[str, type[BaseModel]] = {
    "/models": summary_schema.ListedModel,
    "/nodes": summary_schema.ListedNode,
    "/trends": summary_schema.ListedTrend,
    "/specs": summary_schema.ListedSpec,
}


@pytest.mark.parametrize("path", _LISTS)
def test_lists_come_as_data(explorer: _Explorer, path: str) -> None:
    """As JSON with the members of its model, and as CSV; a condition narrows them."""
    rows = explorer.json(path)
    for row in rows:
        _LISTS[path].model_validate(row, strict=True)
    answer = explorer.client.get(f"/api/v1{path}", params={"format": "csv"})
    assert len(answer.text.splitlines()) == len(rows) + 1
    assert explorer.json(path, where="node=nowhere") == []
    nothing = explorer.client.get(
        f"/api/v1{path}", params={"format": "csv", "where": "node=nowhere"}
    )
    assert nothing.text.splitlines() == answer.text.splitlines()[:1]


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/model", summary_schema.ModelGroup),
        ("/trend", summary_schema.TrendRow),
        ("/node-figures", summary_schema.NodeRow),
    ],
)
def test_views_come_as_csv_with_the_columns_of_their_model(
    explorer: _Explorer, path: str, model: type[BaseModel]
) -> None:
    """Also if nothing has the figure."""
    parameters = {"model": _MODEL} if path == "/model" else {"spec": explorer.spec}
    parameters |= {"node": "bench-1", "format": "csv"}
    empty = [{"figure": "energy"}] if path != "/model" else []
    for more in ({}, *empty):
        answer = explorer.client.get(f"/api/v1{path}", params={**parameters, **more})
        heading, *rows = answer.text.splitlines()
        assert heading == ",".join(model.model_fields)
        assert bool(rows) is not bool(more)


def _views(explorer: _Explorer) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "/", {}
    yield "/facets", {}
    yield "/models", {}
    yield "/trends", {}
    yield "/nodes", {}
    yield "/model", {"model": _MODEL, "mixed": "true", "scenario": "sizes"}
    yield "/trend", {"spec": explorer.spec, "node": "bench-1", "figure": "p50"}
    yield "/trend", {"spec": explorer.spec, "node": _SCRIPT}
    yield "/node-figures", {"spec": explorer.spec, "step": "latency"}
    yield "/compare", {"id": [explorer.ids[0], explorer.ids[3], explorer.ids[6]]}


def test_views_have_addresses_and_data_and_no_text_becomes_html(explorer: _Explorer) -> None:
    """Each view links to itself, CSV and JSON; hostile names stay text; every link leads on."""
    for path, parameters in _views(explorer):
        page = explorer.page(path, **parameters)
        assert page.tags.count("script") == 2, path
        assert not {"img", "style", "iframe"} & set(page.tags)
        names = {name for name, _ in page.attributes}
        assert not any(name.startswith("on") for name in names)
        assert "style" not in names
        assert not any(name.startswith("hx-on") for name in names)
        links = page.values("href")
        if path != "/facets":
            assert any("format=csv" in each for each in links), path
            (own,) = page.links_named("Permalink")
            assert HtmlPage(explorer.client.get(own).text).text == page.text
        for each in {link for link in links if link.startswith("/")}:
            assert explorer.client.get(each).status_code == 200, each


def test_the_links_of_a_model_with_quotation_marks_lead_on(tmp_path: Path) -> None:
    """They are doubled in the condition that finds its runs."""
    found = json.loads(_document(1, "bench-1", 1.0))
    found["environment"]["model"]["name"] = 'a"b'
    with Store(str(tmp_path / "results.db")) as store:
        store.add(json.dumps(found).encode(), ORIGIN, source="x")
        app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
        client = TestClient(app, base_url="http://127.0.0.1:8090")
        page = HtmlPage(client.get("/models").text)
        assert 'a"b' in page.text
        for each in (link for link in page.values("href") if link.startswith("/")):
            assert client.get(each).status_code == 200, each


def test_a_model_shows_its_cold_starts_beside_latency_and_cost(tmp_path: Path) -> None:
    """The median of the newest cold start of each stack and node stands in every scenario.

    A row of cold starts has its own instead.
    """
    with Store(str(tmp_path / "results.db")) as store:
        origin = replace(ORIGIN, source="operator")
        store.add(
            _cold_document(1, "bench-1", 7000, 8000, state="ImagePresent"), origin, source="x"
        )
        newest = store.add(_cold_document(2, "bench-1", 400, 600, 800), origin, source="x").id
        store.add(_document(3, "bench-1", 1.0), origin, source="x")
        store.add(_document(4, "bench-2", 1.0), origin, source="x")
        app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
        with TestClient(app, base_url="http://127.0.0.1:8090") as client:
            where = {"model": _MODEL, "scenario": "sizes"}
            page = HtmlPage(client.get("/model", params=where).text)
            document = client.get("/api/v1/model", params=where).json()
            where["scenario"] = "latency"
            cold = client.get("/api/v1/model", params=where).json()
    assert "Cold start" in page.headings()
    assert "600 ms" in page.text
    assert "ModelCached, most in sessionCreated" in page.text
    assert f"/results/{newest}" in page.values("href")
    summary_schema.ModelDocument.model_validate(document, strict=True)
    starts = {each["node"]: each["cold_start_nanoseconds"] for each in document["groups"]}
    assert starts == {"bench-1": 600e6, "bench-2": None}
    own = {each["cold_start_state"]: each["cold_start_nanoseconds"] for each in cold["groups"]}
    assert own == {"ModelCached": 600e6, "ImagePresent": 7500e6, None: None}
