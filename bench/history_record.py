"""The recorded history of `bench.history_series`: its series, and how change points do on them."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
from bench.page import replaced
from bench.processes import ROOT

from inferometer_results.history.change_points import PROMISED_CHANGE, find_change_points
from support.noise_models import (
    Logarithms,
    Noise,
    autoregressive,
    independent,
    processes,
    resampled,
    sticky_node,
    two_nodes,
)
from support.replayed_history import EqualRuns, replay_equal_runs, share_found

CSV = ROOT / "bench" / "data" / "history.csv"
PAGE = ROOT / "docs" / "explanation" / "regressions.md"
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}
FIGURES = ("qps", *PERCENTILES)
COLUMNS = ("spec", "round", "started_at", "verdict", *FIGURES)
"""Rates per second, latencies in nanoseconds."""
CALM = 0.03
"""Up to this variation a step of 5 % must be found."""
_SERIES = 200
_JUDGEMENTS = 1000
_COLUMNS_OF_PAGE = 120
_SIMULATED: Mapping[str, Noise] = {
    "independent, 3 %": independent,
    "each resembles the one before (0.6), 3 %": autoregressive,
    "15 % of runs on a node that is 10 % slower": two_nodes,
    "regimes of about 20 runs, 10 % apart": sticky_node,
    "2 to 20 % from process to process": processes,
}


def read_rows(path: Path = CSV) -> list[dict[str, str]]:
    """Return the recorded runs in the order in which they were measured; none without a file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_series(figure: str = "p50", path: Path = CSV) -> dict[str, Logarithms]:
    """Return the logarithms of a figure in the VALID runs of each spec."""
    found: dict[str, list[float]] = {}
    for row in read_rows(path):
        if row["verdict"] == "VALID":
            found.setdefault(row["spec"], []).append(float(row[figure]))
    return {name: np.log(np.array(values)) for name, values in found.items()}


def block_noise(series: Logarithms) -> Noise:
    """Return a noise that resamples blocks of a recorded series."""

    def noise(chance: np.random.Generator, runs: int) -> Logarithms:
        return resampled(series, runs, chance)

    return noise


def suite_of(series: Mapping[str, Logarithms], judgements: int = _JUDGEMENTS) -> EqualRuns:
    """Return what a suite of the recorded specs raises."""
    return replay_equal_runs([block_noise(each) for each in series.values()], judgements=judgements)


def section(path: Path = CSV) -> str:
    """Return the part of the page about recorded series."""
    series = read_series("p50", path)
    if not series:
        return "No series is recorded yet."
    rows, suite = read_rows(path), suite_of(series)
    invalid = sum(row["verdict"] != "VALID" for row in rows)
    words = (
        f"{len(rows):,} runs of {len(series)} specs from {rows[0]['started_at'][:16]} to "
        f"{rows[-1]['started_at'][:16]}, of which {invalid} were INVALID. The P50, resampled in "
        f"blocks of 10 runs. The suite of all {len(series)} raised {suite.candidates} candidates "
        f"and {suite.alerts_in_1000:.2g} alerts in {suite.judgements:,} executions."
    )
    noises = {name: block_noise(each) for name, each in series.items()}
    return f"{fill(words, _COLUMNS_OF_PAGE)}\n\n{_table(noises, series)}"


def simulated_section() -> str:
    """Return the part of the page about simulated series."""
    chance = np.random.default_rng(1)
    return _table(_SIMULATED, {name: noise(chance, 400) for name, noise in _SIMULATED.items()})


def write_page(page: Path = PAGE, path: Path = CSV) -> None:
    """Write both tables into the page."""
    text = page.read_text(encoding="utf-8")
    text = replaced(text, "history-simulated", simulated_section())
    page.write_text(replaced(text, "history-recorded", section(path)), encoding="utf-8")


def _table(noises: Mapping[str, Noise], series: Mapping[str, Logarithms]) -> str:
    header = (
        "series",
        "varies by",
        "candidates in 1,000 equal runs",
        "alerts in 1,000",
        "a step of 5 % found",
        "smallest change found",
    )
    lines: list[Sequence[str]] = [header, ["---"] * len(header)]
    for name, noise in noises.items():
        replayed = replay_equal_runs([noise], judgements=_JUDGEMENTS)
        known = find_change_points(list(np.exp(series[name][-40:]))).detectable
        lines.append(
            (
                name,
                f"{100 * series[name].std(ddof=1):.1f} %",
                f"{1000 * replayed.candidates / replayed.judgements:.1f}",
                f"{replayed.alerts_in_1000:.2g}",
                f"{100 * share_found(noise, PROMISED_CHANGE, _SERIES):.0f} %",
                "too few runs" if known is None else f"{100 * known:.1f} %",
            )
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
