"""A series has the VALID runs under equal conditions; what people confirmed stands with it."""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from inferometer_api.results.reading import read_result
from inferometer_api.results.result import ResultDocument
from inferometer_cli.tables.trend import print_trend
from inferometer_results.annotation import AnnotationError, check_annotation
from inferometer_results.history.trend import ChangeFinding, Trend, trend_fields, trends
from inferometer_results.store.index_rows import ACCEPT_CHANGE, REJECT_CHANGE, JournalRow
from inferometer_results.store.query import Search
from inferometer_results.store.search_fields import SearchError
from inferometer_results.store.store import Store
from support.history_results import SCENARIO, a_history_document, a_step_up, add_all
from support.stored_results import ORIGIN

Document = dict[str, Any]
FINDING = ChangeFinding(SCENARIO, "", "p50", 1.19, 1.15, 1.23, 12)

_CHANGED: Sequence[dict[str, Any]] = (
    {"scenario": []},
    {"step": 1},
    {"figure": "p42"},
    {"figure": {}},
    {"ratio": "x", "low": []},
    {"ratio": True},
    {"ratio": float("nan")},
    {"high": float("inf")},
    {"high": 10**400},
    {"low": 0},
    {"low": 1.3, "high": 1.2},
    {"rounds": 1.5},
    {"rounds": 0},
    {"more": 1},
)
UNREADABLE = [json.dumps(asdict(FINDING) | each) for each in _CHANGED]
"""Findings with one field of another type or without sense."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return an empty store."""
    with Store(str(tmp_path / "results.db")) as opened:
        yield opened


def trends_of(store: Store, figure: str = "p50") -> list[Trend]:
    """Return all trends of a store."""

    def read(id_: str) -> ResultDocument:
        return read_result(store.read(id_).content, source=id_).document

    return trends(store.find(Search()), figure, store.journal(), read)


def test_a_step_is_a_candidate_at_its_first_result(store: Store) -> None:
    """It names the results on both sides."""
    ids = add_all(store, a_step_up())
    (trend,) = trends_of(store)
    (change,) = trend.changes
    assert (change.state, change.is_better) == ("candidate", False)
    assert (change.before.result_id, change.after.result_id) == (ids[19], ids[20])
    assert change.after.labels == (("commit", "c20"),)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document["scenarios"][0]["verdict"].update(state="INVALID"),
        lambda document: document["outcome"].update(state="Interrupted"),
        lambda document: document["scenarios"][0]["steps"][0].update(latency=None),
        lambda document: document["scenarios"].append(
            document["scenarios"][0] | {"name": "layers", "kind": "profile"}
        ),
    ],
)
def test_only_valid_complete_results_have_a_value(
    store: Store, spoil: Callable[[Document], None]
) -> None:
    """One that is INVALID, ended early, profiled or lacks the figure is no run of the series."""
    documents = [a_history_document(at, 10.0) for at in range(4)]
    spoil(documents[2])
    ids = add_all(store, documents)
    (trend,) = trends_of(store)
    assert [each.result_id for each in trend.series.points] == [ids[0], ids[1], ids[3]]


def test_a_retracted_result_leaves_the_series(store: Store) -> None:
    """Its figures are wrong."""
    ids = add_all(store, [a_history_document(at, 10.0) for at in range(3)])
    store.note(ids[1], JournalRow("2026-02-01T00:00:00.000Z", "ann", "retract", "busy"))
    (trend,) = trends_of(store)
    assert [each.result_id for each in trend.series.points] == [ids[0], ids[2]]


def test_a_changed_condition_splits_the_series_and_is_named(store: Store) -> None:
    """The second series begins after the first; none of its changes is a candidate."""
    documents = a_step_up()
    for each in documents[20:]:
        each["environment"]["server"]["version"] = "9.9"
    other = a_history_document(30, 10.0)
    other["run"]["metadata"]["name"] = "another"
    other["environment"]["server"]["version"] = "8"
    ids = add_all(store, [*documents, other])
    another, first, second = trends_of(store)
    assert another.split == {}
    assert (first.split, first.changes, second.changes) == ({}, (), ())
    assert set(second.split) == {"server"}
    assert second.split["server"][1].endswith("9.9")
    assert second.split_after is not None
    assert second.split_after.result_id == ids[19]
    assert trend_fields(second)["splitAfter"] == ids[19]


def test_conditions_that_alternate_are_series_side_by_side(store: Store) -> None:
    """Neither begins after the other."""
    documents = [a_history_document(at, 10.0 + at % 2) for at in range(8)]
    for each in documents[1::2]:
        each["environment"]["server"]["version"] = "9.9"
    add_all(store, documents)
    assert [len(each.series.points) for each in trends_of(store)] == [4, 4]
    assert [each.split for each in trends_of(store)] == [{}, {}]


