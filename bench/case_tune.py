"""The case tune: `inferometer tune` next to the full grid of its candidates."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.processes import ROOT, BenchError

from inferometer_api.spec.resolve import fill_defaults
from inferometer_cli.exits import deferred_signals
from inferometer_cli.local.measurement import measure
from inferometer_cli.run_file import parse_run_text

_MODEL = "zoo://classification/shufflenet_v2_x0_5"
_BOUND = "50ms"
_AGAIN = 3
_TUNE, _GRID = "inferometer tune", "full grid"
_RATE, _SECONDS, _CELLS = "rate", "seconds", "cells"

Fields = dict[str, Any]
Rate = Callable[[Mapping[str, Any], int], float]
"""Measures a cell, its members of spec.server, in full with a seed; returns its rate."""


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    @cache
    def compare_once() -> Mapping[str, Figures]:
        output = place.folder / "tuned"
        began = time.monotonic()
        _tune(place, output)
        tune_seconds = time.monotonic() - began
        with deferred_signals() as ending:

            def rate(server: Mapping[str, Any], seed: int) -> float:
                run = parse_run_text(yaml.safe_dump(cell_run(best, server, seed)), source=_GRID)
                document = measure(fill_defaults(run), place.folder, ending, watch=lambda *_: None)
                if document.outcome.state in {"Interrupted", "Terminated"}:
                    raise KeyboardInterrupt
                peak = document.scenarios[0].peak if document.scenarios else None
                return 0.0 if peak is None else peak.qps or peak.low_qps or 0.0

            best = yaml.safe_load((output / "best.yaml").read_text(encoding="utf-8"))
            summary = json.loads((output / "tune.json").read_text(encoding="utf-8"))
            return compare(summary, tune_seconds, rate)

    yield {name: lambda name=name: compare_once()[name] for name in sides}  # type: ignore[misc]  # mypy infers no default


def _tune(place: Place, output: Path) -> None:
    seconds = int(place.turn_seconds)
    words = (
        *("tune", _MODEL, "--p99", _BOUND, "--seconds", str(seconds), "--output", str(output)),
        *("--set", f"spec.validity.maxDurationSeconds={seconds}"),
        *("--set", "spec.validity.minDurationSeconds=1"),
    )
    command = str(Path(sys.executable).with_name("inferometer"))
    done = subprocess.run((command, *words), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 3}:
        raise BenchError(f"inferometer tune failed: {done.stderr[-1500:]}")


def cell_run(best: Fields, server: Mapping[str, Any], seed: int) -> Fields:
    """Return the run that tune wrote with the server of another cell, and a seed of its own."""
    spec = best["spec"]
    load = {**spec.get("load", {}), "seed": seed}
    return {**best, "spec": {**spec, "server": dict(server), "load": load}}


def compare(summary: Mapping[str, Any], tune_seconds: float, rate: Rate) -> Mapping[str, Figures]:
    """Measure every cell, and then the grid's best and tune's in turn, with fresh seeds.

    Cells that tune left out for other outputs cannot be the grid's best: their time counts.
    """
    cells: Sequence[Mapping[str, Any]] = summary["candidates"]
    tuned = cells.index(summary["confirmed"][0]["server"])
    seeds = iter(range(1_000_000, 2_000_000))
    began = time.monotonic()
    rates = [rate(cell, next(seeds)) for cell in cells]
    grid_seconds = time.monotonic() - began
    allowed = [each for each in range(len(cells)) if str(each) not in summary["excluded"]]
    best = max(allowed, key=lambda each: rates[each])
    found: dict[int, list[float]] = {tuned: [], best: []}
    for _ in range(_AGAIN if best != tuned else 1):
        for each in (tuned, best) if best != tuned else (tuned,):
            found[each].append(rate(cells[each], next(seeds)))
    return {
        _TUNE: {_RATE: _middle(found[tuned]), _SECONDS: tune_seconds, _CELLS: len(cells)},
        _GRID: {_RATE: _middle(found[best]), _SECONDS: grid_seconds, _CELLS: len(cells)},
    }


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _row(what: str, figure: str, unit: Unit, *goal: Bound) -> Row:
    return Row(what, Source(_TUNE, figure), unit, Source(_GRID, figure), goal)


TUNE = Case(
    name="tune",
    title="Tuning next to the full grid",
    text=f"""\
`inferometer tune {_MODEL} --p99 {_BOUND}`, and then every one of its candidates (27 on two
CPUs: engine, precision, threads, instances and batch size) by the same search for the peak that
tune confirms its best three with.

A measurement may take as long as a turn, a minute by default. The best cell of the grid was
lucky, as the best of many noisy figures is; if it is not the one that tune found, both are
measured {_AGAIN} times more in turn, with fresh seeds, and the rates are the medians of these.
Goals: 95 % of the grid's rate in 20 % of its time.""",
    commands=("make bench CASE=tune", f"inferometer tune {_MODEL} --p99 {_BOUND}"),
    sides=(Side(_TUNE), Side(_GRID)),
    stage=_stage,
    rows=(
        _row("rate of the best cell", _RATE, Unit(" /s", 1), Bound("ratio", "at least", 0.95)),
        _row("time", _SECONDS, Unit(" s", 0), Bound("ratio", "at most", 0.2)),
        _row("cells", _CELLS, Unit("", 0)),
    ),
    minutes=40,
    repeats=1,
    seconds=60,
    is_pinned=False,
)
