"""The service shows what the store holds, as pages and as an API."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from inferometer_api.spec.run import BenchmarkRun
from inferometer_results.service.access.rules import AccessRules
from inferometer_results.service.api import schema
from inferometer_results.service.app import create_app
from inferometer_results.store.index_rows import JournalRow
from inferometer_results.store.search_fields import FIELDS
from inferometer_results.store.store import Store
from support.html_page import HtmlPage
from support.stored_results import CLUSTER, LOCAL, ORIGIN, a_document

_AT = "2026-02-01T00:00:00.000Z"
_SCRIPT = "<script>alert(8641969)</script>"


class _Stored:
    """A store with three results, and a client of its service.

    `ids` are a result, a later one of the same run on another CPU, and one of a laptop, whose texts
    are hostile.
    """

    def __init__(self, address: str) -> None:
        self.store = Store(address)
        app = create_app(self.store, AccessRules(), "1.2.3", lambda: 0.0)
        self.client = TestClient(app, base_url="http://127.0.0.1:8090", follow_redirects=False)
        later = json.loads(a_document(2, startedAt="2027-01-01T00:00:00.000Z"))
        later["environment"]["node"]["cpuModel"] = "Another CPU"
        hostile = json.loads(a_document(3, LOCAL))
        hostile["environment"]["model"]["name"] = _SCRIPT
        hostile["environment"]["node"]["hostname"] = f'"><img src=x onerror={_SCRIPT}>'
        hostile["scenarios"][0]["verdict"]["reasons"][0]["message"] = _SCRIPT
        documents = (a_document(1), json.dumps(later).encode(), json.dumps(hostile).encode())
        self.documents = documents
        self.ids = [self.store.add(each, ORIGIN, source="x").id for each in documents]
        self.store.note(self.ids[0], JournalRow(_AT, "ann", "tag", "baseline"))

    def json(self, path: str, **parameters: Any) -> Any:
        """Return the answer to a request that succeeds."""
        answer = self.client.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def page(self, path: str, **parameters: Any) -> HtmlPage:
        """Return a page that is shown."""
        answer = self.client.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return HtmlPage(answer.text)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Stored]:
    """Return the store and its service."""
    found = _Stored(str(tmp_path_factory.mktemp("store") / "results.db"))
    with found.store, found.client:
        yield found


def test_the_list_is_what_the_store_finds(stored: _Stored) -> None:
    """Condition, order, limit and offset are those of `results list`; the total leaves them."""
    whole = stored.json("/api/v1/results")
    assert whole["items"][0]["id"] == stored.ids[1]
    assert {each["id"] for each in whole["items"]} == set(stored.ids)
    assert whole["total"] == 3
    second = stored.json("/api/v1/results", sort="started", limit=1, offset=1)
    assert (second["total"], len(second["items"])) == (3, 1)
    tagged = stored.json("/api/v1/results", where="tag=baseline and p99>1us")
    assert [each["id"] for each in tagged["items"]] == [stored.ids[0]]
    assert tagged["items"][0]["labels"][-1] == {"name": "baseline", "origin": "tag", "value": ""}


def test_answers_are_as_the_description_says(stored: _Stored) -> None:
    """Each answer has exactly the members of its model in the OpenAPI description."""
    schema.ResultList.model_validate(stored.json("/api/v1/results"), strict=True)
    one = stored.json(f"/api/v1/results/{stored.ids[0][:8]}")
    schema.Result.model_validate(one, strict=True)
    compared = stored.json("/api/v1/compare", id=stored.ids[:2])
    schema.ComparisonDocument.model_validate(compared, strict=True)
    for each in stored.json("/api/v1/fields"):
        schema.SearchField.model_validate(each, strict=True)
    description = stored.json("/api/v1/openapi.json")
    assert "/api/v1/results/{id_}/document" in description["paths"]
    assert {"Result", "ResultList", "ComparisonDocument"} <= set(
        description["components"]["schemas"]
    )


def test_a_document_is_what_was_received(stored: _Stored) -> None:
    """Byte for byte, and as a file to save."""
    answer = stored.client.get(f"/api/v1/results/{stored.ids[0]}/document")
    assert answer.content == stored.documents[0]
    assert answer.headers["content-disposition"].startswith("attachment")


def test_a_run_can_be_repeated_from_its_yaml(stored: _Stored) -> None:
    """The YAML is a valid run."""
    answer = stored.client.get(f"/api/v1/results/{stored.ids[0]}/run")
    run = BenchmarkRun.model_validate(yaml.safe_load(answer.text))
    assert run.name == CLUSTER["run"]["metadata"]["name"]


@pytest.mark.parametrize("format_", ["csv", "json", "junit", "markdown", "openmetrics"])
def test_figures_come_in_the_formats_of_reports(stored: _Stored, format_: str) -> None:
    """Each has a name to be saved by."""
    answer = stored.client.get(
        f"/api/v1/results/{stored.ids[0]}/figures", params={"format": format_}
    )
    assert answer.status_code == 200
    assert "s0" in answer.text
    assert stored.ids[0][:12] in answer.headers["content-disposition"]


def test_tables_come_as_csv(stored: _Stored) -> None:
    """A row for each measurement, and for each compared figure."""
    listed = stored.client.get("/api/v1/results", params={"format": "csv", "limit": 1}).text
    assert listed.splitlines()[0].startswith("id,cluster_uid")
    assert len(listed.splitlines()) > 1
    parameters = {"id": stored.ids[:2], "format": "csv"}
    compared = stored.client.get("/api/v1/compare", params=parameters).text.splitlines()
    assert compared[0].startswith("scenario,step,verdict_a,verdict_b,figure,kind,a,a_low")
    assert any(",p99,time," in line for line in compared)


def test_a_table_without_rows_has_its_heading(stored: _Stored) -> None:
    """It is that of the same table with rows."""
    full, empty = (
        stored.client.get("/api/v1/results", params={"format": "csv", "where": where}).text
        for where in ("", "model=nothing")
    )
    assert empty.splitlines() == full.splitlines()[:1]


def test_a_comparison_names_the_conditions_that_differ(stored: _Stored) -> None:
    """Here that is the CPU; a result compared with itself differs in none."""
    compared = stored.json("/api/v1/compare", id=stored.ids[:2])
    assert not compared["comparable"]
    (condition,) = compared["conditions"]
    assert condition["name"] == "node class"
    assert "Another CPU" in condition["b"]
    assert {each["judgement"] for each in compared["figures"]} & {"not judged", "inconclusive"}
    same = stored.json("/api/v1/compare", id=[stored.ids[0], stored.ids[0]])
    assert same["comparable"]
    assert (same["conditions"], same["differences"]) == ([], [])


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/api/v1/results?where=modle%3Dx", 400, "There is no field 'modle'. Did you mean model?"),
        ("/api/v1/results?sort=x", 400, "There is no field 'x'."),
        ("/api/v1/results?limit=0", 400, "Parameter 'limit' is wrong: input should be greater"),
        ("/api/v1/results?limit=501", 400, "Parameter 'limit' is wrong: input should be less"),
        ("/api/v1/results?offset=x", 400, "Parameter 'offset' is wrong: input should be"),
        ("/api/v1/results?sort=-p99&offset=10001", 400, "A list skips at most 10,000 results."),
        (
            "/api/v1/results?sort=scenario",
            400,
            "Results are not sorted by scenario, but by: id",
        ),
        ("/api/v1/results?sort=tag", 400, "Results are not sorted by tag, but by: id"),
        ("/api/v1/results?sort=-label.a", 400, "Results are not sorted by label.a, but by: id"),
        (
            "/api/v1/results?after=aaaa&before=bbbb",
            400,
            "A list continues after a result or ends before one",
        ),
        ("/api/v1/results?after=ffffffff", 404, "No result has an ID that begins with ffffffff."),
        ("/api/v1/results?where=run%3D%00", 400, "A condition cannot contain"),
        ("/api/v1/results/0", 404, "'0' is not the ID of a result."),
        (f"/api/v1/results/{'0' * 32}", 404, "No result has an ID that begins with"),
        ("/api/v1/compare?id=a", 400, "Choose two results to compare, not 1."),
        ("/api/v1/compare", 400, "Parameter 'id' is wrong: field required."),
        ("/api/v1/nothing", 404, "There is no such page."),
    ],
)
def test_a_request_that_cannot_be_answered_gets_a_sentence(
    stored: _Stored, path: str, status: int, sentence: str
) -> None:
    """As JSON under /api."""
    answer = stored.client.get(path)
    assert (answer.status_code, answer.json()["error"][: len(sentence)]) == (status, sentence)


def test_a_lost_database_is_reported_and_health_goes_on(tmp_path: Path) -> None:
    """The process lives, and is not ready."""
    with Store(str(tmp_path / "results.db")) as store:
        app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
        client = TestClient(app, base_url="http://localhost")
        assert client.get("/readyz").status_code == 200
        store.engine.dispose()
        for file in tmp_path.iterdir():
            file.unlink()
        (tmp_path / "results.db").mkdir()
        answer = client.get("/readyz")
        assert (client.get("/healthz").text, answer.status_code) == ("ok\n", 503)
        assert "unable to open database file" in answer.text
        assert client.get("/api/v1/results").status_code == 503


def test_a_lost_server_is_reported_without_its_user_and_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the log has them, in the address and in the reason."""
    with Store(str(tmp_path / "results.db")) as store:
        app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
        client = TestClient(app, base_url="http://localhost")
        store.address = "postgresql://ann:secret@db.example/results"
        refused = OSError('connection to "db.example" failed: password of user "ann" is wrong')

        @event.listens_for(store.engine, "before_cursor_execute")
        def _fail(*_: object) -> None:
            raise OperationalError("SELECT 1", {}, refused)

        for path in ("/readyz", "/api/v1/results", "/"):
            answer = client.get(path)
            assert answer.status_code == 503
            assert "The database failed: the service" in answer.text
            assert "ann" not in answer.text
            assert "example" not in answer.text
    logged = capsys.readouterr().err
    assert 'ann:***@db.example/results failed: connection to "db.example" failed' in logged
    assert "secret" not in logged


