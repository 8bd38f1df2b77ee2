"""Suites in the explorer, and what the store knows of earlier executions."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from inferometer_api.ranking import NOT_RANKED
from inferometer_api.results.reading import UnreadableDocumentError, read_result
from inferometer_api.results.scenario_summary import scenario_summary
from inferometer_api.suite.figures import step_figures
from inferometer_api.suite.labels import EXECUTION_LABEL
from inferometer_api.suite.outcome import ReusedRun, SuiteOutcome
from inferometer_api.suite.status import GateOutcome
from inferometer_results.service.access.rules import AccessRules
from inferometer_results.service.api.summary_schema import SuiteDocument
from inferometer_results.service.app import create_app
from inferometer_results.service.views.suites import FLAT_COLUMNS, show_suite
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from inferometer_results.store.suite_outcomes import find_outcomes, keep_outcome
from inferometer_results.store.transfer import archive_lines, import_archive
from inferometer_results.suites.stored_suites import (
    executions,
    row_figures,
    row_step_figures,
    stored_baseline,
    stored_pairs,
)
from support.html_page import HtmlPage
from support.stored_results import CLUSTER, LOCAL, ORIGIN, a_document
from support.suite_results import SUITE, a_suite_outcome, a_suite_result


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return a store with two executions of a suite, and a result of none."""
    with Store(str(tmp_path / "results.db")) as found:
        contents = [a_document(0)]
        for start, execution in ((1, "first"), (11, "second")):
            contents += [
                a_suite_result(start, execution, "opening"),
                a_suite_result(start + 1, execution),
                a_suite_result(start + 2, execution, model="small"),
                a_suite_result(start + 3, execution, "closing"),
            ]
        for content in contents:
            found.add(content, ORIGIN, source="x")
        yield found


def test_executions_pairs_and_baselines_come_from_labels(store: Store) -> None:
    """The newest execution first; a pair from each block; the figures of cells alone."""
    found = executions(store, SUITE)
    assert [(name, len(rows)) for name, rows in found.items()] == [
        ("bench/second", 4),
        ("bench/first", 4),
    ]
    (pairs,) = stored_pairs(found)
    assert pairs.cell == "key-big"
    assert pairs.ratios_parts_per_million == [1_000_000, 1_000_000]
    assert CLUSTER["environment"]["node"]["cpuModel"] in pairs.node_class
    baseline = stored_baseline(store, found["bench/second"])
    assert set(baseline) == {("key-big", ""), ("key-small", "")}
    assert all(
        "p50" in figures
        for cell in baseline.values()
        for run in cell.runs
        for figures in run.figures.values()
    )
    for run in (run for cell in baseline.values() for run in cell.runs):
        assert run.specs.keys() == {scenario for scenario, _ in run.figures}
    assert {each.engine[0] for cell in baseline.values() for each in cell.computations} == {
        "External"
    }


def test_results_that_users_stored_are_an_execution_of_their_own(store: Store) -> None:
    """They neither join the operator's runs, nor take its star, nor are a baseline."""
    faster = json.loads(a_suite_result(30, "second"))
    faster["startedAt"] = "2030-01-01T00:00:00.000Z"
    store.add(json.dumps(faster).encode(), replace(ORIGIN, source="user"), source="x")
    before, after = show_suite(store, SUITE, ""), show_suite(store, SUITE, "bench/second")
    assert before == after
    assert len(after.runs) == 4
    names = ["bench/second", "bench/first", "bench/second (stored by users)"]
    assert list(after.executions) == names
    (run,) = show_suite(store, SUITE, names[-1]).runs
    assert run.state == "V"
    assert {name: len(rows) for name, rows in executions(store, SUITE).items()} == {
        "bench/second": 4,
        "bench/first": 4,
    }


def test_pairs_of_two_specs_of_an_anchor_are_kept_apart(tmp_path: Path) -> None:
    """Two runs of different specs are no pair."""
    with Store(str(tmp_path / "pairs.db")) as found:
        for at, (execution, first, last) in enumerate(
            (("a", "1", "1"), ("b", "2", "2"), ("c", "1", "2"))
        ):
            for number, role, spec in ((1, "opening", first), (2, "closing", last)):
                document = json.loads(a_suite_result(10 * at + number, execution, role))
                document["run"]["metadata"]["labels"]["inferometer.dev/suite-spec"] = spec
                found.add(json.dumps(document).encode(), ORIGIN, source="x")
        pairs = stored_pairs(executions(found, SUITE))
    assert [(each.spec_digest, each.ratios_parts_per_million) for each in pairs] == [
        ("1", [1_000_000]),
        ("2", [1_000_000]),
    ]


