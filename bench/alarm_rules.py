"""Counts how often rules for regressions alarm on our own series of equal runs, and what they find.

    python -m bench.alarm_rules

reads the series that `bench.ab_series` recorded, and writes both its tables into the page.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import numpy as np
from bench.ab_record import COLUMNS_OF_PAGE, CSV, Logs, read_equal_runs
from bench.ab_record import section as pairs_section
from bench.page import replaced
from bench.processes import ROOT

from inferometer_api.judgement import (
    DEFAULT_MARGIN,
    PAIRED_FALSE_ALARMS,
    MarginRule,
    judge_pairs,
    part_of_look,
)
from inferometer_api.statistics import student_quantile

PAGE = ROOT / "docs" / "explanation" / "differences.md"
CHANGES = (0.0, 0.05, 0.10)
_HISTORY = 80
_ORDERS = 4
"""Random orders of A and B at each place of the series."""
_SEED = 20261124

HistoryRule = Callable[[Logs, float], bool]
"""Whether a run's figure is an alarm after this history."""


@dataclass(frozen=True, slots=True)
class Row:
    """A rule, and how often it reports a figure that is larger by each of `CHANGES`."""

    rule: str
    shares: tuple[float, ...]


def previous(history: Logs, value: float) -> bool:
    """Report a figure that is 10 % above the previous one."""
    return bool(value - history[-1] > math.log(1.1))


def student(confidence: float, runs: int) -> HistoryRule:
    """Report a figure above the prediction interval of so many runs, by Student's t."""

    def rule(history: Logs, value: float) -> bool:
        last = history[-runs:]
        error = float(last.std(ddof=1)) * math.sqrt(1 + 1 / len(last))
        return value - float(last.mean()) > student_quantile(confidence, len(last) - 1) * error

    return rule


def quartiles(history: Logs, value: float) -> bool:
    """Report a figure above the median by more than three interquartile ranges."""
    low, middle, high = np.quantile(history, [0.25, 0.5, 0.75])
    return bool(value > middle + 3 * (high - low))


def deviations(history: Logs, value: float) -> bool:
    """Report a figure above the mean by five standard deviations."""
    return bool(value > history.mean() + 5 * history.std(ddof=1))


HISTORY_RULES: dict[str, HistoryRule] = {
    "previous run +10 %": previous,
    "Student's t at 0.99, last 64 runs": student(0.99, 64),
    "Student's t at 0.9999, last 64 runs": student(0.9999, 64),
    "median + 3 interquartile ranges": quartiles,
    "mean + 5 standard deviations": deviations,
}


def of_history(rule: HistoryRule, series: Logs, change: float, *, confirmed: bool = False) -> float:
    """Return the share of runs that a rule reports, if all are slower by a fraction.

    With `confirmed` the next run must be reported as well, after the same history.
    """
    planted = series + math.log1p(change)
    places = range(_HISTORY, len(series) - 1)
    alarms = [
        rule(series[at - _HISTORY : at], planted[at])
        and (not confirmed or rule(series[at - _HISTORY : at], planted[at + 1]))
        for at in places
    ]
    return sum(alarms) / len(alarms)


def of_pairs(series: Logs, change: float, looks: Sequence[int], *, random_order: bool) -> float:
    """Return the share of interleaved series whose second variant is reported as slower.

    The runs of each stretch of the series become A and B: in turns as `ab` does, or in a random
    order. They are judged after the first number of rounds, and while inconclusive after the next.
    """
    chance = np.random.default_rng(_SEED)
    rounds = max(looks)
    turns = np.array([[2 * each + each % 2, 2 * each + 1 - each % 2] for each in range(rounds)])
    alarms = []
    for start in range(len(series) - 2 * rounds + 1):
        for _ in range(_ORDERS if random_order else 1):
            order = chance.permuted(turns, axis=1) if random_order else turns
            first, second = series[start + order].T
            figures = (list(np.exp(first)), list(np.exp(second) * (1 + change)))
            alarms.append(_outcome(*figures, looks) == "worse")
    return sum(alarms) / len(alarms)


def _outcome(before: list[float], after: list[float], looks: Sequence[int]) -> str:
    outcome = "inconclusive"
    for look, rounds in enumerate(looks, 1):
        if outcome == "inconclusive":
            rule = MarginRule(DEFAULT_MARGIN, PAIRED_FALSE_ALARMS, part=part_of_look(look))
            figures = (before[:rounds], after[:rounds])
            outcome = judge_pairs(*figures, rule, more_is_better=False).outcome
    return outcome


def rows(series: Logs) -> list[Row]:
    """Return every rule with what it reports on a series of equal runs."""
    found = [
        Row(name, tuple(of_history(rule, series, change) for change in CHANGES))
        for name, rule in HISTORY_RULES.items()
    ]
    twice = student(0.99, 64)
    confirmed = tuple(of_history(twice, series, change, confirmed=True) for change in CHANGES)
    found.append(Row("Student's t at 0.99, confirmed by the next run", confirmed))
    for looks, is_random in (((12,), True), ((12,), False), ((12, 24), False)):
        order = "random order" if is_random else "A B, B A"
        more = "".join(f", {each} if inconclusive" for each in looks[1:])
        name = f"**interleaved, {looks[0]} rounds{more}, {order}**"
        shares = tuple(of_pairs(series, each, looks, random_order=is_random) for each in CHANGES)
        found.append(Row(name, shares))
    return found


def table(figures: Sequence[tuple[str, Logs]]) -> str:
    """Return the table of all rules, with a column for each figure."""
    columns = [rows(series) for _, series in figures]
    head = [
        "rule",
        *(f"{name} (varies by {100 * series.std(ddof=1):.1f} %)" for name, series in figures),
    ]
    lines = [head, ["---"] * len(head)]
    lines += [[row[0].rule, *map(_cell, row)] for row in zip(*columns, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def section(path: Path = CSV) -> str:
    """Return the part of the page about the rules."""
    figures = [(name.upper(), read_equal_runs(name, path)) for name in ("p50", "p99")]
    runs = len(figures[0][1])
    words = (
        f"{runs:,} VALID runs of equal variants. False alarms in 1,000 judgements (and the share "
        "of slowdowns of 5 and of 10 % that are found):"
    )
    return f"{fill(words, COLUMNS_OF_PAGE)}\n\n{table(figures)}"


def write_page(page: Path = PAGE, path: Path = CSV) -> None:
    """Write both tables into the page."""
    text = page.read_text(encoding="utf-8")
    for name, made in (("ab-series", pairs_section), ("alarm-rules", section)):
        text = replaced(text, name, made(path))
    page.write_text(text, encoding="utf-8")


def _cell(row: Row) -> str:
    alarms, small, large = row.shares
    return f"{1000 * alarms:.3g} ({small:.0%}, {large:.0%})".replace("%", " %")


if __name__ == "__main__":
    write_page()
