"""The canary before a suite: which differences between measurements of a node are changes."""

from collections.abc import Sequence

import pytest

from inferometer_api.nodes.canary import canary_changes, canary_sentences
from inferometer_api.nodes.characteristics import NodeCharacteristics
from support.node_documents import a_figure, a_node_document


def _measured(day: int, fault_ns: float, *cautions: str) -> NodeCharacteristics:
    figure = a_figure("pageFault", "ns", fault_ns)
    return a_node_document(day=day, figures=[figure], cautions=list(cautions))


def _history(*values: float) -> list[NodeCharacteristics]:
    return [_measured(day, each) for day, each in enumerate(values, start=1)]


@pytest.mark.parametrize(
    ("earlier", "now", "is_change"),
    [
        ([200], 225, True),
        ([230, 200], 225, False),
        ([250, 200], 225, False),
        ([180, 160, 200], 225, True),
        ([200, 240, 220], 170, True),
        ([200, 190, 220], 195, False),
    ],
)
def test_a_change_is_beyond_what_differed_between_earlier_measurements(
    earlier: Sequence[float], now: float, *, is_change: bool
) -> None:
    """By more than 10 % of the newest, and outside the range of all intervals of 5 %."""
    changes = canary_changes(_history(*earlier), _measured(9, now))
    assert bool(changes) == is_change
    assert all(each.before.value == earlier[-1] for each in changes)


def test_a_disturbed_measurement_hides_no_change_unless_there_is_no_other() -> None:
    """Its figures may not be those of the node, also if it is the newest."""
    busy = _measured(1, 300, "Other processes took 40 % of the CPU time.")
    changes = canary_changes([busy, *_history(200, 205)], _measured(9, 280))
    assert [each.before.value for each in changes] == [205]
    changes = canary_changes([*_history(200, 205), busy], _measured(9, 320))
    assert [each.before.value for each in changes] == [205]
    assert not canary_changes([busy], _measured(9, 320))


def test_the_change_of_a_figure_that_was_measured_once_has_a_reservation() -> None:
    """Two measurements cannot say how far they differ on an unchanged node."""
    reservation = (
        "A figure was measured once before: how far it differs between measurements of an "
        "unchanged node is not known."
    )
    now = _measured(9, 300)
    assert canary_sentences("node-1", _history(200), now) == (
        f"Before the suite node-1 had changed since 2026-01-01: pageFault +50.0 %. {reservation}"
    )
    assert reservation not in canary_sentences("node-1", _history(200, 210), now)


def test_a_figure_without_an_interval_shows_no_change() -> None:
    """Neither if an earlier one has none."""
    bare = a_figure("pageFault", "ns", 200).model_copy(update={"low": None, "high": None})
    earlier = a_node_document(day=1, figures=[bare])
    assert not canary_changes([earlier, *_history(200)], _measured(9, 300))