def test_the_figures_of_a_row_are_those_of_every_step(tmp_path: Path) -> None:
    """And no probe of a search: the peak alone. Of a profile as well, as a status has them."""
    document = json.loads(a_document(like=LOCAL))
    for scenario in document["scenarios"]:
        if scenario.get("peak"):
            scenario["peak"]["qps"] = 150.0
    with Store(str(tmp_path / "row.db")) as found:
        found.add(json.dumps(document).encode(), ORIGIN, source="x")
        (row,) = found.find(Search())
    read = read_result(json.dumps(document).encode(), source="x").document
    by_status = step_figures([scenario_summary(each) for each in read.scenarios])
    by_row = row_step_figures(row)
    assert by_row.keys() == by_status.keys()
    assert {step for step in by_row if step[0] in {"sizes", "capacity"}} == {
        ("sizes", "batch 1"),
        ("sizes", "batch 2"),
        ("capacity", ""),
    }
    for step, figures in by_row.items():
        assert figures == pytest.approx(by_status[step], rel=1e-3)
    profiled = [
        each | {"kind": "profile", "headline": False} if each["scenario"] == "sizes" else each
        for each in row["measurements"]
    ]
    assert row_step_figures({**row, "measurements": profiled}) == by_row


def test_the_explorer_shows_each_suite_and_its_executions(store: Store) -> None:
    """The list, the newest execution, an older one, and clear refusals."""
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
    with TestClient(app, base_url="http://127.0.0.1:8090") as client:
        assert f'<a href="/suites/{SUITE}">' in client.get("/suites").text
        (listed,) = client.get("/api/v1/suites").json()
        assert (listed["suite"], listed["count"]) == (SUITE, 8)
        page = client.get(f"/suites/{SUITE}")
        assert page.status_code == 200
        assert "<b>bench/second</b>" in page.text
        assert "heat-5" in page.text
        assert '<a href="/results/' in page.text
        assert f"/suites/{SUITE}?execution=bench/first" in page.text
        older = client.get(f"/suites/{SUITE}", params={"execution": "bench/first"})
        assert "<b>bench/first</b>" in older.text
        assert client.get("/suites/none").status_code == 404
        assert "has no execution third" in client.get(f"/suites/{SUITE}?execution=third").text
        assert client.get('/suites/a"b').status_code == 400


_UNREADABLE = [
    ("block", "abc", "is 'abc', and not the number of a block."),
    ("block", "9" * 30, "and not the number of a block."),
    ("role", "judge", "is 'judge', and not one of cell, opening, closing."),
    ("cell", "k" * 64, "a label has at most 63 letters"),
    ("execution", 'a"b', "a label has at most 63 letters"),
]
"""A label of a suite's run, a value that it cannot have, and what is said about it."""


def _mislabelled(number: int, name: str, value: str, role: str = "cell") -> bytes:
    document = json.loads(a_suite_result(number, "third", role))
    document["run"]["metadata"]["labels"][f"inferometer.dev/suite-{name}"] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(("name", "value", "words"), _UNREADABLE)
def test_a_run_whose_labels_cannot_be_read_fails_alone(
    store: Store, name: str, value: str, words: str
) -> None:
    """The page and the API show it with the reason; it has no figures, and is no baseline."""
    content = _mislabelled(21, name, value)
    added = store.add(content, ORIGIN, source="x").id
    store.add(_mislabelled(22, name, value, "opening"), ORIGIN, source="x")
    store.add(_mislabelled(23, name, value, "closing"), ORIGIN, source="x")
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
    with TestClient(app, base_url="http://127.0.0.1:8090") as client:
        page = client.get(f"/suites/{SUITE}")
        assert (page.status_code, words in HtmlPage(page.text).text) == (200, True)
        runs = client.get(f"/api/v1/suites/{SUITE}").json()["runs"]
    found = next(each for each in runs if each["result_id"] == added)
    assert (found["state"], found["figures"]) == ("failed", {})
    by_execution = executions(store, SUITE)
    newest = next(iter(by_execution.values()))
    assert stored_baseline(store, newest) == {}
    (pairs,) = stored_pairs(by_execution)
    assert len(pairs.ratios_parts_per_million) == 2


def test_a_pair_whose_ratio_no_status_can_have_does_not_count(tmp_path: Path) -> None:
    """Its figures are those of two different things."""
    with Store(str(tmp_path / "results.db")) as found:
        for number, role, factor in ((1, "opening", 1.0), (2, "closing", 3000.0)):
            found.add(a_suite_result(number, "one", role, factor=factor), ORIGIN, source="x")
        assert stored_pairs(executions(found, SUITE)) == []


