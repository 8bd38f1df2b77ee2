"""Pages of measured nodes: intervals, equal nodes, outliers, and drift."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.nodes.headlines import shown_headlines
from inferometer_api.results.reading import UnreadableDocumentError
from inferometer_results.nodes.drift_chart import drift_charts
from inferometer_results.nodes.view import (
    drift_rows,
    figure_rows,
    histories,
    listed_nodes,
    shown_cautions,
)
from inferometer_results.quantity import DASH
from inferometer_results.report.chart import Line, ReferenceLine, Whiskers
from inferometer_results.service.access.rules import AccessRules
from inferometer_results.service.api import machine_schema
from inferometer_results.service.app import create_app
from inferometer_results.store.node_characteristics import (
    keep_characteristics,
    keep_measurement,
    visible_characteristics,
)
from inferometer_results.store.store import Store
from support.node_documents import a_figure, a_node_document
from support.stored_results import ORIGIN


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return an empty store."""
    with Store(str(tmp_path / "results.db")) as found:
        yield found


def _equal_nodes(slow: float) -> list[NodeCharacteristics]:
    """Return five nodes of one kind, the last with this memory bandwidth, and one of another."""
    rates = (2.0e10, 2.01e10, 1.99e10, 2.005e10, slow)
    return [
        *(a_node_document(f"node-{at}", triad=rate) for at, rate in enumerate(rates)),
        a_node_document("other", triad=5e10, cpu_model="Another CPU"),
    ]


@pytest.mark.parametrize(("slow", "outliers"), [(1.2e10, ["node-4"]), (1.98e10, [])])
def test_a_node_stands_apart_from_equal_nodes_alone(slow: float, outliers: list[str]) -> None:
    """A node with another CPU is not compared with them, and a small difference is none."""
    listed = listed_nodes(histories(_equal_nodes(slow)))
    assert [each.node for each in listed if each.outliers] == outliers
    found = {each.node: each for each in listed}
    assert found["other"].values["memory"] == "50.0 GB/s"


def test_a_figure_has_changed_if_its_intervals_are_apart() -> None:
    """8 % less is within the intervals of 5 %, 20 % less is not; 20 % less at once is drift."""
    for second, drifted in ((1.84e10, False), (1.6e10, True)):
        found = histories([a_node_document(day=2, triad=second), a_node_document(day=1)])
        rows = {row.cells[:2]: row for row in figure_rows("node-1", found)}
        row = rows["stream/triad", "2 threads"]
        assert (row.has_drifted, row.drift) == (drifted, f"{second / 2e8 - 100:+.1f} %")
        assert not rows["latency/load", "256 MiB"].has_drifted


def test_what_differed_before_is_no_change() -> None:
    """Two values that are apart are one, unless earlier ones without cautions were as far apart."""
    values = [1.8e10, 3e10, 1.8e10]
    history = [a_node_document(day=day, triad=each) for day, each in enumerate(values, start=1)]
    for earlier, drifted in ((history, False), (history[2:], True)):
        found = histories([*earlier, a_node_document(day=9, triad=2.9e10)])
        rows = {row.cells[:2]: row for row in figure_rows("node-1", found)}
        row = rows["stream/triad", "2 threads"]
        assert (row.has_drifted, row.drift) == (drifted, "+61.1 %")
    history[1] = a_node_document(day=2, triad=3e10, cautions=["Other processes took 40 %."])
    found = histories([*history, a_node_document(day=9, triad=2.9e10)])
    (listed,) = listed_nodes(found)
    assert listed.drifted == ("memory bandwidth (triad, all CPUs) +61.1 %",)


def _only(document: NodeCharacteristics, name: str) -> NodeCharacteristics:
    figures = [each for each in document.figures if each.name == name]
    return document.model_copy(update={"figures": figures})


