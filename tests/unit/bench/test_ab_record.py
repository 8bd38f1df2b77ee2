"""The recorded series of real comparisons keeps what `ab` promises."""

import csv
import math
from pathlib import Path

import numpy as np
from bench.ab_record import COLUMNS, FIGURES, read_pairs
from bench.alarm_rules import previous, quartiles, rows, student


def test_recorded_pairs_of_equal_variants_show_no_difference() -> None:
    """No false alarm in all real pairs whose variants are the same."""
    equal = [pair for pair in read_pairs() if not pair.is_planted]
    assert len(equal) >= 40
    assert all(pair.judgements() for pair in equal)
    assert {pair.name: pair.differing() for pair in equal if pair.differing()} == {}


def test_recorded_slowdowns_are_found() -> None:
    """At least nine in ten of the pairs whose second server waits for a tenth of the median."""
    planted = [pair for pair in read_pairs() if pair.is_planted]
    assert len(planted) >= 20
    assert sum(pair.is_slower for pair in planted) >= 0.9 * len(planted)


def test_a_round_with_an_invalid_run_does_not_count(tmp_path: Path) -> None:
    """Only rounds in which both runs are VALID become figures of a pair."""
    file = tmp_path / "series.csv"
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(COLUMNS)
        for number, state in enumerate(("VALID", "INVALID", "VALID"), 1):
            for variant in "AB":
                verdict = state if variant == "B" else "VALID"
                writer.writerow(["equal-01", number, variant, "-", verdict, *[1] * len(FIGURES)])
    (pair,) = read_pairs(file)
    assert (len(pair.a), len(pair.b)) == (2, 2)
    assert pair.judgements() == {}


def test_rules_report_what_they_say() -> None:
    """A run 10 % above the previous one, above the interval of the last, above the quartiles."""
    history = np.random.default_rng(1).normal(0, 0.01, 80)
    assert previous(history, history[-1] + math.log(1.11))
    assert not previous(history, history[-1] + math.log(1.09))
    assert student(0.99, 64)(history, 0.05)
    assert not student(0.99, 64)(history, 0.0)
    assert quartiles(history, 0.1)
    assert not quartiles(history, 0.02)


def test_calm_runs_raise_no_alarm_and_show_ten_percent() -> None:
    """On independent runs that scatter by 1 %, every careful rule is calm and sees 10 %."""
    series = np.random.default_rng(5).normal(0, 0.01, 200)
    interleaved = rows(series)[-1]
    assert interleaved.shares[0] == 0
    assert interleaved.shares[2] == 1
