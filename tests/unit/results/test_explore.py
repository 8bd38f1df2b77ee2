"""What the explorer computes of many results: fronts, scaling, outliers, costs, latencies."""

import json
from collections.abc import Mapping
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # has no types
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.plan.cluster_objects import INSTANCE_TYPE_LABEL
from inferometer_api.results.reading import read_result
from inferometer_results.compare.comparison import compare
from inferometer_results.explore.batch_scaling import batch_scaling
from inferometer_results.explore.charts import front_chart, numbered_changes, trend_chart
from inferometer_results.explore.eligibility import why_not_ranked
from inferometer_results.explore.figure import FIGURES
from inferometer_results.explore.histogram_sum import merged_percentiles
from inferometer_results.explore.model import model_view
from inferometer_results.explore.outliers import compared_nodes, node_figures
from inferometer_results.explore.pareto import pareto_front
from inferometer_results.explore.prices import (
    PricedNodes,
    PriceListError,
    nodes_of,
    read_prices,
)
from inferometer_results.explore.trend import trend
from inferometer_results.history.trend import ChangeFinding
from inferometer_results.report import render_report
from inferometer_results.report.chart import Line, ReferenceLine
from inferometer_results.report.histogram import decode
from inferometer_results.store.summaries import differing_fields
from support.stored_results import LOCAL, a_document

_PRICES = """
currency: EUR
nodes:
- {instanceType: c5.xlarge, perHour: 0.18}
- {node: bench-*, gpu: "*A100*", perHour: "3.6"}
- {node: bench-*, perHour: 0.36}
"""
_SECOND = 10**9

Times = st.lists(st.integers(1_000, 60 * _SECOND), min_size=1, max_size=50)


@given(st.lists(Times, min_size=1, max_size=4))
def test_merged_percentiles_are_those_of_all_values(parts: list[list[int]]) -> None:
    """As one histogram of every value has them; an average of percentiles would not."""
    whole = HdrHistogram(1, 3600 * _SECOND, 3)
    encoded = []
    for part in parts:
        one = HdrHistogram(1, 3600 * _SECOND, 3)
        for value in part:
            one.record_value(value)
            whole.record_value(value)
        encoded.append(one.encode())
    found = merged_percentiles(encoded, (50.0, 90.0, 99.0))
    assert found is not None
    assert found[0] == sum(map(len, parts))
    single = decode(whole.encode())
    assert single is not None
    assert found[1] == single.at_shares(np.array([0.5, 0.9, 0.99])).tolist()


def test_a_damaged_histogram_leaves_no_sum() -> None:
    """A sum without it would leave out queries."""
    one = HdrHistogram(1, 3600 * _SECOND, 3)
    one.record_value(5)
    assert merged_percentiles([one.encode(), "x"], (50.0,)) is None
    assert merged_percentiles([], (50.0,)) is None


_POINTS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=12)


@given(_POINTS)
def test_a_point_is_on_the_front_if_no_other_one_beats_it(points: list[tuple[int, int]]) -> None:
    """More throughput and less latency; of equal points one stands for all."""

    def beats(one: tuple[int, int], other: tuple[int, int]) -> bool:
        return one[0] >= other[0] and one[1] <= other[1] and one != other

    front = [points[index] for index in pareto_front(points)]
    best = {point for point in points if not any(beats(other, point) for other in points)}
    assert front == sorted(best)


@pytest.mark.parametrize(
    ("rates", "most", "knee"),
    [
        # Li et al., XSP, table VI: their rule gives 64, and they report 256.
        ({16: 100.0, 32: 150.0, 64: 162.3, 128: 168.1, 256: 174.7}, 256, 64),
        ({1: 100.0, 2: 190.0, 4: 300.0}, 4, None),
        ({1: 100.0, 2: 105.0}, 2, 1),
        ({1: 100.0, 3: 90.0}, 1, None),
        ({4: 7.0, 1: 7.0}, 1, None),
    ],
)
def test_the_optimal_batch_has_two_rules(
    rates: Mapping[int, float], most: int, knee: int | None
) -> None:
    """The most throughput, and the smallest size whose doubling gains no more than 5 %."""
    found = batch_scaling(rates)
    assert found is not None
    assert (found.most, found.knee) == (most, knee)
    assert batch_scaling({8: 1.0}) is None


