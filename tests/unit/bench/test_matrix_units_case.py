"""The case matrix-units on a machine without a GPU."""

import shutil
from pathlib import Path

import bench.case_matrix_units as case_module
import pytest
from bench.case import PeerMissingError, Place
from bench.case_matrix_units import MATRIX_UNITS
from bench.figures import Bound
from bench.measure import measure


def test_without_a_gpu_every_side_is_missing_and_the_reason_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is measured, and the page says why."""
    monkeypatch.setattr(case_module, "gpu_count", lambda: 0)
    place = Place(None, None, tmp_path, 1.0)
    measured = measure(MATRIX_UNITS, place, 1, lambda _: None)
    assert not measured.taken
    assert list(measured.missing) == ["Inferometer", "copy", "CUB", "CuPy"]
    assert all("needs a GPU" in reason for reason in measured.missing.values())


def test_without_the_compiler_cub_alone_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other sides need none."""
    monkeypatch.setattr(case_module, "gpu_count", lambda: 1)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    found = {}
    for side in MATRIX_UNITS.sides[:3]:
        try:
            side.require()
        except PeerMissingError as error:
            found[side.name] = str(error)
    assert list(found) == ["CUB"]
    assert "nvcc" in found["CUB"]


def test_the_goals_are_the_bandwidth_for_all_lengths_and_cub_for_short_ones() -> None:
    """At least 90 % of a copy; faster than CUB for segments of up to 1,024."""
    goals = {row.what: row.goal for row in MATRIX_UNITS.rows}
    copies = [goal for what, goal in goals.items() if what.endswith("against copy")]
    assert copies == [(Bound("ratio", "at least", 0.9),)] * 20
    assert goals["Sums of segments of 1,024, against CUB"] == (Bound("ratio", "at least", 1.0),)
    assert goals["Sums of segments of 16,384, against CUB"] == ()
