"""The case advice: what advice promises, next to what it delivers once it is applied."""

from collections.abc import Iterator, Mapping
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


def _advised(model: str) -> dict[str, Any]:
    return document("advise", f"zoo://{model}", "--try", "--rounds", "6")


def judged(pieces: list[dict[str, Any]]) -> Figures:
    """Return the figures of all proposed pieces of advice."""
    applied = [each for each in pieces if each["achievedGain"] is not None]
    gains = [(each["predictedGain"]["value"], each["achievedGain"]["value"]) for each in applied]
    if not gains:
        return {"proposed": len(pieces), "applied": 0}
    return {
        "proposed": len(pieces),
        "applied": len(applied),
        "questions": len({each["question"] for each in applied}),
        "precision": sum(each["question"] == "Q6" for each in applied) / len(applied),
        "error": median(abs(first - second) for first, second in gains),
        "sign": sum(first * second > 0 for first, second in gains) / len(gains),
        "half": sum(second >= first / 2 for first, second in gains) / len(gains),
    }


def _advice() -> Figures:
    found = study("advice", BOUNDED, _advised)
    return judged([piece for each in found.values() for piece in each["advice"]])


@contextmanager
def _stage(_: Place, __: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {_OURS: _advice}


ADVICE = Case(
    name="advice",
    title="Does advice deliver what it promises?",
    text="""\
20 models of the zoo under `inferometer advise --try`: batch 1, from ONNX Runtime with one thread.
Each piece of advice that settings or a rewritten model apply is applied: servers with and without
it are started in turn, in 6 rounds, and the median latency that a client sees is compared by round.
The prediction comes from inferences within one process.""",
    commands=(".venv/bin/python bench/run.py --case advice",),
    sides=(Side(_OURS),),
    stage=_stage,
    minutes=150,
    repeats=1,
    rows=(
        Row("Proposed pieces", Source(_OURS, "proposed"), _COUNT),
        Row(
            "Applied pieces",
            Source(_OURS, "applied"),
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
    ),
    is_pinned=False,
)
