"""The cases bricks, bricks-batches and bricks-granularity: how well layers predict models."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.zoo_study import FOLDER, document, study

from inferometer_analysis.bricks.predict import geometric_mean_error
from inferometer_models import zoo
from inferometer_results.layers.brick_errors import BUSY, STEADY

_PERCENT = Unit(" %", 1, 100)
_TIMES = Unit(" x", 2)
_COUNT = Unit("", 0)
_TRIES = 3
_RUN = ("bricks", "run", "--reference")
_LONG_NS = 10_000_000
_RUNS = 23
_BERTS = ("albert_base", "bert_base", "distilbert", "minilm_l6", "roberta_base")
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
Found = Mapping[str, Mapping[str, Any]]


def _timed(study_name: str, words: Sequence[str], model: str) -> dict[str, Any]:
    """Time the bricks of a model that no model before it had, and the model itself.

    All of it is timed again if other processes used the CPUs, or the model's rounds differ.
    """
    folder = FOLDER / study_name
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    again: tuple[str, ...] = ()
    for _ in range(_TRIES):
        found = document(*_RUN, f"zoo://{model}", *again, *words, folder=folder)
        spreads = [each["spread"] for each in found["models"] if each["spread"] is not None]
        is_busy = found["otherCpuShare"] > BUSY
        if not is_busy and max(spreads, default=0.0) <= STEADY:
            break
        again = ("--again",) if is_busy else ()
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
        "wall": wall_time_speed_up(found),
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


def wall_time_speed_up(found: Found) -> float:
    """Return the time of 23 runs of each model by that of all bricks, sessions included."""
    bricks: dict[str, float] = {}
    for each in found.values():
        bricks |= {key: _cost(brick) for key, brick in each["bricks"].items()}
    return sum(map(_model_cost, found.values())) / sum(bricks.values())


def _cost(brick: Mapping[str, float]) -> float:
    return float(brick["sessionNanoseconds"] + brick["runs"] * brick["nanoseconds"])


def _model_cost(found: Mapping[str, Any]) -> float:
    (one,) = found["models"]
    return float(one["sessionNanoseconds"] + _RUNS * one["measuredNanoseconds"])


def leave_one_out(found: Found) -> dict[str, float]:
    """Return what it costs to add each model to a database of all others, by running the model."""
    shares = {}
    for name, each in found.items():
        others = {key for other, one in found.items() if other != name for key in one["bricks"]}
        added = sum(_cost(brick) for key, brick in each["bricks"].items() if key not in others)
        shares[name] = added / _model_cost(each)
    return shares


def _family(name: str) -> str:
    stem = name.rpartition("/")[2]
    return "bert" if stem in _BERTS else re.split(r"[\d_]", stem)[0]


def _siblings(found: Found) -> dict[str, float]:
    """Return the shares of the models that have a sibling of their family."""
    families = [_family(name) for name in found]
    shares = leave_one_out(found)
    return {name: share for name, share in shares.items() if families.count(_family(name)) > 1}


def _zoo() -> Figures:
    found = study("bricks", zoo.names(), partial(_timed, "bricks", ()))
    shares, siblings = leave_one_out(found), _siblings(found)
    resnets = [name for name in found if name.rpartition("/")[2] in _RESNETS]
    berts = [name for name in found if name.rpartition("/")[2] in _BERTS]
    return {
        **judged(found),
        "resnets": speed_up(found, resnets) if resnets else 0.0,
        "berts": speed_up(found, berts) if berts else 0.0,
        "added": median(shares.values()),
        "added most": max(shares.values()),
        "sibling": max(siblings.values(), default=0.0),
        "sibling median": median(siblings.values()) if siblings else 0.0,
    }


_SETTINGS = {
    "batch 1": (),
    "batch 4": ("--batch-size", "4"),
    "batch 16": ("--batch-size", "16"),
    "two threads": ("--threads", "2"),
}


def _subset(side: str) -> Figures:
    name = f"bricks-{side.replace(' ', '-')}"
    return judged(study(name, SUBSET, partial(_timed, name, _SETTINGS[side])))


_GRANULARITIES = {f"G = {size}": str(size) for size in range(1, 11)}


def _granular(side: str) -> Figures:
    name = f"bricks-{side.replace(' ', '')}"
    words = ("--granularity", _GRANULARITIES[side])
    return judged(study(name, FEW, partial(_timed, name, words)))


@contextmanager
def _zoo_stage(_: Place, __: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {"Inferometer": _zoo}


@contextmanager
def _subset_stage(_: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {side: partial(_subset, side) for side in sides}


@contextmanager
def _granular_stage(_: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {side: partial(_granular, side) for side in sides}


def _row(what: str, side: str, figure: str, unit: Unit, bound: Bound | None = None) -> Row:
    return Row(what, Source(side, figure), unit, goal=() if bound is None else (bound,))


_OURS = "Inferometer"
_ERROR = Bound("figure", "at most", 0.06)
_WORST = Bound("figure", "at most", 0.15)
BRICKS = Case(
    name="bricks",
    title="How well do layers predict models?",
    text="""\
70 models of the zoo under `inferometer bricks run --reference`: batch 1, one thread, ONNX Runtime,
granularity 1. Of each model the bricks are timed that no model before it has, in rounds with the
model itself. The error is that of the prediction against the median of 10 rounds of the model; the
spread of these rounds (middle half by median) is the noise floor. Models that spread by more than
3 %, or next to which other processes took more than 5 % of the CPU time, are timed again, twice at
most; those that still spread are inconclusive, and the error is given with and without them. The
speed-up by the paper's definition is one run of all models by one run of all bricks; by wall time
it counts opening and 23 runs of each model, and opening and all runs of each brick. Leave-one-out:
what the bricks cost that no other model has, by opening and 23 runs of the model.""",
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
        _row("Speed-up by wall time", _OURS, "wall", _TIMES, Bound("figure", "at least", 2)),
        _row("Leave-one-out, median", _OURS, "added", _PERCENT),
        _row("Leave-one-out, most", _OURS, "added most", _PERCENT),
        _row("Leave-one-out with a sibling, median", _OURS, "sibling median", _PERCENT),
        _row(
            "Leave-one-out with a sibling, most",
            _OURS,
            "sibling",
            _PERCENT,
            Bound("figure", "at most", 0.25),
        ),
    ),
    is_pinned=False,
)
BRICKS_BATCHES = Case(
    name="bricks-batches",
    title="Do predictions hold for other batch sizes and threads?",
    text="""\
15 models of the zoo as in the case before, at batch 1, 4 and 16 with one thread, and at batch 1
with two threads.""",
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
