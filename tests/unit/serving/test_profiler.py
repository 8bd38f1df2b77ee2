"""The openings of a profile: how many there are, and how their layers become one profile."""

from itertools import chain, repeat
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from inferometer_loadgen.run.profile_extension import step_profile
from inferometer_serving.model.session import Interrupt
from inferometer_serving.options import ServeOptions
from inferometer_serving.profile import profiler
from inferometer_serving.profile.layer_times import EngineProfile, LayerTimes, merged
from inferometer_serving.profile.onnx_runtime import OnnxProfiledSession
from inferometer_serving.profile.profiler import openings_left


@pytest.fixture(name="net")
def _net(tmp_path: Path) -> Path:
    """Write a model of one layer."""
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])], "net", tensors[:1], tensors[1:]
    )
    path = tmp_path / "net.onnx"
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def _layer(name: str, *durations_ns: int) -> LayerTimes:
    return LayerTimes(0, name, "Conv", (1,), "float", "CPU", "", 4, 5, durations_ns)


@pytest.mark.parametrize(
    ("before", "seconds", "left"),
    [
        ((), 0.5, 5),
        ((0.5,) * 4, 0.5, 1),
        ((), 5.0, 4),
        ((5.0,), 5.0, 3),
        ((5.0, 5.0), 20.0, 1),
        ((), 90.0, 1),
        ((), 0.0, 5),
    ],
)
def test_sessions_are_opened_five_times_within_twenty_seconds(
    before: tuple[float, ...], seconds: float, left: int
) -> None:
    """Those that take long to open are opened less often, and at least once."""
    assert openings_left(before, seconds, 5) == left


def test_layers_of_several_openings_have_the_durations_of_all() -> None:
    """They are in the order of the openings."""
    found = merged([EngineProfile((_layer("a", 1, 2),)), EngineProfile((_layer("a", 3),))])
    assert [each.durations_ns for each in found.layers] == [(1, 2, 3)]
    assert found.notes == ()


def test_an_opening_with_other_layers_is_left_out_with_a_note() -> None:
    """Durations of different layers are never joined."""
    found = merged([EngineProfile((_layer("b", 1),)), EngineProfile((_layer("a", 3),))])
    assert [each.durations_ns for each in found.layers] == [(3,)]
    assert found.notes == ("1 of 2 sessions had other layers and are left out.",)


@pytest.mark.parametrize(("offsets_ns", "left_out"), [((0, 0, 0, 0), 0), ((0, 5_000_000), 1)])
def test_layers_that_a_set_clock_timed_are_left_out(
    net: Path, monkeypatch: pytest.MonkeyPatch, offsets_ns: tuple[int, ...], left_out: int
) -> None:
    """ONNX Runtime times layers by the clock of the day; whole inferences are not timed by it."""
    clock = chain(offsets_ns, repeat(offsets_ns[-1]))
    monkeypatch.setattr(profiler, "clock_offset_ns", lambda: next(clock))
    options = ServeOptions(net, "net", profiling=True)
    found = profiler.profile(options, profiler.ProfileRequest(iterations=10), Interrupt())
    openings = len(found["openingIterations"])
    assert len(found["modelNanoseconds"]) == 10
    (layer,) = found["layers"]
    notes = " ".join(found["notes"])
    assert len(layer["durationsNanoseconds"]) == 10 - left_out * found["openingIterations"][0]
    assert (f"those of {left_out} of {openings} openings are left out" in notes) is bool(left_out)


def test_a_profile_that_the_disk_cuts_off_keeps_the_model(
    net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole inferences need no file; the layers say what to free."""

    def cut_off(_: OnnxProfiledSession) -> None:
        raise ValueError("unexpected end of data")

    monkeypatch.setattr(OnnxProfiledSession, "events", cut_off)
    options = ServeOptions(net, "net", profiling=True)
    found = profiler.profile(options, profiler.ProfileRequest(iterations=10), Interrupt())
    assert len(found["modelNanoseconds"]) == 10
    assert found["layers"] == []
    assert "cannot be read: unexpected end of data" in found["layersMissing"]
    assert "MiB free: free more" in found["layersMissing"]
    profile = step_profile(found, ["Model", "Layer"])
    assert profile.levels == ["Model"]
    assert set(profile.unavailable) == {"Layer"}