def test_metrics_count_requests_by_route(stored: _Stored) -> None:
    """Routes are named without their IDs, so that the number of series is bounded."""
    stored.json(f"/api/v1/results/{stored.ids[0]}")
    stored.client.get("/api/v1/a-page-that-is-nowhere")
    text = stored.client.get("/metrics").text
    assert "inferometer_results_stored 3.0" in text
    route = 'route="/api/v1/results/{id_}",status="200"'
    assert f"inferometer_results_requests_total{{{route}}}" in text
    assert 'route="none",status="404"' in text
    assert "nowhere" not in text
    assert stored.ids[0] not in text


def test_the_runs_are_listed_with_their_figures(stored: _Stored) -> None:
    """Each run leads to its page; two can be ticked to be compared."""
    page = stored.page("/")
    assert f"/results/{stored.ids[0]}" in page.values("href")
    assert page.values("value").count(stored.ids[1]) == 1
    assert "1\N{EN DASH}3 of 3" in page.text
    assert "baseline" in page.text
    assert {"VALID", "INVALID"} <= set(page.text.split())


def test_the_list_is_paged_and_sorted_by_links(stored: _Stored) -> None:
    """Every view has an address; its condition stays in all of its links."""
    page = stored.page("/", where="p99>1us", sort="p99", limit="1", offset="1")
    assert "2\N{EN DASH}2 of 3" in page.text
    links = page.values("href")
    assert "/?where=p99%3E1us&sort=p99&limit=1" in links
    (shown,) = _listed(stored, page)
    assert f"/?where=p99%3E1us&sort=p99&limit=1&offset=2&after={shown[:12]}" in links
    assert f"/?where=p99%3E1us&sort=p99&limit=1&before={shown[:12]}" in links
    assert "/?where=p99%3E1us&sort=-p99&limit=1" in links
    assert "/?where=p99%3E1us&sort=-started&limit=1" in links
    assert "/api/v1/results?where=p99%3E1us&sort=p99&limit=1&offset=1&format=csv" in links
    assert ("aria-sort", "ascending") in page.attributes
    for each in links:
        if each.startswith(("/?", "/api")):
            assert stored.client.get(each).status_code == 200