def test_a_measurement_of_some_figures_hides_no_others() -> None:
    """Each figure is the newest of its own, next to the one before, also among equal nodes."""
    slow = a_node_document(day=3, triad=1e10)
    documents = [a_node_document(day=1), _only(a_node_document(day=2), "gemm"), slow]
    (listed,) = listed_nodes(histories(documents))
    assert listed.drifted == ("memory bandwidth (triad, all CPUs) -50.0 %",)
    documents.append(_only(a_node_document(day=4), "gemm"))
    (listed,) = listed_nodes(histories(documents))
    assert listed.values["memory"] == "10.0 GB/s"
    assert listed.measured.startswith("2026-01-04")
    assert listed.drifted == ("memory bandwidth (triad, all CPUs) -50.0 %",)
    others = [a_node_document(f"other-{at}") for at in range(2)]
    found = histories([*documents, *others])
    rows = {row.cells[:2]: row for row in figure_rows("node-1", found)}
    assert len(rows) == len(slow.figures)
    assert rows["stream/triad", "2 threads"].against_kind == "-50.0 %"
    rows = {row.cells[:2]: row for row in figure_rows("other-0", found)}
    assert rows["stream/triad", "2 threads"].against_kind == "+0.0 %"


def test_each_figure_has_the_date_and_the_cautions_of_its_own_measurement(store: Store) -> None:
    """A later measurement of another figure hides neither, on no page and in no answer."""
    busy = a_node_document(day=1).model_copy(update={"cautions": ["Other processes ran."]})
    later = _only(a_node_document(day=2), "gemm").model_copy(update={"cautions": ["It was hot."]})
    found = histories([busy, later])
    (listed,) = listed_nodes(found)
    assert listed.earlier["memory"] == busy.started_at
    assert "fp32" not in listed.earlier
    assert listed.cautions == ("It was hot.", "Other processes ran.")
    measured = {row.cells[0]: row.measured for row in figure_rows("node-1", found)}
    assert (measured["gemm"], measured["steal"]) == (later.started_at, busy.started_at)
    assert shown_cautions(found["node-1"]) == [
        (later.started_at, "It was hot."),
        (busy.started_at, "Other processes ran."),
    ]
    for document in (busy, later):
        keep_characteristics(store, document)
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
    with TestClient(app, base_url="http://127.0.0.1:8090") as client:
        listing = client.get("/measured-nodes").text
        assert "20.0 GB/s <small>2026-01-01</small>" in listing
        assert "<small>2026-01-02, 2 cautions</small>" in listing
        node = client.get("/measured-node", params={"name": "node-1"}).text
        assert "20.0 GB/s <small>2026-01-01 00:00</small>" in node
        assert "110 GFLOP/s</td>" in node
        assert "Caution about the figures of 2026-01-01 00:00: Other processes ran." in node
        assert "Caution about the figures of 2026-01-02 00:00: It was hot." in node
        rows = {row["headline"]: row for row in client.get("/api/v1/measured-nodes").json()}
        memory = rows["memory bandwidth (triad, all CPUs)"]
        assert (memory["started_at"], memory["cautions"]) == (busy.started_at, *busy.cautions)
        product = rows["matrix product in FP32"]
        assert (product["started_at"], product["cautions"]) == (later.started_at, *later.cautions)


def test_cautions_of_a_measurement_whose_figures_are_superseded_are_not_shown() -> None:
    """All its figures were measured again since."""
    busy = a_node_document(day=1).model_copy(update={"cautions": ["Other processes ran."]})
    found = histories([busy, a_node_document(day=2)])
    assert shown_cautions(found["node-1"]) == []
    (listed,) = listed_nodes(found)
    assert (listed.cautions, listed.earlier) == ((), {})
    newest, before = drift_rows(found["node-1"])
    assert (newest.cautions, before.cautions) == ((), ("Other processes ran.",))


def test_figures_of_another_machine_of_the_same_name_do_not_stay() -> None:
    """A node that got another CPU has only the figures that were measured since."""
    replaced = _only(a_node_document(day=2, cpu_model="Another CPU"), "gemm")
    (listed,) = listed_nodes(histories([a_node_document(day=1), replaced]))
    assert listed.values["memory"] == DASH
    assert listed.drifted == ()


def test_a_figure_of_other_code_is_another_figure() -> None:
    """Bandwidth by machine code is shown as such, and has not drifted from that by NumPy."""
    documents = [
        a_node_document(day=day).model_copy(
            update={"figures": [a_figure("stream/triad", "bytes/s", rate, threads=1, loops=code)]}
        )
        for day, rate, code in ((2, 3e10, "AVX2"), (1, 2.4e10, "NumPy"))
    ]
    rows = figure_rows("node-1", histories(documents))
    assert [row.cells[1] for row in rows] == ["1 thread AVX2", "1 thread NumPy"]
    assert not any(row.has_drifted for row in rows)
    (listed,) = listed_nodes(histories(documents))
    assert listed.values["memory"] == "30.0 GB/s", "the headline is the last measurement's"


