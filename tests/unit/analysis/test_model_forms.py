"""Tests of the choice between the forms of a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_analysis.model_forms import (
    STEADY_TOLERANCE,
    FormFigures,
    SharingCosts,
    choose_form,
    sharing_gain_seconds,
)

_MILLISECONDS = st.floats(0.1, 1e4)
_FORMS = st.lists(
    st.builds(
        FormFigures,
        name=st.uuids().map(str),
        load_milliseconds=_MILLISECONDS,
        steady_milliseconds=_MILLISECONDS,
        added_bytes=st.just(0.0),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda form: form.name,
)


@given(_FORMS)
def test_no_form_loads_faster_without_a_loss(forms: list[FormFigures]) -> None:
    """The form to keep is within the tolerance, and every faster load costs steady latency."""
    found = choose_form(forms)
    limit = min(each.steady_milliseconds for each in forms) * (1 + STEADY_TOLERANCE)
    assert found.best.steady_milliseconds <= limit
    for each in forms:
        if each.load_milliseconds < found.best.load_milliseconds:
            assert each.steady_milliseconds > limit
    assert found.fastest.load_milliseconds == min(each.load_milliseconds for each in forms)


def test_the_trade_is_counted_in_queries() -> None:
    """A slower load is made up for after as many queries as its gain needs."""
    found = choose_form([FormFigures("plain", 900, 10, 0), FormFigures("mapped", 100, 12, 0)])
    assert (found.best.name, found.fastest.name) == ("plain", "mapped")
    assert found.steady_cost == pytest.approx(0.2)
    assert found.break_even_queries == 400
    alone = choose_form([FormFigures("plain", 900, 10, 0)])
    assert (alone.steady_cost, alone.break_even_queries) == (0.0, None)


@pytest.mark.parametrize(
    ("model_bytes", "objects", "gain"),
    [
        (100e6, 1, 0.05 - 0.003),
        (100e6, 2, 0.05 - 0.006),
        # As many layers as TrIMS found too many to share one by one.
        (100e6, 100, 0.05 - 0.3),
        (1e6, 1, 0.0005 - 0.003),
    ],
)
def test_sharing_pays_if_the_read_costs_more(model_bytes: float, objects: int, gain: float) -> None:
    """The gain is the read from the disk, less export and opening of each object."""
    costs = SharingCosts(disk_bytes_per_second=2e9, export_seconds=0.002, open_seconds=0.001)
    assert sharing_gain_seconds(model_bytes, objects, costs) == pytest.approx(gain)


def test_a_disk_without_a_rate_is_refused() -> None:
    """It would divide by zero."""
    with pytest.raises(ValueError, match="above 0"):
        sharing_gain_seconds(1.0, 1, SharingCosts(0.0, 0.1, 0.1))
