"""Lines of charts are SVG paths."""

import numpy as np
import pytest

from inferometer_results.report.elements import steps_through


@pytest.mark.parametrize(
    ("present", "steps"),
    [
        ([True, True, True, True], "M0.0,9.0L1.0,8.0L2.0,7.0L3.0,6.0"),
        ([True, False, True, True], "M0.0,9.0M2.0,7.0L3.0,6.0"),
        ([False, True, True, False], "M1.0,8.0L2.0,7.0"),
        ([False, False, False, False], ""),
    ],
)
def test_a_line_has_a_gap_at_a_missing_figure(present: list[bool], steps: str) -> None:
    """No line is drawn across a time without a figure."""
    xs, ys = np.arange(4.0), np.arange(9.0, 5.0, -1.0)
    assert steps_through(xs, ys, np.array(present)) == steps