def test_an_outlier_is_far_from_the_other_nodes() -> None:
    """By 3.5 deviations and by 3 %; its median counts, so that one odd result is none."""
    values = {
        "a": [10.0],
        "b": [10.1],
        "c": [9.9],
        "d": [13.0, 13.1, 90.0],
        "e": [10.0, 30.0, 10.0],
    }
    found = {each.node: each for each in node_figures(values)}
    assert [node for node, each in found.items() if each.is_outlier] == ["d"]
    assert list(found) == ["c", "a", "e", "b", "d"]
    assert found["d"].ratio == pytest.approx(1.31, rel=0.01)
    close = node_figures({"a": [1.0], "b": [1.0], "c": [1.0], "d": [1.02]})
    assert not any(each.is_outlier for each in close)
    few = node_figures({"a": [1.0], "b": [1.0], "c": [9.0]})
    assert [each.deviations for each in few] == [None, None, None]


@pytest.mark.parametrize(
    ("nodes", "per_hour"),
    [
        (PricedNodes(("x",), labels={INSTANCE_TYPE_LABEL: "c5.xlarge"}), 0.18),
        (PricedNodes(("bench-1",), gpu="NVIDIA A100"), 3.6),
        (PricedNodes(("bench-1", "bench-2")), 0.72),
        (PricedNodes(("bench-1", "y")), None),
        (PricedNodes(), None),
    ],
)
def test_the_first_entry_that_matches_is_the_price(
    nodes: PricedNodes, per_hour: float | None
) -> None:
    """By instance type, labels, node, CPU or GPU; several nodes cost their sum."""
    prices = read_prices(_PRICES, "prices.yaml")
    assert prices.per_hour(nodes) == per_hour
    # 0.18 an hour at 50 a second: a million takes 20,000 s.
    expected = None if per_hour is None else pytest.approx(per_hour * 20_000 / 3600)
    assert prices.per_million(nodes, 50.0) == expected
    assert prices.per_million(nodes, 0.0) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "p.yaml is not a price list: line 1, column 2: expected the node content"),
        ("[" * 5000, "p.yaml is not a price list: lists and mappings are nested too deeply"),
        ("2026-99-99", "p.yaml is not a price list: the file is no mapping"),
        ("currency: EUR\ncurrency: USD", 'line 2, column 1: the key "currency" already appears'),
        ("nodes: [{perHour: 1, perHour: 2}]", 'the key "perHour" already appears in line 1'),
        ("3", "p.yaml is not a price list: the file is no mapping"),
        ("currency: EUR\nnodes: [{perHour: -1}]", r"nodes\[0\].perHour: input should be greater"),
        (
            "currency: EUR\nnodes: [{perHour: true}]",
            r"nodes\[0\].perHour: input should be a number",
        ),
        ("currency: EUR\nnodes: [{perHuor: 1}]", r"nodes\[0\]"),
        ("{currency: EUR, nodes: [{perHour: 1}]}", r"nodes\[0\]: say which nodes it is for; node"),
        ("{currency: EUR, nodes: [{perHour: 1, labels: {}}]}", r"nodes\[0\]: say which nodes"),
    ],
)
def test_a_price_list_that_cannot_be_understood_is_refused(text: str, message: str) -> None:
    """With the file and the place."""
    with pytest.raises(PriceListError, match=message):
        read_prices(text, "p.yaml")


