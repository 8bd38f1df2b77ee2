"""The page of a suite, and suites in the store."""

from pathlib import Path

from inferometer_api.ranking import NOT_RANKED
from inferometer_api.suite.status import GateStatus
from inferometer_results.quantity import DASH
from inferometer_results.suites.page import render_suite
from inferometer_results.suites.view import SuiteRun, suite_view


def a_run(model: str, protocol: str, p50: float | None, **changed: object) -> SuiteRun:
    """Return a run of a cell with a median latency in seconds."""
    fields: dict[str, object] = {
        "name": f"{model}-{protocol}",
        "values": (("model", model), ("protocol", protocol)),
        "system": "",
        "repeat": 1,
        "role": "cell",
        "state": "F" if p50 is None else "V",
        "reason": "No <b>server</b>." if p50 is None else "",
        "figures": {} if p50 is None else {"latency": {"p50": p50, "qps": 1 / p50}},
        "link": f"{model}-{protocol}/report.html",
        **changed,
    }
    return SuiteRun(**fields)  # type: ignore[arg-type]  # fields of the class


RUNS = [
    a_run("big", "http", 0.02),
    a_run("big", "grpc", 0.01),
    a_run("small", "http", 0.002),
    a_run("small", "grpc", None),
]


def test_the_last_axis_makes_the_columns_and_each_row_has_a_best_cell() -> None:
    """Shades follow the logarithm from the worst to the best of the map."""
    view = suite_view("protocols", "now", RUNS)
    latency, rate = view.maps
    assert (latency.heading, latency.columns) == ("median latency", ("http", "grpc"))
    assert [row.label for row in latency.rows] == ["big", "small"]
    assert [[cell.text for cell in row.cells] for row in latency.rows] == [
        ["20.0 ms", "10.0 ms"],
        ["2.00 ms", DASH],
    ]
    assert [[cell.level for cell in row.cells] for row in latency.rows] == [[1, 2], [5, 0]]
    assert [[cell.is_best for cell in row.cells] for row in latency.rows] == [
        [False, True],
        [False, False],
    ]
    assert rate.rows[0].cells[1].is_best
    assert (view.done, view.planned) == (4, 4)


def test_included_cells_are_rows_of_their_own() -> None:
    """They stand in the column of their value of the last axis, or of the template."""
    runs = [
        a_run("new", "", 0.03, values=(("cell", "new"),)),
        a_run("other", "", 0.04, values=(("cell", "other"), ("model", "big"))),
        *RUNS,
        a_run("tuned", "", 0.05, values=(("cell", "tuned"), ("protocol", "grpc"))),
    ]
    latency = suite_view("s", "", runs).maps[0]
    assert latency.columns == ("the template", "http", "grpc")
    assert [(row.label, [cell.text for cell in row.cells]) for row in latency.rows] == [
        ("new", ["30.0 ms", DASH, DASH]),
        ("other, big", ["40.0 ms", DASH, DASH]),
        ("big", [DASH, "20.0 ms", "10.0 ms"]),
        ("small", [DASH, "2.00 ms", DASH]),
        ("tuned", [DASH, DASH, "50.0 ms"]),
    ]


def test_figures_that_look_alike_share_the_star_or_have_none() -> None:
    """A difference that is not shown is none."""

    def bests(*p50: float) -> list[bool]:
        runs = [a_run("big", f"p{at}", value) for at, value in enumerate(p50)]
        return [cell.is_best for cell in suite_view("s", "", runs).maps[0].rows[0].cells]

    assert bests(0.0200001, 0.02) == [False, False]
    assert bests(0.01, 0.02, 0.0100001) == [True, False, True]


def test_a_row_of_several_engines_has_a_best_cell_only_if_they_may_be_ranked() -> None:
    """The reason is on the page; rows of one engine keep their star."""
    runs = [
        a_run("big", "http", 0.02, engine="onnxruntime"),
        a_run("big", "grpc", 0.01, engine="openvino"),
        a_run("small", "http", 0.002, engine="onnxruntime"),
        a_run("small", "grpc", 0.001, engine="onnxruntime"),
    ]

    def stars(caveat: str) -> tuple[list[bool], str]:
        latency = suite_view("s", "", runs, caveat=lambda _, __: caveat).maps[0]
        return [any(cell.is_best for cell in row.cells) for row in latency.rows], latency.note

    assert stars("") == ([True, True], "")
    assert stars("has outputs that are unknown.") == ([False, True], NOT_RANKED)
    assert NOT_RANKED in render_suite(suite_view("s", "", runs))


def test_repeats_are_a_geometric_mean_over_valid_runs() -> None:
    """INVALID ones do not count, and the cell says how many did."""
    runs = [
        a_run("big", "http", 0.01),
        a_run("big", "http", 0.04, repeat=2),
        a_run("big", "http", 9.0, repeat=3, state="I"),
        a_run("big", "http", 7.0, role="opening"),
    ]
    (cell,) = suite_view("s", "", runs).maps[0].rows[0].cells
    assert (cell.text, cell.note) == ("20.0 ms", "2 of 3 runs")


def test_the_page_shows_failed_cells_and_interprets_no_text() -> None:
    """Reasons are text; the policy allows no script; the gate and its reasons are there."""
    gate = GateStatus(outcome="CouldNotRun", armed=False, reasons=["<i>x</i> failed."])
    page = render_suite(suite_view("protocols", "now", RUNS, gate=gate))
    assert "4 of 4 runs are over: 3 VALID, 1 failed." in page
    assert "No &lt;b&gt;server&lt;/b&gt;." in page
    assert "&lt;i&gt;x&lt;/i&gt; failed." in page
    assert "<b>CouldNotRun (advisory)</b>" in page
    assert "script-src" not in page
    assert "<script" not in page
    assert "default-src &#39;none&#39;" in page
    assert 'href="big-grpc/report.html"' in page
    assert "★" in page


def test_a_suite_without_figures_says_so(tmp_path: Path) -> None:
    """Before its first run is over."""
    waiting = [a_run("big", "http", None, state=".", reason="", link="")]
    assert "No run has figures yet." in render_suite(suite_view("s", "", waiting))
