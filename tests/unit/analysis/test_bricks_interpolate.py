"""Times of bricks are interpolated within their family, and say how far they may be off."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_analysis.bricks.interpolate import Interpolation, family_of
from inferometer_analysis.bricks.predict import bricks_to_time, predict
from inferometer_api.layers.graph import Layer, LayerGraph, LayerTensor, LayerUse
from support.layer_graphs import activation, brick_timings, layer_graph, timing

_NS_PER_MAC = 3
_CALL_NS = 100
_SIZES = (100, 200, 400, 800, 1_600)


def _product(rows: int, operator: str = "MatMul", **changed: object) -> Layer:
    """Return a product whose multiply-accumulates are 100 times its rows."""
    layer = Layer(
        operator=operator,
        version=17,
        inputs=[
            activation(rows, 10),
            LayerTensor(kind="Weight", datatype="FLOAT", shape=[10, 10]),
        ],
        outputs=[activation(rows, 10)],
    )
    return layer.model_copy(update=changed)


def _graph(layers: Mapping[str, Layer], uses: Sequence[str] | None = None) -> LayerGraph:
    """Return a chain of layers."""
    graph = layer_graph()
    chain = [
        LayerUse(layer=key, inputs=[at], outputs=[at + 1]) for at, key in enumerate(uses or layers)
    ]
    return graph.model_copy(update={"layers": dict(layers), "uses": chain})


def _known(rates: Sequence[float], operator: str = "MatMul") -> tuple[LayerGraph, dict[str, int]]:
    """Return products of all sizes, and their times at a number of ns for each mac."""
    layers = {f"{operator}{rows}": _product(rows, operator) for rows in _SIZES}
    times = {
        key: round(_CALL_NS + 100 * rows * rate)
        for (key, rows), rate in zip(zip(layers, _SIZES, strict=True), rates, strict=True)
    }
    return _graph(layers), times


def _interpolation(*known: tuple[LayerGraph, dict[str, int]]) -> Interpolation:
    times = {key: timing(ns) for _, times in known for key, ns in times.items()}
    return Interpolation([graph for graph, _ in known], brick_timings(times))


@given(st.integers(min_value=1, max_value=100_000))
def test_a_time_that_grows_with_the_work_is_met_at_any_size(rows: int) -> None:
    """Three nanoseconds for each mac are found again, without the cost of the call."""
    found = _interpolation(_known([_NS_PER_MAC] * 5)).estimate([_product(rows)])
    assert found is not None
    assert found.nanoseconds == pytest.approx(_NS_PER_MAC * 100 * rows, rel=1e-6)


def test_a_time_between_two_rates_lies_between_them() -> None:
    """Larger products are more efficient here, and the nearest ones count most."""
    found = _interpolation(_known([5, 4, 3, 2, 1])).estimate([_product(300)])
    assert found is not None
    assert 3 * 30_000 < found.nanoseconds < 4 * 30_000


def test_cold_caches_cost_what_they_cost_others_by_work() -> None:
    """All members take twice as long when they are cold."""
    graph, times = _known([_NS_PER_MAC] * 5)
    bricks = {key: timing(ns, cold=2 * ns - _CALL_NS) for key, ns in times.items()}
    found = Interpolation([graph], brick_timings(bricks)).estimate([_product(250)])
    assert found is not None
    assert found.slower_nanoseconds == pytest.approx(found.nanoseconds, rel=1e-6)


def test_the_error_is_that_of_the_members_from_each_other() -> None:
    """Times that fit have the least error; those that jump by a factor of two say so."""
    calm = _interpolation(_known([3, 3, 3, 3, 3])).estimate([_product(400)])
    wild = _interpolation(_known([2, 4, 2, 4, 2])).estimate([_product(400)])
    assert calm is not None
    assert wild is not None
    assert calm.error == pytest.approx(0.02)
    assert wild.error > 0.4


def test_the_error_grows_with_the_distance_from_what_is_known() -> None:
    """A size ten times the largest one is less certain than one in between."""
    known = _interpolation(_known([3, 3.3, 3, 3.3, 3]))
    near, far = known.estimate([_product(500)]), known.estimate([_product(16_000)])
    assert near is not None
    assert far is not None
    assert far.error > 2 * near.error


def test_fewer_than_four_members_interpolate_nothing() -> None:
    """Nothing would say how far such times are off."""
    graph, times = _known([3] * 5)
    for kept, is_known in ((3, False), (4, True)):
        few = dict(list(times.items())[:kept])
        assert (_interpolation((graph, few)).estimate([_product(300)]) is not None) == is_known


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"operator": "Gemm"}, id="operator"),
        pytest.param({"domain": "com.microsoft"}, id="domain"),
        pytest.param({"attributes": [{"name": "alpha", "f": 2.0}]}, id="attribute"),
        pytest.param({"inputs": [activation(5, 10), activation(10, 10)]}, id="no weight"),
        pytest.param(
            {"outputs": [activation(5, 10).model_copy(update={"sample": [1e-39]})]}, id="denormal"
        ),
    ],
)
def test_bricks_of_other_families_are_no_help(changed: dict[str, object]) -> None:
    """What changes how a layer is computed makes another family; its shapes do not."""
    assert family_of([_product(5)]) == family_of([_product(7)])
    assert family_of([_product(5).model_copy(update=changed)]) != family_of([_product(5)])


@pytest.mark.parametrize(("groups", "others"), [(1, 16), (8, 16), (8, 1)])
def test_convolutions_by_channel_are_a_family_of_their_own(groups: int, others: int) -> None:
    """One group, some, and one for each of the 16 channels compute differently."""

    def convolution(group: int) -> Layer:
        return Layer(
            operator="Conv",
            version=17,
            attributes=[{"name": "group", "i": str(group)}],
            inputs=[activation(1, 16, 8, 8), activation(16, 16 // group, 3, 3)],
            outputs=[activation(1, 16, 8, 8)],
        )

    assert family_of([convolution(groups)]) != family_of([convolution(others)])


def test_a_prediction_says_what_is_interpolated_and_how_far_it_may_be_off() -> None:
    """Of three layers one is timed, one interpolated, and one without a family is missing."""
    known = _known([3] * 5)
    layers = {
        "MatMul100": _product(100),
        "new": _product(300),
        "odd": _product(9, "Odd"),
    }
    graph = _graph(layers)
    times = brick_timings({key: timing(ns) for key, ns in known[1].items()})
    found = predict(graph, times, 1, _interpolation(known))
    assert (found.layers_known, found.layers_interpolated, found.missing) == (
        *(1, 1),
        {"odd": "Odd"},
    )
    expected_ns = _CALL_NS + 3 * 10_000 + 3 * 30_000
    assert found.sequential_nanoseconds == pytest.approx(expected_ns)
    (estimate,) = [_interpolation(known).estimate([layers["new"]])]
    assert estimate is not None
    assert found.uncertainty is None
    whole = predict(
        _graph({key: each for key, each in layers.items() if key != "odd"}),
        *(times, 1, _interpolation(known)),
    )
    assert whole.sequential_nanoseconds == found.sequential_nanoseconds
    assert whole.uncertainty == pytest.approx(90_000 * estimate.error / expected_ns)
    assert list(predict(graph, times).missing) == ["new", "odd"]


def test_errors_of_one_family_add_up_and_those_of_two_do_not() -> None:
    """Two families with errors of 3 and 4 are off by 5 together, one family by 7."""
    one, two = _known([3] * 5), _known([3] * 5, "Gemm")
    known = _interpolation(one, two)
    times = brick_timings({key: timing(ns) for _, each in (one, two) for key, ns in each.items()})

    def error_ns(*layers: Layer) -> float:
        graph = _graph({str(at): layer for at, layer in enumerate(layers)})
        found = predict(graph, times, 1, known)
        assert found.uncertainty is not None
        return found.uncertainty * found.sequential_nanoseconds

    three, four = error_ns(_product(300)), error_ns(_product(401))
    assert error_ns(_product(300), _product(401)) == pytest.approx(three + four)
    other = error_ns(_product(401, "Gemm"))
    assert error_ns(_product(300), _product(401, "Gemm")) == pytest.approx(
        (three**2 + other**2) ** 0.5
    )


def test_only_bricks_that_a_prediction_needs_are_timed() -> None:
    """Without any tolerance all are; with much of it, those that cannot be interpolated."""
    known = _known([3] * 5)
    layers = {"large": _product(1_000), "small": _product(150), "odd": _product(9, "Odd")}
    graph = _graph(layers)
    times = brick_timings({key: timing(ns) for key, ns in known[1].items()})

    def timed(tolerance: float) -> frozenset[str]:
        return bricks_to_time(graph, times, 1, _interpolation(known), tolerance)

    assert timed(0.0) == {"large", "small", "odd"}
    assert timed(0.01) == {"large", "odd"}
    assert timed(0.5) == {"odd"}


def test_what_is_timed_already_is_not_timed_again() -> None:
    """A brick with a time is certain."""
    known = _known([3] * 5)
    times = brick_timings({key: timing(ns) for key, ns in known[1].items()})
    assert not bricks_to_time(known[0], times, 1, _interpolation(known), 0.0)