@pytest.mark.parametrize("sort", ["p99", "-qps", "-started", "model"])
def test_every_result_is_reached_by_the_links_of_the_list(stored: _Stored, sort: str) -> None:
    """Next to the last page, and back; the API continues after the ID that it names."""
    wanted = [each["id"] for each in stored.json("/api/v1/results", sort=sort)["items"]]
    page = stored.page("/", sort=sort, limit=1)
    found = _listed(stored, page)
    while page.links_named("Next"):
        page = HtmlPage(stored.client.get(page.links_named("Next")[0]).text)
        found += _listed(stored, page)
    assert found == wanted
    assert "3\N{EN DASH}3 of 3" in page.text
    assert page.links_named("First") == [f"/?sort={sort}&limit=1"]
    back = HtmlPage(stored.client.get(page.links_named("Previous")[0]).text)
    assert _listed(stored, back) == [wanted[1]]
    assert "2\N{EN DASH}2 of 3" in back.text
    part = stored.json("/api/v1/results", sort=sort, limit=2)
    rest = stored.json("/api/v1/results", sort=sort, limit=2, after=part["next"])
    assert [each["id"] for each in part["items"] + rest["items"]] == wanted
    assert rest["next"] is None


def _listed(stored: _Stored, page: HtmlPage) -> list[str]:
    return [each for each in page.values("value") if each in stored.ids]


