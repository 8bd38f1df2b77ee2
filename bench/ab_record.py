"""The recorded series of `bench.ab_series`: its runs by pair, and what their differences show."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from textwrap import fill

import numpy as np
from bench.processes import ROOT
from numpy.typing import NDArray

from inferometer_api.judgement import (
    DEFAULT_MARGIN,
    FEWEST_RUNS,
    PAIRED_FALSE_ALARMS,
    Judgement,
    MarginRule,
    judge_pairs,
    part_of_look,
)

CSV = ROOT / "tests" / "data" / "ab" / "series.csv"
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}
FIGURES = ("qps", *PERCENTILES)
COLUMNS = ("pair", "round", "variant", "started_at", "verdict", *FIGURES)
"""Rates per second, latencies in nanoseconds."""
COLUMNS_OF_PAGE = 120
PLANNED_ROUNDS, MOST_ROUNDS = 12, 24
"""Rounds until the first look at a pair, and until the second one."""

Logs = NDArray[np.float64]
"""Logarithms of a figure, in the order in which its runs were measured."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The rounds of one `ab` in which both runs are VALID."""

    name: str
    look: int
    """Which look at the series judges it: the second one if more than the planned rounds follow."""
    a: list[dict[str, float]] = field(default_factory=list)
    b: list[dict[str, float]] = field(default_factory=list)

    @property
    def is_planted(self) -> bool:
        """Whether the second server waits."""
        return self.name.startswith("planted")

    def judgements(self) -> dict[str, Judgement]:
        """Return the judgement of each figure, as `ab` makes it for all of them together."""
        if len(self.a) < FEWEST_RUNS:
            return {}
        part = part_of_look(self.look)
        rule = MarginRule(DEFAULT_MARGIN, PAIRED_FALSE_ALARMS, len(FIGURES), part)
        return {
            name: judge_pairs(
                [run[name] for run in self.a],
                [run[name] for run in self.b],
                rule,
                more_is_better=name == "qps",
            )
            for name in FIGURES
        }

    def differing(self) -> list[str]:
        """Return the figures that are shown to differ, with the word for it."""
        return [
            f"{name} {each.outcome} {each.ratio - 1:+.1%}"
            for name, each in self.judgements().items()
            if each.outcome in {"better", "worse"}
        ]

    @property
    def is_slower(self) -> bool:
        """Whether the second variant is shown to be slower in any figure."""
        return any(each.outcome == "worse" for each in self.judgements().values())


def read_pairs(path: Path = CSV) -> list[Pair]:
    """Return the pairs in the order in which they were measured."""
    rounds: dict[str, dict[int, dict[str, dict[str, str]]]] = {}
    for row in _rows(path):
        rounds.setdefault(row["pair"], {}).setdefault(int(row["round"]), {})[row["variant"]] = row
    pairs = []
    for name, found in rounds.items():
        pair = Pair(name, 1 if max(found) <= PLANNED_ROUNDS else 2)
        for _, runs in sorted(found.items()):
            if len(runs) == 2 and all(run["verdict"] == "VALID" for run in runs.values()):
                pair.a.append(_figures(runs["A"]))
                pair.b.append(_figures(runs["B"]))
        pairs.append(pair)
    return pairs


def read_equal_runs(figure: str, path: Path = CSV) -> Logs:
    """Return the logarithms of a figure in all VALID runs of the first variant."""
    values = [
        float(row[figure])
        for row in _rows(path)
        if row["verdict"] == "VALID" and (row["variant"] == "A" or row["pair"].startswith("equal"))
    ]
    logs: Logs = np.log(np.array(values))
    return logs


def section(path: Path = CSV) -> str:
    """Return the part of the page about the pairs."""
    pairs, rows = read_pairs(path), list(_rows(path))
    invalid = sum(row["verdict"] != "VALID" for row in rows)
    medians = np.exp(read_equal_runs("p50", path))
    low, middle, high = (float(np.quantile(medians, at)) / 1e6 for at in (0, 0.5, 1))
    runs = (
        f"{len(rows):,} runs from {_minute(rows[0])} to {_minute(rows[-1])} UTC, of which "
        f"{invalid} were INVALID. The median of the first variant was {middle:.2f} ms, in single "
        f"runs from {low:.2f} to {high:.2f} ms."
    )
    equal = [each for each in pairs if not each.is_planted]
    planted = [each for each in pairs if each.is_planted]
    lines = [
        fill(runs, COLUMNS_OF_PAGE),
        "",
        "| second variant | pairs | judged after 24 rounds | shown to differ | change of the P50 |",
        "|---|---|---|---|---|",
        _line("equal", equal, sum(bool(each.differing()) for each in equal)),
        _line("waits 10 %", planted, sum(each.is_slower for each in planted)),
    ]
    return "\n".join(lines)


def _line(name: str, pairs: Sequence[Pair], differing: int) -> str:
    changes = [judged["p50"].ratio - 1 for pair in pairs if (judged := pair.judgements())]
    seen = "-"
    if changes:
        seen = f"{median(changes):+.1%} ({min(changes):+.1%} to {max(changes):+.1%})"
    twice = sum(pair.look == 2 for pair in pairs)
    return f"| {name} | {len(pairs)} | {twice} | {differing} | {seen.replace('%', ' %')} |"


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _minute(row: dict[str, str]) -> str:
    return row["started_at"][:16].replace("T", " ")


def _figures(row: dict[str, str]) -> dict[str, float]:
    return {name: float(row[name]) for name in FIGURES}
