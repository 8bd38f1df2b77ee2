"""ONNX Runtime's events become layers, run by run."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_serving.profile.event_cost import divided, event_cost
from inferometer_serving.profile.layer_times import EngineProfile, LayerTimes, thinned
from inferometer_serving.profile.onnx_events import EventCost, profile_of

RECORDED = Path(__file__).parents[2] / "data/profiles/onnxruntime-1.31-squeezenet1_1.json"
"""Five runs of a model of the zoo, of which the tests look at the last three."""


def _run(start: int, duration: int) -> dict[str, Any]:
    return {"cat": "Session", "name": "model_run", "ts": start, "dur": duration, "args": {}}


def _node(index: int, operator: str, start: int, duration: int) -> dict[str, Any]:
    return {
        "cat": "Node",
        "name": f"n{index}_kernel_time",
        "ts": start,
        "dur": duration,
        "args": {
            "op_name": operator,
            "node_index": str(index),
            "provider": "CPUExecutionProvider",
            "output_size": "64",
            "output_type_shape": [{"float": [1, 16]}],
        },
    }


EVENTS = [
    {"cat": "Session", "name": "session_initialization", "ts": 0, "dur": 50, "args": {}},
    # a warm run, which does not count
    _node(0, "Conv", 105, 90),
    _run(100, 100),
    _node(0, "Conv", 205, 10),
    _node(1, "Relu", 215, 3),
    _run(200, 20),
    _node(0, "Conv", 305, 12),
    _node(1, "Relu", 317, 4),
    _run(300, 25),
]


def test_layers_have_a_duration_for_each_run() -> None:
    """The last runs count; times are nanoseconds, starts those of the last run."""
    found = profile_of(EVENTS, runs=2)
    conv, relu = found.layers
    assert (conv.operator, conv.durations_ns, conv.start_ns) == ("Conv", (10_000, 12_000), 5_000)
    assert (relu.name, relu.durations_ns) == ("n1", (3_000, 4_000))
    assert (relu.shape, relu.datatype, relu.output_bytes) == ((1, 16), "float", 64)
    assert "does not name the kernels" in found.kernels_missing
    assert found.notes == ()


def test_the_nodes_of_a_loop_are_within_it() -> None:
    """A loop contains the nodes of its body, whose runs are summed; the next node is outside."""
    events = [
        _node(0, "Loop", 10, 50),
        _node(1, "Add", 12, 5),
        _node(1, "Add", 20, 6),
        _node(2, "Relu", 60, 0),
        _run(8, 60),
    ]
    loop, add, relu = profile_of(events, runs=1).layers
    assert (loop.outer, add.outer, relu.outer) == (None, loop.index, None)
    assert add.durations_ns == (11_000,)
    assert profile_of(events, runs=1).notes[0].startswith("1 layer within loops")


def test_the_profilers_own_time_is_taken_off_each_event() -> None:
    """A layer with two events in a run loses it twice, and none becomes negative.

    It is a time for each event, for each of its tensors, of which there is one, and for each of
    their axes, of which there are two.
    """
    events = [_node(0, "Add", 12, 5), _node(0, "Add", 20, 6), _node(1, "Relu", 60, 1), _run(8, 60)]
    add, relu = profile_of(events, 1, EventCost(1_000.0, 500.0, 150.0)).layers
    assert add.durations_ns == (7_400,)
    assert relu.durations_ns == (0,)


def test_the_profilers_time_within_a_loop_is_taken_off_the_loop() -> None:
    """Two events of 1 us each, and 0.5 us after each; no loop takes less than what is in it."""
    events = [
        *(_node(0, "Loop", 10, 40), _node(1, "Add", 12, 5), _node(1, "Add", 20, 6), _run(8, 60)),
    ]
    loop, add = profile_of(events, 1, EventCost(event_ns=1_000.0, between_ns=500.0)).layers
    assert add.durations_ns == (9_000,)
    assert loop.durations_ns == (40_000 - 1_000 - 2 * 1_000 - 2 * 500,)
    least, _ = profile_of(events, 1, EventCost(event_ns=1_000.0, between_ns=20_000.0)).layers
    assert least.durations_ns == (9_000,)


@given(event=st.floats(0, 5e3), tensor=st.floats(0, 5e3), axis=st.floats(0, 5e3))
def test_the_profilers_own_time_is_divided_as_planted(
    event: float, tensor: float, axis: float
) -> None:
    """Chains with one and four inputs, of one and four axes, show what each part costs."""

    def shown(tensors: int, axes: int) -> float:
        return event + tensors * (tensor + axes * axis)

    found = divided(shown(2, 1), shown(2, 4), shown(5, 1))
    assert (found.event_ns, found.tensor_ns, found.axis_ns) == pytest.approx(
        (event, tensor, axis), abs=1e-6
    )


@given(*[st.floats(0, 1e5)] * 3)
def test_a_disturbed_measurement_takes_off_no_more_than_it_showed(
    few: float, wide: float, many: float
) -> None:
    """No part is negative, and an event of the plain chain costs what that showed."""
    found = divided(few, wide, many)
    assert min(found.event_ns, found.tensor_ns, found.axis_ns) >= 0
    assert found.event_ns + 2 * (found.tensor_ns + found.axis_ns) == pytest.approx(few)


def test_the_profilers_own_time_is_measured_once() -> None:
    """A process measures it once, and no part of it is negative."""
    found = event_cost()
    assert min(found.event_ns, found.tensor_ns, found.axis_ns) >= 0
    assert event_cost() is found


def test_a_profile_that_was_cut_off_is_refused() -> None:
    """A profile with fewer runs than were made is an error, not a guess."""
    with pytest.raises(ValueError, match="3 of 4 runs"):
        profile_of(EVENTS, runs=4)


def test_a_large_profile_keeps_fewer_runs() -> None:
    """Of more runs than a document holds, some spread over all are kept, and the last one."""
    layers = tuple(
        LayerTimes(at, str(at), "Add", (), "", "", "", None, 0, tuple(range(100)))
        for at in range(3000)
    )
    found = thinned(EngineProfile(layers))
    assert len(found.layers[0].durations_ns) == 20
    assert found.layers[0].durations_ns[-1] == 99
    assert "20 of 100 runs" in found.notes[0]
    assert thinned(EngineProfile(layers[:3])) == EngineProfile(layers[:3])


def test_a_recorded_profile_is_read_whole() -> None:
    """Of a profile that ONNX Runtime wrote, the layers fill their runs and no node is left out."""
    events = json.loads(RECORDED.read_text())
    found = profile_of(events, runs=3)
    operators = Counter(layer.operator for layer in found.layers)
    assert operators["Conv"] == 26
    nodes = {each["name"] for each in events if each["name"].endswith("_kernel_time")}
    assert len(found.layers) == len(nodes)
    runs = [each for each in events if each["name"] == "model_run"][-3:]
    for number, run in enumerate(sorted(runs, key=lambda each: int(each["ts"]))):
        part = sum(layer.durations_ns[number] for layer in found.layers) / (1000 * run["dur"])
        assert 0.8 < part <= 1