def test_an_outcome_shows_the_gate_and_the_runs_without_a_result(store: Store) -> None:
    """Also of an execution of which nothing was measured; the last outcome of one counts."""
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
    with TestClient(app, base_url="http://127.0.0.1:8090") as client:
        before = client.get(f"/suites/{SUITE}").text
        assert "The outcome of this execution is not in the database" in before
        origin = replace(ORIGIN, namespace="bench", source="operator")
        decided: tuple[GateOutcome, ...] = ("INCONCLUSIVE", "FAIL")
        for outcome in decided:
            kept = keep_outcome(store, a_suite_outcome("second", outcome), origin)
        assert kept.is_new
        assert not keep_outcome(store, a_suite_outcome("second", "FAIL"), origin).is_new
        keep_outcome(store, a_suite_outcome("third", "CouldNotRun", planned=1), origin)
        page = client.get(f"/suites/{SUITE}", params={"execution": "bench/second"}).text
        assert "not in the database" not in page
        assert "<b>FAIL</b> 1 of 8 figures are slower than the baseline. The figures are" in page
        assert "big, latency: the median latency changed by +10.0 % (+8.0 to +12.0 %)." in page
        assert "5 of 5 runs are over: 4 VALID, 1 failed." in page
        assert "No &lt;b&gt;server&lt;/b&gt;: the pod" in page
        assert "<b>bench/second</b>: gate FAIL" in page
        assert "bench/third</a>: gate CouldNotRun" in page
        third = client.get(f"/suites/{SUITE}", params={"execution": "bench/third"}).text
        assert "1 of 1 runs are over: 1 failed." in third
        keep_outcome(store, a_suite_outcome("fourth", "PASS", planned=9), origin)
        fourth = client.get(f"/suites/{SUITE}", params={"execution": "bench/fourth"}).text
        assert "The results of 8 runs are no longer in the database." in fourth


def test_each_outcome_of_an_execution_is_kept_and_the_last_one_counts(tmp_path: Path) -> None:
    """Also after an import, whatever came first; a second import adds nothing."""
    decided: tuple[GateOutcome, ...] = ("INCONCLUSIVE", "FAIL")
    origins = [replace(ORIGIN, received_at=f"2026-02-0{day}T00:00:00.000Z") for day in (1, 2)]
    with Store(str(tmp_path / "a.db")) as first, Store(str(tmp_path / "b.db")) as second:
        for store, outcome, origin in zip((first, second), decided, origins, strict=True):
            keep_outcome(store, a_suite_outcome("second", outcome), origin)
        for source, target in ((first, second), (second, first), (first, second)):
            assert not [
                each.fault
                for each in import_archive(target, archive_lines(source), source="a.jsonl")
                if each.fault
            ]
        for store in (first, second):
            assert len(store.other_documents()) == 2
            (found,) = find_outcomes(store, SUITE)
            assert found.outcome.gate is not None
            assert found.outcome.gate.outcome == "FAIL"


def test_a_suite_of_which_nothing_was_measured_is_listed(store: Store) -> None:
    """After those with results, and not under a condition on results; each suite once."""
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
    origin = replace(ORIGIN, namespace="bench", source="operator")
    unmeasured = a_suite_outcome("first", "CouldNotRun", planned=1, suite="broken")
    for outcome in (unmeasured, a_suite_outcome("second", "PASS")):
        keep_outcome(store, outcome, origin)
    with TestClient(app, base_url="http://127.0.0.1:8090") as client:
        listed = client.get("/api/v1/suites").json()
        assert [(each["suite"], each["count"]) for each in listed] == [(SUITE, 8), ("broken", 0)]
        assert listed[1]["newest"] == ORIGIN.received_at
        assert '<a href="/suites/broken">' in client.get("/suites").text
        narrowed = client.get("/api/v1/suites", params={"where": f'suite="{SUITE}"'}).json()
        assert [each["suite"] for each in narrowed] == [SUITE]
        assert "failed" in client.get("/suites/broken").text