@pytest.mark.parametrize(
    ("pattern", "name", "is_priced"),
    [
        ("rack[1]-*", "rack[1]-a", True),
        ("rack[1]-*", "rack1-a", False),
        ("node-?", "node-?", True),
        ("node-?", "node-1", False),
        ("*", "", True),
    ],
)
def test_only_the_star_is_a_pattern(pattern: str, name: str, *, is_priced: bool) -> None:
    """Brackets and question marks stand for themselves; a star also for no character."""
    prices = read_prices(f"{{currency: EUR, nodes: [{{node: '{pattern}', perHour: 1}}]}}", "p")
    assert (prices.per_hour(PricedNodes((name,))) is not None) is is_priced


def test_reports_and_comparisons_have_the_cost_where_there_is_a_price() -> None:
    """Of a million inferences; it is the inverse of the rate, and a gate leaves it alone."""
    document = read_result(a_document(1, LOCAL), source="x").document
    prices = read_prices("{currency: EUR, nodes: [{node: vm, perHour: 3.6}]}", "p")
    assert "Cost of a million inferences" in render_report(document, prices)
    assert "Cost of a million inferences" not in render_report(document)
    for pair in compare(document, document, prices=prices).pairs:
        cost = pair.figures[-1]
        rates = [each for each in pair.figures if each.name in {"queries/s", "peak queries/s"}]
        assert cost.name == "EUR/1M"
        assert rates
        if cost.before.estimate is None or rates[-1].before.estimate is None:
            assert rates[-1].before.why_unknown == cost.before.why_unknown == "no peak was found"
            continue
        samples = rates[-1].before.estimate.value * pair.before.batch_size
        assert cost.before.estimate.value == pytest.approx(1e6 / 1000 / samples)
        assert not cost.is_gated
    assert all(
        each.name != "EUR/1M" for p in compare(document, document).pairs for each in p.figures
    )


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_search_has_one_cost(repeats: int) -> None:
    """Of its deciding probe, whose rate the list and the model have; as sure as the peak is."""
    raw: dict[str, Any] = json.loads(a_document(1, LOCAL))
    raw["scenarios"] = [each for each in raw["scenarios"] if each["name"] == "capacity"][:repeats]
    for each in raw["scenarios"]:
        each["peak"] |= {"qps": 900.0, "lowQps": 855.0, "highQps": 990.0, "confidence": 0.95}
        for step in each["steps"]:
            step["achievedSamplesPerSecond"] = 1000.0
    document = read_result(json.dumps(raw), source="x").document
    prices = read_prices("{currency: EUR, nodes: [{node: vm, perHour: 3.6}]}", "p")
    (pair,) = compare(document, document, prices=prices).pairs
    cost = pair.figures[-1].before.estimate
    assert cost is not None
    assert cost.value == pytest.approx(prices.per_million(nodes_of(document), 1000.0))
    if repeats == 1:
        assert cost.low == pytest.approx(1 / 1.1)
        assert cost.high == pytest.approx(1 / 0.95)


def _row(number: int, value: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": str(number),
        "started_at": f"2026-01-{number:02}T00:00:00.000Z",
        "verdict": "VALID",
        "reasons": "",
        "retracted": None,
        "kind": "server",
        "is_profiled": False,
        "source": "run",
        "outcome": "Complete",
        "key": "k",
        "inferometer_version": "1",
        "p50_nanoseconds": value,
    } | fields


def test_a_trend_counts_valid_results_and_names_what_changed() -> None:
    """Repeats are one point; what is INVALID stays visible, and is no part of the series."""
    rows = [
        _row(1, 100),
        _row(2, 100),
        _row(2, 400),
        _row(3, 7, verdict="INVALID", reasons="DispatchLag"),
        _row(4, 100, key="other", inferometer_version="2"),
    ]
    conditions = {"k": {"engine": "a", "model": "m"}, "other": {"engine": "b", "model": "m"}}
    conditions["other"] |= {"pipeline": "Server"}
    labels = {"4": [{"origin": "tag", "name": "release", "value": ""}]}
    found = trend(rows[::-1], FIGURES["p50"], labels, conditions)
    assert [each.value for each in found.counted] == [100.0, pytest.approx(200.0), 100.0]
    assert [each.excluded for each in found.points] == ["", "", "INVALID: DispatchLag", ""]
    last = found.points[-1]
    assert last.changed == (
        "engine: a to b",
        "inferometer: 1 to 2",
        "pipeline: Client to Server",
    )
    assert differing_fields(["k", "other"], conditions)["pipeline"] == ["Client", "Server"]
    assert (last.change, last.tags) == (None, ("release",))


