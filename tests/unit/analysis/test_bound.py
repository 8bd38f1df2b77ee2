"""Lower bounds take the fastest timing of each layer, in a row and along the critical path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_analysis.bound import (
    best_timings,
    critical_path,
    has_roofline,
    is_wrong,
    lower_bound,
    roofline_bound,
    shows_kernel,
)
from inferometer_analysis.layer_work import GraphLayer
from inferometer_analysis.samples import Interval
from inferometer_api.layers.timings import KernelTiming


def _timing(key: str, engine: str, precision: str, nanoseconds: float) -> KernelTiming:
    return KernelTiming(key=key, engine=engine, precision=precision, nanoseconds=nanoseconds)


DIAMOND = [
    GraphLayer(0, "in", "Conv", "a", (), macs=1000, moved_bytes=10),
    GraphLayer(1, "left", "Conv", "b", (0,), macs=10, moved_bytes=4000),
    GraphLayer(2, "right", "Relu", "c", (0,)),
    GraphLayer(3, "view", "Reshape", "", (2,), is_view=True),
    GraphLayer(4, "join", "Add", "d", (1, 3)),
    GraphLayer(5, "loop", "Loop", "", (4,), why_not="Loop has a graph of its own."),
]
TIMINGS = [
    _timing("a", "onnxruntime", "FP32", 100.0),
    _timing("a", "openvino", "FP32", 70.0),
    _timing("a", "openvino", "BF16", 30.0),
    _timing("b", "onnxruntime", "FP32", 50.0),
    _timing("b", "openvino", "FP32", 60.0),
    _timing("c", "openvino", "", 20.0),
    _timing("d", "onnxruntime", "FP32", 5.0),
]


def test_the_fastest_of_one_precision_counts() -> None:
    """Timings of another effective precision join no bound; those without one join each."""
    best = best_timings(TIMINGS, "FP32")
    assert {key: each.nanoseconds for key, each in best.items()} == {
        "a": 70.0,
        "b": 50.0,
        "c": 20.0,
        "d": 5.0,
    }
    assert {key: each.nanoseconds for key, each in best_timings(TIMINGS, "BF16").items()} == {
        "a": 30.0,
        "c": 20.0,
    }


def test_where_tf32_is_allowed_fp32_counts_too() -> None:
    """A layer may have no faster kernel in TF32; a bound in FP32 takes none in TF32."""
    timings = [
        _timing("a", "onnxruntime", "TF32", 30.0),
        _timing("a", "cudnn", "FP32", 20.0),
        _timing("b", "cublas", "TF32", 10.0),
        _timing("b", "cublas", "FP16", 5.0),
    ]
    found = {key: each.nanoseconds for key, each in best_timings(timings, "TF32").items()}
    assert found == {"a": 20.0, "b": 10.0}
    assert set(best_timings(timings, "FP32")) == {"a"}


def test_the_bounds_of_a_diamond() -> None:
    """Sequential is the sum; the critical path takes the slower of two branches."""
    found = lower_bound(DIAMOND, best_timings(TIMINGS, "FP32"))
    assert found.sequential_ns == 145.0
    assert found.critical_path_ns == 125.0
    assert (found.covered, found.layers, found.coverage) == (4, 5, 0.8)
    assert [layer.name for layer in found.missing] == ["loop"]
    assert found.by_engine == {"openvino": 2, "onnxruntime": 2}


def test_the_ends_of_a_bound_follow_from_the_spreads_of_its_timings() -> None:
    """At the low ends the branches of the diamond are shorter, at the high ends longer."""
    best = {
        key: each.model_copy(update={"spread_nanoseconds": each.nanoseconds * 0.1349})
        for key, each in best_timings(TIMINGS, "FP32").items()
    }
    found = lower_bound(DIAMOND, best)
    sequential, branches = found.sequential, found.branches
    assert (sequential.value, branches.value) == (145.0, 20.0)
    assert (sequential.low, sequential.high) == pytest.approx((145 * 0.804, 145 * 1.196))
    assert (branches.low, branches.high) == pytest.approx((20 * 0.804, 20 * 1.196))
    best["c"] = TIMINGS[5]
    assert lower_bound(DIAMOND, best).sequential == Interval(145.0)
    assert lower_bound(DIAMOND, best).branches == Interval(20.0)


def test_a_timing_of_0_ns_is_free_and_the_kernel_of_no_engine() -> None:
    """An engine ran the layer in place: the bound may take that, and credits nothing for it."""
    in_place = _timing("d", "openvino", "", 0.0)
    assert not shows_kernel(in_place)
    found = lower_bound(DIAMOND, best_timings([*TIMINGS, in_place], "FP32"))
    assert found.sequential_ns == 140.0
    assert [layer.name for layer in found.without_kernel] == ["join"]
    assert found.by_engine == {"openvino": 2, "onnxruntime": 1}
    assert (found.covered, found.layers) == (4, 5)
    assert lower_bound(DIAMOND, best_timings(TIMINGS, "FP32")).without_kernel == ()


def test_an_empty_graph_has_no_cost() -> None:
    """Nothing to compute takes no time, and is covered."""
    assert critical_path([], lambda _: 1.0) == 0.0
    assert lower_bound([], {}).coverage == 1.0


def test_the_roofline_takes_the_tighter_peak_of_each_layer() -> None:
    """One layer is bound by arithmetic, another by memory."""
    assert roofline_bound(DIAMOND, 1e9, 1e9) == pytest.approx(2000 + 4000)
    with pytest.raises(ValueError, match="above 0"):
        roofline_bound(DIAMOND, 0.0, 1e9)


def test_control_flow_has_no_roofline() -> None:
    """What the tensors around an inner graph show is not the work within it."""
    loop = GraphLayer(6, "more", "Loop", "", moved_bytes=500, why_not="Loop has a graph.")
    assert not has_roofline(loop)
    assert has_roofline(DIAMOND[0])
    assert roofline_bound([*DIAMOND, loop], 1e9, 1e9) == roofline_bound(DIAMOND, 1e9, 1e9)


@pytest.mark.parametrize(
    ("bound", "measured", "wrong"),
    [
        (104.0, Interval(100.0, 95.0, 105.0), False),
        (106.0, Interval(100.0, 95.0, 105.0), True),
        (101.0, Interval(100.0), True),
    ],
)
def test_a_bound_above_the_measured_latency_is_wrong(
    bound: float, measured: Interval, *, wrong: bool
) -> None:
    """Within the interval it may be noise; above it the bound is wrong."""
    assert is_wrong(bound, measured) == wrong


TIMED = st.lists(
    st.builds(
        _timing,
        st.sampled_from("abcd"),
        st.sampled_from(["onnxruntime", "openvino"]),
        st.sampled_from(["FP32", "BF16", ""]),
        st.floats(0, 1e6),
    ),
    max_size=20,
)


@given(TIMED, TIMED)
def test_more_timings_never_raise_a_bound_that_covers_the_same(
    first: list[KernelTiming], others: list[KernelTiming]
) -> None:
    """No kernel that was timed does better than the bound, and the path is part of the sum."""
    found = lower_bound(DIAMOND, best_timings(first, "FP32"))
    assert found.critical_path_ns <= found.sequential_ns * (1 + 1e-9)
    best = best_timings([*first, *others], "FP32")
    assert all(
        best[each.key].nanoseconds <= each.nanoseconds
        for each in (*first, *others)
        if each.precision in ("", "FP32")
    )
    more = lower_bound(DIAMOND, best)
    assert more.coverage >= found.coverage
    if more.covered == found.covered:
        assert more.sequential_ns <= found.sequential_ns * (1 + 1e-9)