def test_a_condition_that_cannot_be_understood_stays_in_the_box(stored: _Stored) -> None:
    """With the sentence of what to do, and status 400."""
    answer = stored.client.get("/", params={"where": 'modle="x'})
    assert answer.status_code == 400
    page = HtmlPage(answer.text)
    assert 'modle="x' in page.values("value")
    assert "Cannot read the condition" in page.text


def test_a_retracted_result_is_left_out_with_its_reason_on_its_page(tmp_path: Path) -> None:
    """Its address stays good."""
    found = _Stored(str(tmp_path / "results.db"))
    with found.store:
        found.store.note(found.ids[0], JournalRow(_AT, "ann", "retract", "a backup ran"))
        assert f"/results/{found.ids[0]}" not in found.page("/").values("href")
        assert "retracted: a backup ran" in found.page("/", retracted="true").text
        page = found.page(f"/results/{found.ids[0]}")
        assert "This result is retracted: a backup ran" in page.text


def test_nothing_of_a_retracted_result_is_judged(tmp_path: Path) -> None:
    """The comparison names the side and the reason, on the page and in the API."""
    found = _Stored(str(tmp_path / "results.db"))
    with found.store:
        one, other = found.ids[:2]
        found.store.note(other, JournalRow(_AT, "ann", "retract", "a backup ran"))
        for address in ("/compare", "/api/v1/compare"):
            text = found.client.get(address, params={"id": [one, other]}).text
            assert "is retracted in B (a backup ran)." in text


def test_a_caveat_names_the_result_by_its_letter_on_the_page(tmp_path: Path) -> None:
    """Of six results the fifth is E, whatever the reason contains; in the API each one is B."""
    found = _Stored(str(tmp_path / "results.db"))
    with found.store:
        one, other = found.ids[:2]
        ids = [one, one, one, one, other, one]
        reason = "it ran on node B. A backup ran"
        found.store.note(other, JournalRow(_AT, "ann", "retract", reason))
        page = found.page("/compare", id=ids)
        assert f"E is not judged: it is retracted in E ({reason})." in page.text
        assert "in B (" not in page.text
        rows = found.client.get("/api/v1/comparisons", params={"id": ids}).json()
        caveats = [each["figures"][0]["caveats"] for each in rows]
        assert f"is retracted in B ({reason})." in caveats[3]


def test_the_page_of_a_run_is_its_report(stored: _Stored) -> None:
    """With its charts, downloads, and the earlier results of its specification."""
    page = stored.page(f"/results/{stored.ids[1]}")
    assert page.tags.count("svg") > 3
    assert "At a glance" in page.text
    links = page.values("href")
    assert f"/api/v1/results/{stored.ids[1]}/document" in links
    assert f"/compare?id={stored.ids[0]}&id={stored.ids[1]}" in links
    assert f"inferometer run run-{stored.ids[1][:12]}.yaml" in page.text
    first = stored.page(f"/results/{stored.ids[0][:6]}")
    assert "None in this store." in first.text


