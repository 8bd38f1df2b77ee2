"""The recorded history of equal runs keeps what `results trend` promises."""

import csv
from pathlib import Path

import numpy as np
from bench.history_record import (
    CALM,
    COLUMNS,
    block_noise,
    read_rows,
    read_series,
    section,
    suite_of,
)

from inferometer_results.history.change_points import (
    MOST_BEFORE,
    PROMISED_CHANGE,
    find_change_points,
)
from support.replayed_history import share_found


def test_recorded_equal_runs_raise_at_most_one_alert_in_a_thousand() -> None:
    """The suite of all recorded specs, resampled in blocks."""
    assert suite_of(read_series(), judgements=400).alerts_in_1000 <= 1


def test_a_step_is_found_in_recorded_series_or_they_cannot_be_judged() -> None:
    """Those that vary by at most 3 % show a step of 5 %, unless their neighbours are too alike."""
    for name, series in read_series().items():
        found = find_change_points(list(np.exp(series[-MOST_BEFORE:])))
        if series.std(ddof=1) <= CALM and found.can_judge:
            assert share_found(block_noise(series), PROMISED_CHANGE, 200) >= 0.8, name
        else:
            assert not found.can_judge, name


def test_only_valid_runs_are_in_a_series(tmp_path: Path) -> None:
    """In the order in which they were measured, by spec."""
    path = tmp_path / "series.csv"
    assert read_rows(path) == []
    assert section(path) == "No series is recorded yet."
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for number, state in enumerate(("VALID", "INVALID", "VALID"), 1):
            writer.writerow(["a", number, "-", state, *[number] * 5])
            writer.writerow(["b", number, "-", "VALID", *[number] * 5])
    found = read_series("p50", path)
    assert {name: [round(each) for each in np.exp(logs)] for name, logs in found.items()} == {
        "a": [1, 3],
        "b": [1, 2, 3],
    }
