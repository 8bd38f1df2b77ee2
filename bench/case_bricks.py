"""The cases bricks and bricks-...: how well, and how fast, layers predict models."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from bench.brick_shares import (
    BERTS,
    RUNS,
    Added,
    Found,
    brick_cost,
    leave_one_out,
    model_cost,
    timings_of,
    with_siblings,
)
from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.zoo_study import FOLDER, document, inferometer, run_python, study

from inferometer_analysis.bricks.predict import geometric_mean_error
from inferometer_fetch.built_in import cached_model, zoo_cache
from inferometer_models import zoo
from inferometer_results.layers.brick_errors import BUSY, STEADY
from inferometer_results.layers.slowness import SLOW

_OURS = "Inferometer"
_PERCENT = Unit(" %", 1, 100)
_TIMES = Unit(" x", 2)
_COUNT = Unit("", 0)
_TRIES = 3
_TOLERANCE = 0.1
_INTERPOLATED = ("--tolerance", f"{100 * _TOLERANCE:g}")
_RUN = ("bricks", "run", "--reference")
_LONG_NS = 10_000_000
_RESNETS = ("resnet101", "resnet152", "resnet18", "resnet34", "resnet50")
SUBSET = (
    *(
        f"classification/{name}"
        for name in (
            *("densenet121", "efficientnet_b0", "googlenet", "mnasnet1_0", "mobilenet_v2"),
            *("mobilenet_v3_large", "regnet_x_800mf", "resnet18", "resnet34", "resnet50"),
            *("shufflenet_v2_x1_0", "squeezenet1_1", "vgg11"),
        )
    ),
    "text/distilbert",
    "text/minilm_l6",
)
"""15 models."""
FEW = SUBSET[4:11]


def _time(study_name: str, words: Sequence[str], model: str) -> dict[str, Any]:
    """Time the bricks of a model that no model before it had, and the model itself.

    All of it is timed again if the machine was busy or slow, or the model's rounds differ. With a
    tolerance only the model is, since which bricks are needed then depends on those that are known.
    """
    folder = FOLDER / study_name
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    again: tuple[str, ...] = ()
    for _ in range(_TRIES):
        found = document(*_RUN, f"zoo://{model}", *again, *words, folder=folder)
        spreads = [each["spread"] for each in found["models"] if each["spread"] is not None]
        is_busy = found["otherCpuShare"] > BUSY or found["slowdown"] > SLOW
        if not is_busy and max(spreads, default=0.0) <= STEADY:
            break
        again = () if "--tolerance" in words else ("--again",)
    return found


def judged(found: Found) -> dict[str, float]:
    """Return the figures of all models together."""
    models = [one for each in found.values() for one in each["models"]]
    ratios = [(one["ratio"], one) for one in models if one["ratio"] is not None]
    steady = [ratio for ratio, one in ratios if one["spread"] <= STEADY]
    long = [abs(r - 1) for r, one in ratios if one["measuredNanoseconds"] >= _LONG_NS]
    return {
        "models": len(ratios),
        "steady": len(steady),
        "noise": median(one["spread"] for _, one in ratios),
        "error": geometric_mean_error(ratio for ratio, _ in ratios),
        "steady error": geometric_mean_error(steady) if steady else 1.0,
        "worst": max(long, default=0.0),
        "speed-up": speed_up(found, found),
        "engine": engine_speed_up(found),
    }


def speed_up(found: Found, names: Collection[str]) -> float:
    """Return the paper's speed-up: one run of each model by one run of each of their bricks."""
    models = 0.0
    bricks: dict[str, float] = {}
    for name in names:
        (one,) = found[name]["models"]
        models += one["measuredNanoseconds"]
        bricks |= {key: each["nanoseconds"] for key, each in found[name]["bricks"].items()}
    return float(models / sum(bricks.values()))


def engine_speed_up(found: Found) -> float:
    """Return the time of 23 runs of each model by that of all bricks, sessions included."""
    bricks: dict[str, float] = {}
    for each in found.values():
        bricks |= {key: brick_cost(brick) for key, brick in each["bricks"].items()}
    return sum(map(model_cost, found.values())) / sum(bricks.values())


