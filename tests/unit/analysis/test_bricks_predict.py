"""The latency of a model follows from the times of its bricks."""

import pytest

from inferometer_analysis.bricks.predict import (
    engine_speed_up,
    geometric_mean_error,
    predict,
    speed_up,
)
from support.layer_graphs import activation, brick_timings, layer_graph, timing


def test_the_cost_of_the_call_counts_once() -> None:
    """Two layers of 1,100 ns with a call of 100 ns are 2,100 ns."""
    graph = layer_graph(("a", [0], [1]), ("b", [1], [2]))
    found = predict(graph, brick_timings({"a": timing(1_100), "b": timing(1_100)}))
    assert found.sequential_nanoseconds == pytest.approx(2_100)
    assert found.is_complete


def test_the_critical_path_is_the_slowest_chain() -> None:
    """Of two branches of 1,000 and 3,000 ns before a join of 500 ns, the slower one counts."""
    graph = layer_graph(("a", [0], [1]), ("b", [0], [2]), ("c", [1, 2], [3]))
    times = brick_timings({"a": timing(1_100), "b": timing(3_100), "c": timing(600)})
    found = predict(graph, times)
    assert found.sequential_nanoseconds == pytest.approx(4_600)
    assert found.critical_path_nanoseconds == pytest.approx(3_600)


def test_a_layer_that_only_looks_costs_a_node() -> None:
    """Reshape copies when it is alone, and does not in a model: its own time is not used."""
    graph = layer_graph(("a", [0], [1]), ("Reshape", [1], [2]))
    times = brick_timings({"a": timing(1_100), "Reshape": timing(50_000)})
    assert predict(graph, times).sequential_nanoseconds == pytest.approx(1_110)


def test_a_brick_without_a_time_is_named_once_and_counts_as_nothing() -> None:
    """A missing time is neither guessed nor hidden."""
    graph = layer_graph(("a", [0], [1]), ("new", [1], [2]), ("new", [2], [3]))
    found = predict(graph, brick_timings({"a": timing(1_100)}))
    assert found.missing == {"new": "new"}
    assert (found.layers_known, found.layers) == (1, 3)
    assert found.sequential_nanoseconds == pytest.approx(1_100)
    assert not found.is_complete


@pytest.mark.parametrize(
    ("floats", "expected_ns"),
    [
        pytest.param(100_000, 1_100 + 4_000, id="400 kB from the cache at 100 GB/s"),
        pytest.param(1_000_000, 1_100 + 400_000, id="4 MB from memory at 10 GB/s"),
    ],
)
def test_weights_come_from_memory_if_they_do_not_fit_into_the_cache(
    floats: int, expected_ns: int
) -> None:
    """The time to move them is added; the cache has 1 MB."""
    graph = layer_graph(("a", [0], [1]), weights={"a": floats})
    found = predict(graph, brick_timings({"a": timing(1_100, cold=10_000_000)}))
    assert found.sequential_nanoseconds == pytest.approx(expected_ns, abs=1)


def test_a_result_costs_no_more_in_a_model_than_alone() -> None:
    """Alone, too, it goes where the caches have room for it: only weights are colder in a model."""
    graph = layer_graph(("Tanh", [0], [1]))
    tensors = {"inputs": [activation(1_000_000)], "outputs": [activation(1_000_000)]}
    graph.layers["Tanh"] = graph.layers["Tanh"].model_copy(update=tensors)
    found = predict(graph, brick_timings({"Tanh": timing(1_100, cold=1_000_000)}))
    assert found.sequential_nanoseconds == pytest.approx(1_100)


def test_moving_weights_costs_no_more_than_cold_caches_did() -> None:
    """A layer that reads a few rows of a table does not move all of it."""
    graph = layer_graph(("Gather", [0], [1]), weights={"Gather": 100_000_000})
    found = predict(graph, brick_timings({"Gather": timing(1_100, cold=1_500)}))
    assert found.sequential_nanoseconds == pytest.approx(1_500)


def test_the_error_is_the_geometric_mean_of_factors() -> None:
    """Twice too much and half too little are the same error, 100 %."""
    assert geometric_mean_error([2.0, 0.5]) == pytest.approx(1.0)
    assert geometric_mean_error([1.0, 1.0]) == 0


def test_the_speed_up_is_the_models_time_over_that_of_the_bricks() -> None:
    """The paper's definition counts one run of each; the engine's time sessions and all runs."""
    times = brick_timings(
        {"a": timing(1_000, session=5_000)},
        {"one": timing(2_000, session=1_000), "two": timing(3_000, session=1_000)},
    )
    assert speed_up(times) == pytest.approx(5.0)
    assert engine_speed_up(times, 4) == pytest.approx((2_000 + 4 * 5_000) / (5_000 + 10 * 1_000))


def test_the_noise_of_a_prediction_is_that_of_its_bricks() -> None:
    """Quartiles 200 and 100 ns apart in a latency of 100 + 1,000 + 2,000 ns; views have none."""
    graph = layer_graph(("a", [0], [1]), ("Reshape", [1], [2]), ("b", [2], [3]), ("a", [3], [4]))
    noisy = timing(1_100).model_copy(update={"upper_quartile_nanoseconds": 1_200})
    found = predict(graph, brick_timings({"a": noisy, "b": timing(1_100)}))
    assert found.spread == pytest.approx(200 / found.sequential_nanoseconds)
    assert predict(graph, brick_timings({})).spread == 0.0


@pytest.mark.parametrize(
    ("elements", "core_bytes", "threads", "expected_ns"),
    [
        pytest.param(250_000, 1_000_000, 1, 1_000, id="fits into the core's cache"),
        pytest.param(250_001, 1_000_000, 1, 1_400, id="does not: half of 800 ns"),
        pytest.param(250_001, 1_000_000, 2, 1_000, id="fits into the caches of two"),
        pytest.param(250_001, 0, 1, 1_000, id="a cache that is not known changes nothing"),
    ],
)
def test_activations_that_leave_the_core_are_half_cold(
    elements: int, core_bytes: int, threads: int, expected_ns: int
) -> None:
    """The brick takes 1,000 ns, and 1,800 with cold caches; it has no weights."""
    graph = layer_graph(("a", [0], [1]))
    layer = graph.layers["a"].model_copy(update={"outputs": [activation(elements)]})
    graph = graph.model_copy(update={"layers": {"a": layer}})
    timings = brick_timings({"a": timing(1_100, cold=1_900)})
    machine = timings.machine.model_copy(
        update={"core_cache_bytes": core_bytes, "threads": threads}
    )
    found = predict(graph, timings.model_copy(update={"machine": machine}))
    assert found.sequential_nanoseconds == pytest.approx(100 + expected_ns)
