"""What advice promised is set next to what it delivered."""

from typing import Any

import pytest
from bench.case_advice import judged


def _piece(question: str, predicted: float, achieved: float | None) -> dict[str, Any]:
    return {
        "question": question,
        "predictedGain": {"value": predicted},
        "achievedGain": None if achieved is None else {"value": achieved},
    }


def test_each_model_has_one_piece_of_lower_precision_among_those_judged() -> None:
    """It is the one with the largest prediction; all other pieces that were applied count."""
    models = [
        [_piece("Q1", 0.2, None), _piece("Q2", 0.4, 0.3), _piece("Q6", 0.1, -0.1)],
        [_piece("Q6", 0.7, 0.65), _piece("Q6", 0.5, 0.1), _piece("Q3", 0.1, 0.1)],
    ]
    found = judged(models)
    assert {name: found[name] for name in ("proposed", "applied", "judged", "questions")} == {
        "proposed": 6,
        "applied": 5,
        "judged": 4,
        "questions": 3,
    }
    assert found["precision"] == 0.5
    assert found["error"] == pytest.approx(0.075)
    assert (found["sign"], found["half"]) == (0.75, 0.75)
    assert (found["all sign"], found["all half"]) == (0.8, 0.6)
    assert judged([[_piece("Q1", 0.2, None)]]) == {"proposed": 1, "applied": 0, "judged": 0}