def _zoo() -> Figures:
    found = study("bricks", zoo.names(), partial(_time, "bricks", ()))
    known = timings_of(FOLDER / "bricks")
    alone, interpolated = (leave_one_out(found, known, each) for each in (0.0, _TOLERANCE))
    siblings = with_siblings(found)
    resnets = [name for name in found if name.rpartition("/")[2] in _RESNETS]
    berts = [name for name in found if name.rpartition("/")[2] in BERTS]
    return {
        **judged(found),
        "resnets": speed_up(found, resnets) if resnets else 0.0,
        "berts": speed_up(found, berts) if berts else 0.0,
        **_added("", alone, siblings),
        **_added("interpolated ", interpolated, siblings),
        "interpolated error": geometric_mean_error(each.ratio for each in interpolated.values()),
    }


def _added(prefix: str, added: Mapping[str, Added], siblings: Sequence[str]) -> Figures:
    shares = [each.share for each in added.values()]
    of_siblings = [added[name].share for name in siblings] or [0.0]
    return {
        f"{prefix}added": median(shares),
        f"{prefix}added most": max(shares),
        f"{prefix}sibling median": median(of_siblings),
        f"{prefix}sibling most": max(of_siblings),
    }


def _interpolated() -> Figures:
    measure = partial(_time, "bricks-interpolated", _INTERPOLATED)
    found = study("bricks-interpolated", zoo.names(), measure)
    timed = {key for each in found.values() for key in each["bricks"]}
    needed = {key for each in found.values() for one in each["models"] for key in one["bricks"]}
    return {**judged(found), "timed": len(timed) / len(needed)}


_SETTINGS = {
    "batch 1": (),
    "batch 4": ("--batch-size", "4"),
    "batch 16": ("--batch-size", "16"),
    "two threads": ("--threads", "2", "--granularity", "3"),
}


def _subset(side: str) -> Figures:
    name = f"bricks-{side.replace(' ', '-')}"
    return judged(study(name, SUBSET, partial(_time, name, _SETTINGS[side])))


_GRANULARITIES = {f"G = {size}": str(size) for size in range(1, 11)}


def _granular(side: str) -> Figures:
    name = f"bricks-{side.replace(' ', '')}"
    words = ("--granularity", _GRANULARITIES[side])
    return judged(study(name, FEW, partial(_time, name, words)))


def _by_clock() -> Figures:
    """Return how long it takes until all models are timed, and until all are predicted."""
    paths = [str(cached_model(zoo.entry(each), zoo_cache())) for each in zoo.names()]
    run_python("-m", "bench.model_runs", "--runs", "1", *paths)  # both find the files in memory
    began = monotonic()
    words = ("-m", "bench.model_runs", "--runs", str(RUNS), *paths)
    measured = json.loads(run_python(*words))
    models_seconds = monotonic() - began
    stems = {Path(path).stem: median(times) for path, times in measured.items()}
    figures: dict[str, float] = {"models' seconds": models_seconds}
    for prefix, words in (("", ()), ("interpolated ", _INTERPOLATED)):
        with TemporaryDirectory(prefix="inferometer-bench-") as name:
            folder = Path(name)
            began = monotonic()
            inferometer("bricks", "run", "zoo://", *words, folder=folder)
            seconds = monotonic() - began
            text = inferometer("bricks", "predict", "zoo://", "--json", folder=folder)
        predicted = json.loads(text)
        figures |= {
            f"{prefix}seconds": seconds,
            f"{prefix}clock": models_seconds / seconds,
            f"{prefix}models": len(predicted),
            f"{prefix}error": geometric_mean_error(
                each["sequentialNanoseconds"] / stems[each["model"]] for each in predicted
            ),
        }
    return figures


