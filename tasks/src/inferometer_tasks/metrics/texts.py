"""Accuracy of texts: exact match and F1 as SQuAD defines them, word and character error rates."""

import json
import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.metrics.metric import MetricValue, RunningMean, share
from inferometer_tasks.sample import Prediction

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized_answer(text: str) -> str:
    """Return an answer in lower case without punctuation, articles and further blanks (SQuAD)."""
    plain = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def f1_score(prediction: str, answer: str) -> float:
    """Return the harmonic mean of precision and recall of words (SQuAD)."""
    found, wanted = normalized_answer(prediction).split(), normalized_answer(answer).split()
    if not found or not wanted:
        return float(found == wanted)
    common = (Counter(found) & Counter(wanted)).total()
    return 2 * common / (len(found) + len(wanted))


class ExactMatch:
    """The share of samples whose answer equals one of the labels, normalized."""

    def __init__(self) -> None:
        self._correct = self._samples = 0

    def add(self, prediction: Prediction, label: Any) -> bool:
        """Count an answer."""
        found = normalized_answer(_text(prediction, "ExactMatch"))
        correct = any(found == normalized_answer(each) for each in _answers(label))
        self._samples += 1
        self._correct += correct
        return correct

    def result(self) -> MetricValue | None:
        """Return the share with its bounds."""
        return share(self._correct, self._samples) if self._samples else None


class F1:
    """The mean over the samples of the best F1 with any of the labels."""

    def __init__(self) -> None:
        self._mean = RunningMean()

    def add(self, prediction: Prediction, label: Any) -> None:
        """Count an answer."""
        found = _text(prediction, "F1")
        self._mean.add(max(f1_score(found, each) for each in _answers(label)))

    def result(self) -> MetricValue | None:
        """Return the mean with its bounds."""
        return self._mean.result_of_scores()


class ErrorRate:
    """Insertions, deletions and substitutions over all samples, by units of the labels.

    Of several labels of a sample the one with the lowest rate counts, the first of equal ones.
    """

    def __init__(self, unit: Literal["word", "character"]) -> None:
        self._splits = unit == "word"
        self._name = "WER" if self._splits else "CER"
        self._edits = self._length = self._samples = 0

    def add(self, prediction: Prediction, label: Any) -> bool:
        """Count a text."""
        from rapidfuzz.distance import Levenshtein  # noqa: PLC0415 - in the extra tasks

        found = self._units(_text(prediction, self._name))
        references = [self._units(each) for each in _answers(label)]
        counts = [(Levenshtein.distance(found, each), len(each)) for each in references]
        edits, length = min(counts, key=lambda each: each[0] / max(each[1], 0.5))
        self._edits += edits
        self._length += length
        self._samples += 1
        return edits == 0

    def _units(self, text: str) -> Sequence[str]:
        return text.split() if self._splits else text

    def result(self) -> MetricValue | None:
        """Return the rate; it has no bounds, and may exceed 1."""
        if not self._length:
            return None
        return MetricValue(self._edits / self._length, self._samples)


def _text(prediction: Prediction, metric: str) -> str:
    if not isinstance(prediction, str):
        raise TaskRefusedError(
            f"{metric} needs a text: end the output's steps with ctc or span, or let postprocess "
            "return one."
        )
    return prediction


def _answers(label: Any) -> list[str]:
    found = _listed(label) if isinstance(label, str) else label
    if found is None:
        raise SampleError("It has no label.")
    if found == []:
        raise SampleError(
            'It has no label, but an empty list: write [""] if no answer is the right one.'
        )
    answers = found if isinstance(found, list) else [found]
    for each in answers:
        if not isinstance(each, str | int | float) or isinstance(each, bool):
            raise SampleError(f"Its label {label!r:.100} is neither a text nor a list of texts.")
    return [str(each) for each in answers]


def _listed(label: str) -> str | list[str]:
    """Return the texts of a JSON list, as CSV has them; any other label is one text."""
    if not label.startswith("["):
        return label
    try:
        found = json.loads(label)
    except (ValueError, RecursionError):
        return label
    return found if all(isinstance(each, str) for each in found) else label