def test_two_runs_are_compared_side_by_side(stored: _Stored) -> None:
    """The differing conditions come first, then figures with their judgement, then charts."""
    page = stored.page("/compare", id=stored.ids[:2])
    order = ["Conditions that differ", "node class", "Figures", "not judged", "p99", "Latency by"]
    places = [page.text.index(part) for part in order]
    assert places == sorted(places)
    assert "Another CPU" in page.text
    assert page.tags.count("svg") > 0
    same = stored.page("/compare", id=[stored.ids[0], stored.ids[0]])
    assert "Both were measured under the same conditions." in same.text


def _views(stored: _Stored) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "/", {}
    yield "/", {"where": _SCRIPT}
    for id_ in stored.ids:
        yield f"/results/{id_}", {}
    yield "/compare", {"id": [stored.ids[0], stored.ids[2]]}
    yield "/compare", {"id": [_SCRIPT, _SCRIPT]}
    yield f"/results/{_SCRIPT}", {}
    yield f"/{_SCRIPT}", {}


def test_no_text_becomes_html_and_pages_load_only_their_own_parts(stored: _Stored) -> None:
    """Whatever names and messages hold, no element, handler or inline style comes from them."""
    for path, parameters in _views(stored):
        page = HtmlPage(stored.client.get(path, params=parameters).text)
        assert page.tags.count("script") == 2, path
        assert not {"img", "style", "iframe", "object"} & set(page.tags)
        names = {name for name, _ in page.attributes}
        assert not any(name.startswith("on") for name in names)
        assert "style" not in names
        loaded = page.values("src")
        loaded += re.findall(r'<link rel="stylesheet" href="(.*?)"', page.html)
        assert len(loaded) == 3
        for each in loaded:
            answer = stored.client.get(each)
            assert answer.status_code == 200
            assert "immutable" in answer.headers["cache-control"]
        assert "http-equiv" not in names


def test_pages_stay_small(stored: _Stored) -> None:
    """The first page and all that it loads take at most 100 kB."""
    page = stored.page("/")
    assets = [value for _, value in page.attributes if value.startswith("/assets/")]
    sizes = [len(stored.client.get(each).content) for each in assets]
    assert len(sizes) == 3
    assert sum(sizes) + len(page.html.encode()) <= 100_000


_PATHS = st.sampled_from(
    ["/", "/results/{}", "/compare", "/assets/{}", "/api/v1/results", "/api/v1/results/{}"]
    + [f"/{name}" for name in ("facets", "models", "model", "trends", "trend", "trend/together")]
    + [f"/api/v1/{name}" for name in ("facets", "models", "model", "trends", "trend", "nodes")]
    + ["/nodes", "/node-figures", "/api/v1/node-figures", "/api/v1/specs", "/api/v1/comparisons"]
    + [f"/api/v1/results/{{}}/{name}" for name in ("document", "run", "figures")]
    + ["/api/v1/compare", "/api/v1/fields", "/metrics", "/{}"]
)
_NAMES = st.sampled_from(
    [
        *("where", "sort", "limit", "offset", "retracted", "format", "id", "x", "text", "columns"),
        *("model", "scenario", "mixed", "spec", "node", "step", "figure"),
    ]
)
_TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.sampled_from([*FIELDS, "-p99", "p99<50ms", "csv", "junit", "1", "-1", "1e9", "9" * 30]),
    st.sampled_from(["run=\x00", "(" * 60, "qps<1e999", "label.=x", "id=a or " * 500 + "id=a"]),
    st.binary(max_size=20),
    st.sampled_from(range(3)),
)


@given(_PATHS, _TEXTS, st.lists(st.tuples(_NAMES, _TEXTS), max_size=4))
def test_no_request_breaks_the_service(
    stored: _Stored,
    path: str,
    part: bytes | str | int,
    parameters: list[tuple[str, bytes | str | int]],
) -> None:
    """It is answered, or refused with a sentence: never a status of 500."""

    def quoted(value: bytes | str | int) -> str:
        return quote(stored.ids[value] if isinstance(value, int) else value, safe="")

    query = "&".join(f"{name}={quoted(value)}" for name, value in parameters)
    answer = stored.client.get(f"{path.replace('{}', quoted(part) or '-')}?{query}")
    assert answer.status_code in {200, 400, 404, 414, 422}
    assert answer.text
