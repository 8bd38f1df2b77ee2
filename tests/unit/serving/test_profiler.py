"""The openings of a profile: how many there are, and how their layers become one profile."""

import pytest

from inferometer_serving.profile.layer_times import EngineProfile, LayerTimes, merged
from inferometer_serving.profile.profiler import openings_left


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
