"""Command line of the benchmarks: measures all cases, or one, and updates the page."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.case import Case, Place
from bench.case_advice import ADVICE
from bench.case_agent import AGENT_OVERHEAD
from bench.case_batching import BATCHING
from bench.case_bricks import (
    BRICKS,
    BRICKS_BATCHES,
    BRICKS_CLOCK,
    BRICKS_GRANULARITY,
    BRICKS_INTERPOLATED,
)
from bench.case_cache_mix import MODEL_CACHE_MIX
from bench.case_client import CLIENT_CASES
from bench.case_cluster import APPLY_TO_FIRST_QUERY, LAPTOP_AND_CLUSTER
from bench.case_fleet import FLEET_MASTER, FLEET_WORKERS
from bench.case_gpu_weights import GPU_WEIGHTS
from bench.case_judges import MLPERF_JUDGE, PERF_ANALYZER_JUDGE
from bench.case_layers import BOUNDS, LAYERS_SUM, PROFILE_OVERHEAD
from bench.case_matrix_units import MATRIX_UNITS
from bench.case_mlflow import RESULTS_MLFLOW
from bench.case_model_cache import MODEL_CACHE
from bench.case_operator import OPERATOR_SCALE
from bench.case_overhead import SERVER_OVERHEAD
from bench.case_pace import MEMORY, PACE
from bench.case_peak import PEAK
from bench.case_results_pages import RESULTS_PAGE, RESULTS_SEARCH
from bench.case_results_store import RESULTS_STORE
from bench.case_stacks import STACKS
from bench.case_start_up import START_UP
from bench.case_tiny import TINY_UNDER_WRK
from bench.case_tracing import TRACING
from bench.case_tune import TUNE
from bench.machine import Moment, disturbance, machine, today
from bench.measure import measure
from bench.page import PageError, render, replaced
from bench.processes import ROOT, BenchError, on_core, usable_cores

CASES: tuple[Case, ...] = (
    SERVER_OVERHEAD,
    TINY_UNDER_WRK,
    *CLIENT_CASES,
    PACE,
    MEMORY,
    FLEET_MASTER,
    FLEET_WORKERS,
    BATCHING,
    PEAK,
    AGENT_OVERHEAD,
    TRACING,
    MLPERF_JUDGE,
    PERF_ANALYZER_JUDGE,
    START_UP,
    MODEL_CACHE,
    MODEL_CACHE_MIX,
    RESULTS_STORE,
    RESULTS_SEARCH,
    RESULTS_PAGE,
    RESULTS_MLFLOW,
)
CLUSTER_CASES: tuple[Case, ...] = (
    APPLY_TO_FIRST_QUERY,
    LAPTOP_AND_CLUSTER,
    OPERATOR_SCALE,
    STACKS,
)
"""Measured only on request: they start a cluster, or an API server."""
ANALYSIS_CASES: tuple[Case, ...] = (
    LAYERS_SUM,
    PROFILE_OVERHEAD,
    BOUNDS,
    ADVICE,
    BRICKS,
    BRICKS_CLOCK,
    BRICKS_INTERPOLATED,
    BRICKS_BATCHES,
    BRICKS_GRANULARITY,
)
"""Measured only on request: they take hours, and can be interrupted and resumed."""
GPU_CASES: tuple[Case, ...] = (GPU_WEIGHTS, MATRIX_UNITS)
"""Measured only on request: they need an NVIDIA GPU; without, the page would lose its figures."""
ON_REQUEST = (*CLUSTER_CASES, TUNE, *ANALYSIS_CASES, *GPU_CASES)
PAGE = ROOT / "docs" / "performance.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the requested cases and return the exit code.

    0: everything was measured, whatever the figures; 1: a case failed and keeps its section.
    """
    options = _parser().parse_args(arguments)
    options.case = options.case or [case.name for case in CASES]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the children on the way out
    cases = [case for case in (*CASES, *ON_REQUEST) if case.name in options.case]
    _announce(cases)
    failed = False
    for number, case in enumerate(cases):
        title = f"[{number + 1}/{len(cases)} {case.name}]"
        try:
            section = _section(_with_options(case, options.repeats, options.seconds), title)
            print(section, end="\n\n", flush=True)
            if not options.dry:
                _write(case.name, section)
        except (BenchError, PageError, OSError) as error:
            print(f"bench: {case.name} could not be measured: {error}", file=sys.stderr)
            failed = True
        except KeyboardInterrupt:
            return 130
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Measure Inferometer next to its peers and write docs/performance.md."
    )
    names = [case.name for case in (*CASES, *ON_REQUEST)]
    parser.add_argument(
        "--case",
        action="append",
        choices=names,
        help="only this one; may be given several times; default: all but those on request",
    )
    parser.add_argument("--repeats", type=_positive, help="default: each case's own, mostly 5")
    parser.add_argument(
        "--seconds",
        type=_positive,
        help="how long a turn lasts that is measured by time; default: each case's own, 2 or 3",
    )
    parser.add_argument("--dry", action="store_true", help="leave docs/performance.md as it is")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def _announce(cases: Sequence[Case]) -> None:
    """Say how long each case will take about, by its own repeats and seconds."""
    for case in cases:
        print(f"{case.minutes:5.1f} min {case.name}", file=sys.stderr)
    total_minutes = sum(case.minutes for case in cases)
    print(f"{total_minutes:5.1f} min in all by default", file=sys.stderr, flush=True)


def _with_options(case: Case, repeats: int | None, seconds: float | None) -> Case:
    return replace(case, repeats=repeats or case.repeats, seconds=seconds or case.seconds)


def _section(case: Case, title: str) -> str:
    cores = usable_cores() if case.is_pinned else []
    server_core, client_core = (cores[0], cores[1]) if len(cores) > 1 else (None, None)
    began = time.monotonic()

    def log(what: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s {title} {what}", file=sys.stderr, flush=True)

    with TemporaryDirectory(prefix="inferometer-bench-") as folder, on_core(client_core):
        place = Place(server_core, client_core, Path(folder), case.seconds)
        before = Moment.now()
        measured = measure(case, place, case.repeats, log)
        after = Moment.now()
    pinned = (
        ("cores could not be chosen" if case.is_pinned else "no core was chosen")
        if server_core is None
        else f"server on core {server_core}, client on core {client_core}"
    )
    conditions = [
        f"{today()}; repeats: {case.repeats}; {pinned}. {machine()}",
        *([disturbance(before, after, os.cpu_count() or 1)] if measured.taken else []),
    ]
    return render(case, measured.taken, measured.missing, conditions)


def _write(name: str, section: str) -> None:
    """Put a case's section into the page: written to a temporary file and renamed."""
    page = replaced(PAGE.read_text(encoding="utf-8"), name, section)
    new_page = PAGE.with_suffix(".md.new")
    new_page.write_text(page, encoding="utf-8")
    new_page.replace(PAGE)