def test_another_node_is_another_series(store: Store) -> None:
    """Machines of one class still differ."""
    documents = [a_history_document(at, 10.0) for at in range(4)]
    documents[3]["environment"]["server"]["replicas"][0]["node"] = "node-8"
    add_all(store, documents)
    assert [(each.series.name.node, len(each.series.points)) for each in trends_of(store)] == [
        ("node-7", 3),
        ("node-8", 1),
    ]


def test_results_that_users_stored_are_another_series(store: Store) -> None:
    """They are no step of the operator's."""
    for at, document in enumerate(a_step_up()):
        origin = replace(ORIGIN, source="user" if at >= 20 else "operator")
        store.add(json.dumps(document).encode(), origin, source="x")
    own, of_users = trends_of(store)
    assert (len(own.series.points), own.changes, own.series.name.source) == (20, (), "")
    assert (len(of_users.series.points), of_users.split_after) == (6, None)
    assert trend_fields(of_users)["series"]["source"] == "user"
    shown = io.StringIO()
    print_trend(of_users, Console(file=shown, width=200))
    assert "stored by users: 6 runs" in shown.getvalue()


def test_repeats_are_one_value(store: Store) -> None:
    """Their geometric mean, unless one of them is INVALID."""
    document = a_history_document(0, 10.0)
    again = json.loads(json.dumps(a_history_document(0, 12.1)["scenarios"][0]))
    document["scenarios"].append(again | {"repeat": 2})
    add_all(store, [document])
    (trend,) = trends_of(store)
    assert trend.series.values == [pytest.approx(11.0e6, rel=1e-6)]


@pytest.mark.parametrize(
    ("action", "state"), [(ACCEPT_CHANGE, "accepted"), (REJECT_CHANGE, "rejected")]
)
def test_the_journal_has_the_state_of_a_change(store: Store, action: str, state: str) -> None:
    """It stands with what the interleaved runs showed, and the last entry counts."""
    ids = add_all(store, a_step_up())
    for each in (REJECT_CHANGE, ACCEPT_CHANGE, action):
        store.note(ids[20], JournalRow("2026-02-01T00:00:00.000Z", "ann", each, FINDING.text()))
    (trend,) = trends_of(store)
    (change,) = trend.changes
    assert (change.state, change.finding) == (state, FINDING)
    assert trend_fields(trend)["changes"][0]["finding"]["ratio"] == 1.19


def test_an_accepted_change_is_a_change_point_where_none_is_found(store: Store) -> None:
    """The series begins anew there."""
    ids = add_all(store, a_step_up())
    store.note(
        ids[18], JournalRow("2026-02-01T00:00:00.000Z", "ann", ACCEPT_CHANGE, FINDING.text())
    )
    (trend,) = trends_of(store)
    assert [(each.after.result_id, each.state) for each in trend.changes] == [(ids[18], "accepted")]
    assert trend.analysis.runs == 8


@pytest.mark.parametrize("text", ['{"novelty": 1}', "[" * 5000, *UNREADABLE])
def test_an_entry_that_cannot_be_read_is_no_finding(store: Store, text: str) -> None:
    """Of a newer version, or damaged; the trend counts it."""
    ids = add_all(store, a_step_up())
    store.note(ids[20], JournalRow("2026-02-01T00:00:00.000Z", "ann", ACCEPT_CHANGE, text))
    (trend,) = trends_of(store)
    assert [each.state for each in trend.changes] == ["candidate"]
    assert (trend.unreadable, trend_fields(trend)["unreadableFindings"]) == (1, 1)


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_finding_that_could_not_be_read_is_not_recorded(text: str) -> None:
    """Each field has its type, and the bounds of the ratio are in order."""
    check_annotation(ACCEPT_CHANGE, FINDING.text())
    with pytest.raises(AnnotationError, match="A finding is that of interleaved runs"):
        check_annotation(ACCEPT_CHANGE, text)


def test_a_figure_without_a_history_is_refused(store: Store) -> None:
    """The message lists those that have one."""
    with pytest.raises(SearchError, match=r"'p42' has no history\. The figures are p50, "):
        trends_of(store, "p42")


def test_the_rate_of_a_schedule_has_no_history(store: Store) -> None:
    """It says nothing about the server."""
    document = a_history_document(0, 10.0)
    document["scenarios"][0]["steps"][0]["scheduledQps"] = 90.0
    add_all(store, [document])
    assert trends_of(store, "qps") == []
    assert len(trends_of(store, "p50")) == 1