def test_the_api_has_executions_runs_and_gate_of_a_suite(store: Store) -> None:
    """As the OpenAPI description says; CSV has a row for each figure, and for a run without any."""
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
    origin = replace(ORIGIN, namespace="bench", source="operator")
    keep_outcome(store, a_suite_outcome("second", "FAIL"), origin)
    with TestClient(app, base_url="http://127.0.0.1:8090") as client:
        answer = client.get(f"/api/v1/suites/{SUITE}").json()
        found = SuiteDocument.model_validate(answer)
        assert found.execution == "bench/second"
        assert [(each.execution, each.gate) for each in found.executions] == [
            ("bench/second", "FAIL"),
            ("bench/first", None),
        ]
        assert found.gate is not None
        assert (found.gate.outcome, found.gate.slower[0].cell) == ("FAIL", "big")
        states = [each.state for each in found.runs]
        assert sorted(states) == ["VALID", "VALID", "VALID", "VALID", "failed"]
        measured = next(each for each in found.runs if each.state == "VALID")
        assert client.get(f"/api/v1/results/{measured.result_id}").status_code == 200
        assert set(measured.figures["s0"]) == {"qps", "p50"}
        older = client.get(f"/api/v1/suites/{SUITE}", params={"execution": "bench/first"}).json()
        assert (older["gate"], len(older["runs"])) == (None, 4)
        rows = client.get(f"/api/v1/suites/{SUITE}?format=csv").text.splitlines()
        assert rows[0].startswith("run,cell,system,repeat,role,state,reason,result_id,scenario,")
        assert sum(",failed," in row for row in rows) == 1
        assert tuple(rows[0].split(",")) == FLAT_COLUMNS
        page = client.get(f"/suites/{SUITE}").text
        assert f"/api/v1/suites/{SUITE}?execution=bench%2Fsecond&amp;format=csv" in page
        assert client.get("/api/v1/suites/none").status_code == 404
        assert client.get(f"/api/v1/suites/{SUITE}?execution=x").status_code == 404


def test_the_explorer_marks_no_best_cell_across_precisions(tmp_path: Path) -> None:
    """It reads the two results, and follows the rule of `compare`."""

    def stars(precision: str) -> str:
        with Store(str(tmp_path / f"{precision}.db")) as store:
            runs = [(block, at) for block in (1, 2, 3) for at in (1, 2)]
            for number, (block, factor) in enumerate(runs):
                protocol = "http" if factor == 2 else "grpc"
                changed: dict[str, Any] = {"factor": factor, "block": block}
                found = json.loads(a_suite_result(number, "only", protocol=protocol, **changed))
                if protocol == "http":
                    settings = found["environment"]["server"]["settings"]
                    settings["precision"] = precision or settings.get("precision", "")
                store.add(json.dumps(found).encode(), ORIGIN, source="x")
            app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
            with TestClient(app, base_url="http://127.0.0.1:8090") as client:
                return client.get(f"/suites/{SUITE}").text

    assert 'class="best"' in stars("")
    other = stars("int8")
    assert 'class="best"' not in other
    assert NOT_RANKED in other


def test_reused_runs_show_the_earlier_result_and_say_so(store: Store) -> None:
    """With its figures and its page; a result that was deleted leaves a reason."""
    (known, *_) = store.find(Search(f'suite="{SUITE}" and label.{EXECUTION_LABEL}=first'))
    outcome = SuiteOutcome(
        suite=SUITE,
        execution="third",
        finished_at="2026-02-01T02:00:00.000Z",
        planned=2,
        reused=[
            ReusedRun(name="kept", values={"model": "big"}, result=known["id"]),
            ReusedRun(name="lost", values={"model": "small"}, result="0" * 32),
        ],
    )
    origin = replace(ORIGIN, namespace="bench", source="operator")
    keep_outcome(store, outcome.model_dump_json().encode(), origin)
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
    with TestClient(app, base_url="http://127.0.0.1:8090") as client:
        where = {"execution": "bench/third"}
        runs = client.get(f"/api/v1/suites/{SUITE}", params=where).json()["runs"]
        assert [(each["run"], each["state"], each["result_id"]) for each in runs] == [
            ("kept", "reused", known["id"]),
            ("lost", "reused", ""),
        ]
        assert runs[0]["figures"] == row_figures(known)
        assert runs[1]["reason"] == "Its result is no longer in the database."
        page = client.get(f"/suites/{SUITE}", params=where).text
        assert "2 of 2 runs are over: 2 reused." in page
        assert "<small>reused</small>" in page
        assert "were measured before this execution" in page


def test_what_is_no_outcome_is_refused(store: Store) -> None:
    """The message names the field."""
    with pytest.raises(UnreadableDocumentError, match="no outcome of a suite: execution: "):
        keep_outcome(store, b'{"kind": "SuiteOutcome", "suite": "nightly"}', ORIGIN)
