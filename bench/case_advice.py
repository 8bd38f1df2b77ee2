"""The case advice: what advice promises, next to what it delivers once it is applied."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.case_layers import BOUNDED
from bench.figures import Bound
from bench.zoo_study import document, study

_OURS = "Inferometer"
_COUNT = Unit("", 0)
_PERCENT = Unit(" %", 1, 100)
_POINTS = Unit(" points", 1, 100)
_PRECISION = "Q6"
ADVISED = (*BOUNDED, "classification/shufflenet_v2_x0_5")
"""21 models: those whose bounds are measured, and one that computes many shapes."""


def _advised(model: str) -> dict[str, Any]:
    return document("advise", f"zoo://{model}", "--try", "--rounds", "6")


def judged(models: Iterable[list[dict[str, Any]]]) -> Figures:
    """Return the figures of the proposed pieces of advice of each model.

    Of the pieces of lower precision, of which a model has one for each engine, the one with the
    largest predicted gain is judged; of all others, each.
    """
    proposed, applied, chosen = 0, [], []
    for pieces in models:
        proposed += len(pieces)
        tried = [each for each in pieces if each["achievedGain"] is not None]
        lower = sorted((each for each in tried if each["question"] == _PRECISION), key=_predicted)
        applied += tried
        chosen += [each for each in tried if each["question"] != _PRECISION] + lower[-1:]
    if not chosen:
        return {"proposed": proposed, "applied": 0, "judged": 0}
    precision = sum(each["question"] == _PRECISION for each in chosen) / len(chosen)
    every = {f"all {name}": figure for name, figure in _kept(applied).items()}
    return {
        "proposed": proposed,
        "applied": len(applied),
        "judged": len(chosen),
        "questions": len({each["question"] for each in chosen}),
        "precision": precision,
        **_kept(chosen),
        **every,
    }


def _predicted(piece: Mapping[str, Any]) -> float:
    return float(piece["predictedGain"]["value"])


def _kept(pieces: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return how well predictions were kept."""
    gains = [(_predicted(each), float(each["achievedGain"]["value"])) for each in pieces]
    return {
        "error": median(abs(first - second) for first, second in gains),
        "sign": sum(first * second > 0 for first, second in gains) / len(gains),
        "half": sum(second >= first / 2 for first, second in gains) / len(gains),
    }


def _advice() -> Figures:
    found = study("advice", ADVISED, _advised)
    return judged(each["advice"] for each in found.values())


@contextmanager
def _stage(_: Place, __: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {_OURS: _advice}


ADVICE = Case(
    name="advice",
    title="Does advice deliver what it promises?",
    text="""\
21 models of the zoo under `inferometer advise --try`: batch 1, from ONNX Runtime with one thread.
Each piece of advice that settings or a rewritten model apply is applied: servers with and without
it are started in turn, in 6 rounds, and the median latency that a client sees is compared by round.
The prediction comes from inferences within one process. A model has a piece of lower precision for
each engine; the one with the largest prediction is judged, and all others.""",
    commands=(".venv/bin/python bench/run.py --case advice",),
    sides=(Side(_OURS),),
    stage=_stage,
    minutes=150,
    repeats=1,
    rows=(
        Row("Proposed pieces", Source(_OURS, "proposed"), _COUNT),
        Row("Applied pieces", Source(_OURS, "applied"), _COUNT),
        Row(
            "Judged pieces",
            Source(_OURS, "judged"),
            _COUNT,
            goal=(Bound("figure", "at least", 60),),
        ),
        Row(
            "Questions among them",
            Source(_OURS, "questions"),
            _COUNT,
            goal=(Bound("figure", "at least", 4),),
        ),
        Row(
            "Share of lower precision",
            Source(_OURS, "precision"),
            _PERCENT,
            goal=(Bound("figure", "at most", 1 / 3),),
        ),
        Row(
            "Predicted against achieved gain, median error",
            Source(_OURS, "error"),
            _POINTS,
            goal=(Bound("figure", "at most", 0.05),),
        ),
        Row(
            "Right sign", Source(_OURS, "sign"), _PERCENT, goal=(Bound("figure", "at least", 0.95),)
        ),
        Row(
            "At least half of the prediction",
            Source(_OURS, "half"),
            _PERCENT,
            goal=(Bound("figure", "at least", 0.8),),
        ),
        Row("Of all applied pieces: median error", Source(_OURS, "all error"), _POINTS),
        Row("Of all applied pieces: right sign", Source(_OURS, "all sign"), _PERCENT),
        Row("Of all applied pieces: at least half", Source(_OURS, "all half"), _PERCENT),
    ),
    is_pinned=False,
)