def test_a_trend_marks_the_change_points_of_the_series() -> None:
    """As `results trend` finds them, among the results that count."""
    values = [100, 101, 99] * 5 + [120, 121, 119] * 4
    rows = [_row(number, value) for number, value in enumerate(values, 1)]
    rows.insert(2, _row(99, 5, retracted="a backup"))
    found = trend(rows[::-1], FIGURES["p50"], {}, {})
    (changed,) = [each for each in found.points if each.change is not None]
    assert changed.row["id"] == "16"
    assert changed.change is not None
    assert changed.change.ratio == pytest.approx(1.2, rel=0.01)
    (listed,) = numbered_changes(found)
    assert listed[2].startswith("the level changes by +20.0 %")
    chart = trend_chart(found, FIGURES["p50"])
    assert chart is not None
    assert chart.summary == "27 results that count, from 99.0 ns to 121 ns."
    assert [each.tone for each in chart.marks if isinstance(each, ReferenceLine)] == ["bound"]
    assert listed[2].endswith("a candidate")
    finding = ChangeFinding("latency", "", "p50", 1.19, 1.17, 1.21, 12)
    judged = trend(rows[::-1], FIGURES["p50"], {}, {}, {"16": ("accepted", finding)})
    (listed,) = numbered_changes(judged)
    assert listed[2].endswith("accepted: 12 interleaved rounds show +19.0 % (+17.0 % to +21.0 %)")


def test_a_change_of_the_level_keeps_its_mark_among_new_labels() -> None:
    """Each run has a label of its own, and the page says how many of them have no mark."""
    values = [100, 101, 99] * 5 + [120, 121, 119] * 4
    rows = [_row(number, value) for number, value in enumerate(values, 1)]
    labels = {
        row["id"]: [{"origin": "run", "name": "commit", "value": f"c{row['id']}"}] for row in rows
    }
    found = trend(rows[::-1], FIGURES["p50"], labels, {})
    listed = numbered_changes(found)
    assert [number for number, _, _ in listed] == list(range(1, 10))
    assert listed[0][2].startswith("the level changes by +20.0 %")
    assert listed[0][2].endswith("commit=c16")
    assert listed[-1][2] == "commit=c27"
    chart = trend_chart(found, FIGURES["p50"])
    assert chart is not None
    assert chart.caption.endswith(" 17 more changes of labels or conditions have no number.")


def test_a_change_of_conditions_is_named_and_no_candidate() -> None:
    """`results confirm` can measure changes under equal conditions alone, which are still found."""
    usual, slower = [100, 101, 99] * 5, [130, 131, 129] * 5
    rows = [_row(number, value) for number, value in enumerate(usual, 1)]
    rows += [_row(number, value, key="new") for number, value in enumerate(slower, 16)]
    conditions = {"k": {"engine": "1.31"}, "new": {"engine": "1.32"}}
    found = trend(rows[::-1], FIGURES["p50"], {}, conditions)
    assert [text for _, _, text in numbered_changes(found)] == ["engine: 1.31 to 1.32"]
    assert not found.has_candidates
    rows += [_row(number, 160 + number % 2, key="new") for number in range(31, 43)]
    found = trend(rows[::-1], FIGURES["p50"], {}, conditions)
    assert [each.row["id"] for each in found.points if each.change] == ["31"]
    assert found.has_candidates