def test_the_explorer_shows_each_node_and_its_kind(store: Store) -> None:
    """The list, the kinds, a node with its figures and history, and clear refusals."""
    for document in [*_equal_nodes(1.2e10), a_node_document("node-0", day=2, triad=1.5e10)]:
        keep_characteristics(store, document)
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
    with TestClient(app, base_url="http://127.0.0.1:8090") as client:
        assert "/measured-nodes" in client.get("/nodes").text
        page = client.get("/measured-nodes").text
        assert page.count('<tr class="outlier">') == 2, "node-0 of the second day, and node-4"
        assert "memory bandwidth (triad, all CPUs) -25.0 %" in page
        kind = client.get(
            "/measured-nodes", params={"kind": "Another CPU, 2 CPUs, 32 MiB cache"}
        ).text
        assert "node-1" not in kind
        node = client.get("/measured-node", params={"name": "node-0"}).text
        assert "15.0 GB/s" in node
        assert "changed" in node
        assert "2026-01-01 00:00" in node
        assert "Memory bandwidth (triad, all CPUs) over time" in node
        assert "<svg" in node
        assert 'href="/api/v1/measured-nodes?format=csv"' in page
        assert 'href="/api/v1/measured-node?name=node-0&amp;format=csv"' in node
        for path, model in (
            ("measured-nodes", machine_schema.MeasuredNodeRow),
            (
                "measured-nodes?kind=Another CPU, 2 CPUs, 32 MiB cache",
                machine_schema.MeasuredNodeRow,
            ),
            ("measured-node?name=node-0", machine_schema.MeasuredFigureRow),
        ):
            rows = client.get(f"/api/v1/{path}").json()
            assert rows
            for row in rows:
                model.model_validate(row, strict=True)
        assert {row["started_at"][:10] for row in rows} == {"2026-01-01", "2026-01-02"}
        for path in ("measured-nodes?format=csv", "measured-node?name=node-0&format=csv"):
            answer = client.get(f"/api/v1/{path}")
            assert len(answer.text.splitlines()) > 1
            assert answer.headers["content-type"].startswith("text/csv")
        assert client.get("/api/v1/measured-node?name=none").status_code == 400
        assert client.get("/measured-node?name=none").status_code == 400
        assert client.get("/measured-nodes?kind=none").status_code == 400


def test_a_measurement_that_is_sent_again_is_kept_once(store: Store) -> None:
    """Of another namespace it is another one; anything else is refused with its place."""
    content = a_node_document().model_dump_json(exclude_none=True).encode()
    first = keep_measurement(store, content, ORIGIN)
    again = keep_measurement(store, content, ORIGIN)
    assert (first.is_new, again.is_new, first.id == again.id) == (True, False, True)
    keep_measurement(store, content, replace(ORIGIN, namespace_uid="another"))
    assert len(visible_characteristics(store)) == 2
    with pytest.raises(UnreadableDocumentError, match="no measurement of a node: machine"):
        keep_measurement(store, content.replace(b"machine", b"engine"), ORIGIN)


def test_a_measurement_of_a_newer_major_version_is_refused(store: Store) -> None:
    """One that an import brought is not read; a newer minor version is kept and read."""
    newer = a_node_document(schema_version="1.9", day=2)
    keep_measurement(store, newer.model_dump_json(exclude_none=True).encode(), ORIGIN)
    newer = a_node_document(schema_version="2.0")
    with pytest.raises(UnreadableDocumentError, match=r"schema version 2\.0, and this program"):
        keep_measurement(store, newer.model_dump_json(exclude_none=True).encode(), ORIGIN)
    keep_characteristics(store, newer)
    assert [each.schema_version for _, each in visible_characteristics(store)] == ["1.9"]


