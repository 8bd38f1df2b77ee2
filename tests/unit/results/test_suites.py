"""The page of a suite, and suites in the store."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.ab_record import Pair, read_pairs

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


def repeated(model: str, protocol: str, p50: float, **changed: object) -> list[SuiteRun]:
    """Return three runs of a cell, one in each block."""
    factors = enumerate((1.0, 1.002, 1 / 1.002), 1)
    return [
        a_run(model, protocol, p50 * factor, **{"repeat": at, **changed}) for at, factor in factors
    ]


def stars(runs: list[SuiteRun], at: int = 0) -> list[bool]:
    """Return which cells of the first row of a map are the best."""
    return [cell.is_best for cell in suite_view("s", "", runs).maps[at].rows[0].cells]


def test_the_last_axis_makes_the_columns_and_shades_follow_the_figures() -> None:
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
    assert rate.rows[0].cells[1].text == "100"
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


def test_a_star_takes_a_difference_that_repeats_show() -> None:
    """Three repeats beyond margin and scatter; one run shows nothing, and a failed one counts."""
    both = [*repeated("big", "http", 0.02), *repeated("big", "grpc", 0.01)]
    assert [stars(both, at) for at in (0, 1)] == [[False, True], [False, True]]
    assert stars(RUNS[:2]) == [False, False]
    assert stars([run for run in both if (run.repeat, run.name) != (2, "big-grpc")]) == [False] * 2
    within = [*repeated("big", "http", 0.0102), *repeated("big", "grpc", 0.01)]
    assert stars(within) == [False, False]
    scattered = [a_run("big", "http", p50, repeat=at) for at, p50 in enumerate((0.01, 0.02, 0.04))]
    assert stars([*scattered, *repeated("big", "grpc", 0.01)]) == [False, False]


def test_cells_that_are_too_alike_share_the_star() -> None:
    """Each cell without a star is shown to be slower than each cell with one."""
    alike = [*repeated("big", "a", 0.0100001), *repeated("big", "b", 0.01)]
    assert stars([*alike, *repeated("big", "c", 0.02)]) == [True, True, False]
    chain = [*repeated("big", "a", 0.01), *repeated("big", "b", 0.0102)]
    assert stars([*chain, *repeated("big", "c", 0.0104)]) == [False, False, False]
    assert stars([*chain, a_run("big", "c", 0.02)]) == [False, False, False]


@pytest.mark.parametrize(("p50", "has_star"), [(0.02, True), (0.0105, False)])
def test_reused_runs_are_compared_as_those_of_another_execution(
    p50: float, *, has_star: bool
) -> None:
    """They have no neighbour in a block, so the difference counts beyond seven standard errors."""
    scatter = (1.0, 1.015, 1 / 1.015)
    reused = [
        a_run("big", "http", p50 * factor, repeat=at, state="R")
        for at, factor in enumerate(scatter)
    ]
    assert stars([*reused, *repeated("big", "grpc", 0.01)]) == [False, has_star]


def test_equal_cells_are_ordered_in_at_most_one_of_a_hundred_recorded_series() -> None:
    """As whole suites of 12 to 24 repeats, and as many of three; planted delays are found."""

    def rows(pair: Pair, size: int) -> Iterator[list[bool]]:
        for start in range(0, len(pair.a) - size + 1, size):
            runs = [
                a_run("m", name, 1.0, repeat=at, figures={"s": figures})
                for name, some in (("a", pair.a), ("b", pair.b))
                for at, run in enumerate(some[start : start + size])
                for figures in ({"qps": run["qps"], "p50": run["p50"] / 1e9},)
            ]
            yield from (stars(runs, at) for at in (0, 1))

    pairs = read_pairs()
    equal = [pair for pair in pairs if not pair.is_planted]
    planted = [pair for pair in pairs if pair.is_planted]
    whole = [row for pair in equal for row in rows(pair, len(pair.a))]
    short = [row for pair in equal for row in rows(pair, 3)]
    assert len(whole) >= 80
    assert len(short) >= 300
    assert sum(map(any, whole)) <= len(whole) / 100
    assert sum(map(any, short)) <= len(short) / 100
    found = [row for pair in planted for row in rows(pair, len(pair.a))]
    assert [True, False] in found
    assert [False, True] not in found
    assert sum(map(any, found)) >= 0.8 * len(found)


def test_a_row_of_several_engines_has_a_best_cell_only_if_they_may_be_ranked() -> None:
    """The reason is on the page; rows of one engine keep their star."""
    runs = [
        *repeated("big", "http", 0.02, engine="onnxruntime"),
        *repeated("big", "grpc", 0.01, engine="openvino"),
        *repeated("small", "http", 0.002, engine="onnxruntime"),
        *repeated("small", "grpc", 0.001, engine="onnxruntime"),
    ]

    def ranked(caveat: str) -> tuple[list[bool], str]:
        latency = suite_view("s", "", runs, caveat=lambda _, __: caveat).maps[0]
        return [any(cell.is_best for cell in row.cells) for row in latency.rows], latency.note

    assert ranked("") == ([True, True], "")
    assert ranked("has outputs that are unknown.") == ([False, True], NOT_RANKED)
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
    assert "★ marks the best of a row, if at least 3 repeats" in page


def test_a_suite_without_figures_says_so(tmp_path: Path) -> None:
    """Before its first run is over."""
    waiting = [a_run("big", "http", None, state=".", reason="", link="")]
    assert "No run has figures yet." in render_suite(suite_view("s", "", waiting))
