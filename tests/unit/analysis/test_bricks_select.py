"""Bricks are timed a few at a time, until each prediction is within the tolerance."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_analysis.bricks.interpolate import Interpolation
from inferometer_analysis.bricks.predict import predict
from inferometer_analysis.bricks.select import next_bricks
from inferometer_api.layers.graph import Layer, LayerGraph, LayerTensor, LayerUse
from support.layer_graphs import activation, brick_timings, layer_graph, timing

_CALL_NS = 100


def _product(rows: int, operator: str = "MatMul") -> Layer:
    """Return a product whose multiply-accumulates are 100 times its rows."""
    weight = LayerTensor(kind="Weight", datatype="FLOAT", shape=[10, 10])
    return Layer(
        operator=operator,
        version=17,
        inputs=[activation(rows, 10), weight],
        outputs=[activation(rows, 10)],
    )


def _model(rows: Sequence[int], operator: str = "MatMul") -> LayerGraph:
    """Return a chain of products, whose keys are their rows."""
    chain = [LayerUse(layer=str(n), inputs=[at], outputs=[at + 1]) for at, n in enumerate(rows)]
    layers = {str(each): _product(each, operator) for each in rows}
    return layer_graph().model_copy(update={"layers": layers, "uses": chain})


def _time_all_needed(
    graph: LayerGraph, tolerance: float, rate: Callable[[int], float]
) -> list[frozenset[str]]:
    """Return what was timed in each step, by a machine of so many ns for each row."""
    steps: list[frozenset[str]] = []
    timings = None
    timed: set[str] = set()
    while chosen := next_bricks([graph], timings, 1, tolerance, timed):
        steps.append(chosen)
        timed |= chosen
        bricks = {key: timing(round(_CALL_NS + int(key) * rate(int(key)))) for key in timed}
        timings = brick_timings(bricks).model_copy(update={"graphs": [graph]})
    return steps


def test_the_first_bricks_of_a_family_span_its_sizes() -> None:
    """As many as the root of their number, the smallest and the largest among them."""
    rows = [100 * 2**each for each in range(36)]
    first = next_bricks([_model(rows)], None, 1, 0.1)
    assert len(first) == 6
    assert {str(rows[0]), str(rows[-1])} <= first


def test_every_family_has_enough_members_to_interpolate_from() -> None:
    """Four of the five of one family, and the three that another has."""
    many, few = _model([100, 200, 400, 800, 1_600]), _model([300, 500, 700], "Gemm")
    first = next_bricks([many, few], None, 1, 0.5)
    assert len(first & many.layers.keys()) == 4
    assert first & few.layers.keys() == few.layers.keys()


def test_times_that_fit_need_no_more() -> None:
    """Three ns for each multiply-accumulate at all sizes: the first six say it all."""
    rows = [100 + 10 * each for each in range(36)]
    assert [len(each) for each in _time_all_needed(_model(rows), 0.1, lambda _: 300)] == [6]


def test_times_that_jump_need_more_a_third_of_them_at_once() -> None:
    """Every other size takes ten times as long, which no neighbour shows."""
    rows = [100 + 10 * each for each in range(36)]
    steps = _time_all_needed(_model(rows), 0.0, lambda n: 30 if n % 20 else 300)
    assert [len(each) for each in steps] == [6, 10, 7, 5, 4, 4]


def test_without_a_tolerance_all_are_timed_each_once() -> None:
    """An interpolated time is never certain."""
    rows = list(range(100, 900, 37))
    steps = _time_all_needed(_model(rows), 0.0, lambda _: 300)
    assert sorted(int(key) for step in steps for key in step) == rows


def test_what_cannot_be_timed_is_never_chosen() -> None:
    """It failed before, so its model stays without a time for it."""
    graph = _model([100, 200, 300])
    assert next_bricks([graph], None, 1, 0.1, untimable=["200"]) == {"100", "300"}
    timings = brick_timings({"100": timing(100), "300": timing(300)})
    known = timings.model_copy(update={"graphs": [graph]})
    assert not next_bricks([graph], known, 1, 0.0, untimable=["200"])


def test_what_other_models_know_is_not_chosen() -> None:
    """Five products of another model span the sizes of this one."""
    other, new = _model([100, 200, 400, 800, 1_600]), _model([150, 300, 600, 1_200])
    bricks = {key: timing(_CALL_NS + 300 * int(key)) for key in other.layers}
    known = brick_timings(bricks).model_copy(update={"graphs": [other]})
    assert not next_bricks([new], known, 1, 0.1)
    assert len(next_bricks([new], None, 1, 0.1)) == 4


@given(
    st.lists(st.integers(1, 100_000), min_size=1, max_size=40, unique=True),
    st.floats(0.02, 0.5),
    st.integers(1, 7),
)
def test_at_the_end_the_prediction_is_within_the_tolerance(
    rows: list[int], tolerance: float, period: int
) -> None:
    """Whatever the sizes and the times."""
    graph = _model(rows)
    steps = _time_all_needed(graph, tolerance, lambda n: 100 + 300 * (n % period))
    timed = {key for step in steps for key in step}
    assert len(timed) == sum(map(len, steps))
    bricks = {
        key: timing(round(_CALL_NS + int(key) * (100 + 300 * (int(key) % period)))) for key in timed
    }
    times = brick_timings(bricks)
    uncertainty = predict(graph, times, 1, Interpolation([graph], times)).uncertainty
    assert uncertainty == pytest.approx(0, abs=tolerance * (1 + 1e-9))