def test_nodes_of_two_clusters_with_one_name_are_two_nodes(store: Store) -> None:
    """Each has its own history, and its cluster in its name."""
    for cluster, rate, day in (("blue", 2e10, 1), ("green", 8e10, 2)):
        document = a_node_document("worker-1", day=day, triad=rate, cpu_model=cluster)
        content = document.model_dump_json(exclude_none=True).encode()
        keep_measurement(store, content, replace(ORIGIN, cluster_uid=cluster))
    keep_characteristics(store, a_node_document("laptop"))
    found = visible_characteristics(store)
    listed = listed_nodes(histories([each for _, each in found], [each for each, _ in found]))
    assert [(each.node, each.values["memory"], each.drifted) for each in listed] == [
        ("laptop", "20.0 GB/s", ()),
        ("worker-1 (blue)", "20.0 GB/s", ()),
        ("worker-1 (green)", "80.0 GB/s", ()),
    ]
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
    with TestClient(app, base_url="http://127.0.0.1:8090") as client:
        page = client.get("/measured-node", params={"name": "worker-1 (green)"}).text
        assert "80.0 GB/s" in page
        assert "20.0 GB/s" not in page


@pytest.mark.parametrize("nothing", [0.0, 1e-9, 1.0000000000000005e-09])
def test_a_node_without_steal_shows_zero_and_small_shares_are_equal(nothing: float) -> None:
    """0.0001 % next to nothing is no outlier and no drift; 5 % is both.

    Documents of earlier versions have a very small share for nothing.
    """

    def stealing(node: str, share: float, day: int = 1) -> NodeCharacteristics:
        return a_node_document(node, day=day, figures=[a_figure("steal", "share", share)])

    idle = [stealing(f"node-{at}", nothing) for at in range(4)]
    for share, words in ((1e-6, "0.000100 %"), (0.05, "5.00 %")):
        found = histories([*idle, stealing("node-4", nothing), stealing("node-4", share, day=2)])
        listed = {each.node: each for each in listed_nodes(found)}
        assert listed["node-0"].values["steal"] == "0 %"
        assert listed["node-4"].values["steal"] == words
        is_large = share > 0.001
        assert bool(listed["node-4"].outliers) == is_large
        assert bool(listed["node-4"].drifted) == is_large


def _history(*rates: float) -> list[NodeCharacteristics]:
    return [a_node_document("node-0", day=day, triad=rate) for day, rate in enumerate(rates, 1)]


def test_each_headline_of_several_measurements_has_a_chart() -> None:
    """With its intervals, the median of equal nodes, and the points that have changed."""
    documents = [*_history(2e10, 1.5e10, 1.5e10), *_equal_nodes(2e10)[1:]]
    charts = {each.key: each for each in drift_charts("node-0", histories(documents))}
    shown = shown_headlines(documents)
    assert set(charts) == {f"drift-{name}" for name in shown if name != "disk"}
    memory = charts["drift-memory"]
    own, changed = (each for each in memory.marks if isinstance(each, Line))
    assert own.y.tolist() == [20.0, 15.0, 15.0]
    assert changed.values == ("2026-01-02 00:00: 15.0 GB/s, changed", "")
    (strokes,) = (each for each in memory.marks if isinstance(each, Whiskers))
    assert strokes.low.tolist() == [19.0, 14.25, 14.25]
    (line,) = (each for each in memory.marks if isinstance(each, ReferenceLine))
    assert line.value == pytest.approx(20.0)


@pytest.mark.parametrize(("newest", "tone"), [(1.2e10, "bound"), (1.98e10, "guide")])
def test_the_chart_of_an_outlier_says_so(newest: float, tone: str) -> None:
    """Its title, and the line of the equal nodes in red."""
    documents = [*_history(2e10, newest), *_equal_nodes(2e10)[1:]]
    memory = next(drift_charts("node-0", histories(documents)))
    (line,) = (each for each in memory.marks if isinstance(each, ReferenceLine))
    assert line.tone == tone
    assert memory.title.endswith("an outlier") is (tone == "bound")


def test_one_measurement_is_no_chart() -> None:
    """Nor does the only node of its kind have a line across."""
    assert list(drift_charts("node-0", histories(_history(2e10)))) == []
    charts = drift_charts("node-0", histories(_history(2e10, 2e10)))
    assert not [each for chart in charts for each in chart.marks if isinstance(each, ReferenceLine)]