def test_a_node_with_other_conditions_is_named_and_not_judged() -> None:
    """The class of a node is named, and judged nevertheless."""
    most = {"engine": "1.20", "node class": "EPYC"}
    conditions = {
        "most": most,
        "newer": most | {"engine": "1.10"},
        "other": most | {"node class": "Xeon"},
    }
    rows = [
        {"node": node, "key": key, "value": value}
        for node, key, value in (
            ("e", "newer", 15.0),
            ("a", "newer", 90.0),
            *((node, "most", 10.0) for node in "abc"),
            ("d", "other", 12.0),
        )
    ]
    compared = compared_nodes(rows, conditions)
    assert {node: len(some) for node, some in compared.rows.items()} == dict.fromkeys("abcde", 1)
    assert {node: found for node, found in compared.differing.items() if found} == {
        "d": {"node class": ("EPYC", "Xeon")},
        "e": {"engine": ("1.20", "1.10")},
    }
    values = {node: [row["value"] for row in some] for node, some in compared.rows.items()}
    found = {each.node: each for each in node_figures(values, compared.apart)}
    assert (found["e"].deviations, found["e"].is_outlier) == (None, False)
    assert found["e"].ratio == pytest.approx(1.5)
    assert found["d"].is_outlier
    assert compared_nodes([], {}).rows == {}


def _point(number: int, rate: float, **fields: Any) -> dict[str, Any]:
    """Return a measurement of a model, with a latency by which every rate is on the front."""
    place = {"scenario": "latency", "step": "", "node": "a", "batch_size": 1}
    server = {"engine": "onnxruntime 1", "server": "inferometer 1", "runtime": "OnnxRuntime"}
    figures = {"samples_per_second": rate, "p99_nanoseconds": rate * 1e6}
    return _row(number, 1, **place, **server, **figures) | fields


@pytest.mark.parametrize("rates", list(permutations((10.0, 30.0, 20.0))))
def test_the_repeat_of_the_middle_rate_stands_for_a_result(rates: tuple[float, ...]) -> None:
    """Wherever it comes; older results and INVALID repeats have no part in it."""
    rows = [
        *(_point(2, rate) for rate in rates),
        _point(2, 5.0, verdict="INVALID"),
        _point(1, 90.0),
    ]
    (group,) = model_view(rows, {}, {}, None, mixed=False).groups
    assert group.newest["samples_per_second"] == 20.0
    assert (group.count, group.p99_range) == (2, (10e6, 90e6))


def test_the_chart_of_a_model_ranks_what_may_rank() -> None:
    """What may not is grey, and never the fastest; nothing is if conditions differ."""
    rows = [_point(2, 90.0, node="b", outcome="Interrupted"), _point(1, 30.0)]
    view = model_view(rows, {}, {}, None, mixed=False)
    colours = {"onnxruntime 1": 1}
    chart = front_chart(view.groups, colours, is_ranked=view.is_ranked)
    assert chart is not None
    lines = [each for each in chart.marks if isinstance(each, Line)]
    assert [(each.series, float(each.x[0])) for each in lines] == [(1, 30.0), (0, 90.0)]
    assert "2 points, 1 of them of results that may rank." in chart.summary
    assert "Most inferences per second: onnxruntime 1, a: 30.0/s" in chart.summary
    unranked = front_chart(view.groups, colours, is_ranked=False)
    assert unranked is not None
    assert "Most" not in unranked.summary


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, ""),
        ({"verdict": "INVALID", "reasons": "A B"}, "INVALID: A B"),
        ({"retracted": "a backup"}, "retracted: a backup"),
        ({"source": "user"}, "stored by a user"),
        ({"outcome": "Failed"}, "FAILED: the run is not complete"),
        ({"is_profiled": True}, "profiled: the run has a profile scenario"),
    ],
)
def test_what_does_not_rank_has_a_reason(fields: dict[str, Any], reason: str) -> None:
    """INVALID, retracted and profiled measurements, those of runs that failed, and of users."""
    assert why_not_ranked(_row(1, 1, **fields)) == reason