@contextmanager
def _clock_stage(_: Place, __: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {_OURS: _by_clock}


@contextmanager
def _zoo_stage(_: Place, __: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {"Inferometer": _zoo}


@contextmanager
def _interpolated_stage(_: Place, __: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {"Inferometer": _interpolated}


@contextmanager
def _subset_stage(_: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {side: partial(_subset, side) for side in sides}


@contextmanager
def _granular_stage(_: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {side: partial(_granular, side) for side in sides}


def _row(what: str, side: str, figure: str, unit: Unit, bound: Bound | None = None) -> Row:
    return Row(what, Source(side, figure), unit, goal=() if bound is None else (bound,))


_ERROR = Bound("figure", "at most", 0.06)
_WORST = Bound("figure", "at most", 0.15)
BRICKS = Case(
    name="bricks",
    title="How well do layers predict models?",
    text="""\
70 models of the zoo under `inferometer bricks run --reference`: batch 1, one thread, ONNX
Runtime, granularity 1. Of each model the bricks are timed that no model before it has, in rounds
with the model itself.

The error is that of the prediction against the median of 10 rounds of the model; the spread of
these rounds (middle half by median) is the noise floor. Models that spread by more than 3 %, or
next to which other processes took more than 5 % of the CPU time, are timed again, twice at most;
those that still spread are inconclusive, and the error is given with and without them.

The speed-up by the paper's definition is one run of all models by one run of all bricks; by the
engine's time it counts opening and 23 runs of each model, and opening and all runs of each brick.
Leave-one-out: what it costs to add a model to a database of all others, by opening it and 23 runs;
once with all bricks that the others lack, and once with those that `--tolerance 10` times.""",
    commands=(".venv/bin/python bench/run.py --case bricks",),
    sides=(Side(_OURS),),
    stage=_zoo_stage,
    minutes=30,
    repeats=1,
    rows=(
        _row("Models compared", _OURS, "models", _COUNT, Bound("figure", "at least", 70)),
        _row("Models steady within 3 %", _OURS, "steady", _COUNT),
        _row("Noise floor: spread of a model, median", _OURS, "noise", _PERCENT),
        _row("Geometric-mean error", _OURS, "error", _PERCENT, _ERROR),
        _row("Geometric-mean error, steady models", _OURS, "steady error", _PERCENT, _ERROR),
        _row("Largest error of a model of 10 ms or more", _OURS, "worst", _PERCENT, _WORST),
        _row(
            "Speed-up, paper's definition",
            _OURS,
            "speed-up",
            _TIMES,
            Bound("figure", "at least", 2.5),
        ),
        _row("Speed-up on 5 ResNets", _OURS, "resnets", _TIMES, Bound("figure", "at least", 8)),
        _row("Speed-up on 5 BERTs", _OURS, "berts", _TIMES, Bound("figure", "at least", 30)),
        _row("Speed-up by the engine's time", _OURS, "engine", _TIMES),
        _row("Leave-one-out, all bricks timed, median", _OURS, "added", _PERCENT),
        _row("Leave-one-out, all bricks timed, most", _OURS, "added most", _PERCENT),
        _row("The same with a sibling, median", _OURS, "sibling median", _PERCENT),
        _row("The same with a sibling, most", _OURS, "sibling most", _PERCENT),
        _row("Leave-one-out, interpolated, median", _OURS, "interpolated added", _PERCENT),
        _row("Leave-one-out, interpolated, most", _OURS, "interpolated added most", _PERCENT),
        _row("The same with a sibling, median", _OURS, "interpolated sibling median", _PERCENT),
        _row(
            "The same with a sibling, most",
            _OURS,
            "interpolated sibling most",
            _PERCENT,
            Bound("figure", "at most", 0.25),
        ),
        _row(
            "Geometric-mean error of models added by interpolation",
            _OURS,
            "interpolated error",
            _PERCENT,
            _ERROR,
        ),
    ),
    is_pinned=False,
)
BRICKS_CLOCK = Case(
    name="bricks-clock",
    title="How soon are models predicted, by the clock?",
    text=f"""\
`inferometer bricks run zoo://` with an empty database, from its start to its end: the 70 models are
read, cut into bricks, and each different brick is opened, timed and kept. Next to it, a program of
ONNX Runtime alone that opens the 70 models and runs each {RUNS} times as in the paper; both find
the files in memory.

The error is that of the predictions against the medians of these runs, which were not made in the
same minutes. The same with `--tolerance {100 * _TOLERANCE:g}`, which times
the bricks that predictions need and interpolates the others.""",
    commands=(".venv/bin/python bench/run.py --case bricks-clock",),
    sides=(Side(_OURS),),
    stage=_clock_stage,
    minutes=8,
    repeats=1,
    rows=(
        _row("Models predicted", _OURS, "models", _COUNT, Bound("figure", "at least", 70)),
        _row("Seconds of `bricks run`", _OURS, "seconds", _COUNT),
        _row("Seconds of opening and running the models", _OURS, "models' seconds", _COUNT),
        _row("Speed-up by the clock", _OURS, "clock", _TIMES, Bound("figure", "at least", 2.0)),
        _row("Geometric-mean error", _OURS, "error", _PERCENT),
        _row("Interpolated: models predicted", _OURS, "interpolated models", _COUNT),
        _row("Interpolated: seconds of `bricks run`", _OURS, "interpolated seconds", _COUNT),
        _row(
            "Interpolated: speed-up by the clock",
            _OURS,
            "interpolated clock",
            _TIMES,
            Bound("figure", "at least", 4.4),
        ),
        _row(
            "Interpolated: geometric-mean error",
            _OURS,
            "interpolated error",
            _PERCENT,
            Bound("figure", "at most", 0.08),
        ),
    ),
    is_pinned=False,
)
BRICKS_INTERPOLATED = Case(
    name="bricks-interpolated",
    title="How many bricks does a prediction need?",
    text=f"""\
The 70 models of the case before, one after the other, with an empty database and
`inferometer bricks run --reference --tolerance {100 * _TOLERANCE:g}`: a brick is timed if the
prediction of its model needs it, and interpolated from others if not.""",
    commands=(".venv/bin/python bench/run.py --case bricks-interpolated",),
    sides=(Side(_OURS),),
    stage=_interpolated_stage,
    minutes=25,
    repeats=1,
    rows=(
        _row("Models compared", _OURS, "models", _COUNT, Bound("figure", "at least", 70)),
        _row("Share of the bricks that are timed", _OURS, "timed", _PERCENT),
        _row("Noise floor: spread of a model, median", _OURS, "noise", _PERCENT),
        _row(
            "Geometric-mean error",
            _OURS,
            "error",
            _PERCENT,
            Bound("figure", "at most", 0.08),
        ),
        _row("Largest error of a model of 10 ms or more", _OURS, "worst", _PERCENT),
        _row("Speed-up by the engine's time", _OURS, "engine", _TIMES),
    ),
    is_pinned=False,
)
BRICKS_BATCHES = Case(
    name="bricks-batches",
    title="Do predictions hold for other batch sizes and threads?",
    text="""\
15 models of the zoo as in the case before, at batch 1, 4 and 16 with one thread, and at batch 1
with two threads and granularity 3 (docs/explanation/bricks.md says why).""",
    commands=(".venv/bin/python bench/run.py --case bricks-batches",),
    sides=tuple(map(Side, _SETTINGS)),
    stage=_subset_stage,
    minutes=40,
    repeats=1,
    rows=tuple(
        row
        for side in _SETTINGS
        for row in (
            _row(f"{side}: noise floor", side, "noise", _PERCENT),
            _row(f"{side}: geometric-mean error", side, "error", _PERCENT, _ERROR),
            _row(f"{side}: largest error from 10 ms", side, "worst", _PERCENT, _WORST),
        )
    ),
    is_pinned=False,
)
BRICKS_GRANULARITY = Case(
    name="bricks-granularity",
    title="What does the granularity do to error and speed-up?",
    text="""\
7 models of the zoo as in the cases before, with bricks of at most G layers, for each G from 1 to 10
as in the paper.""",
    commands=(".venv/bin/python bench/run.py --case bricks-granularity",),
    sides=tuple(map(Side, _GRANULARITIES)),
    stage=_granular_stage,
    minutes=30,
    repeats=1,
    rows=tuple(
        row
        for side in _GRANULARITIES
        for row in (
            _row(f"{side}: geometric-mean error", side, "error", _PERCENT),
            _row(f"{side}: speed-up, paper's definition", side, "speed-up", _TIMES),
        )
    ),
    is_pinned=False,
)
