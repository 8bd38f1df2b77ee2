"""Unforeseen exceptions fail their sample, and not the run."""

from pathlib import Path
from typing import Any

import pytest

from inferometer_loadgen.task.evaluation import Evaluation
from inferometer_tasks.datasets import dataset
from inferometer_tasks.datasets.dataset import UnreadableSample, open_dataset
from inferometer_tasks.datasets.rows import sample_of
from inferometer_tasks.errors import SampleError, TaskRefusedError, confine_to_sample
from inferometer_tasks.metrics.classification import TopAccuracy
from inferometer_tasks.sample import Classes, Sample, ScoredClass


def test_an_unexpected_exception_names_its_place() -> None:
    """The message says what failed, and where."""
    with (
        pytest.raises(SampleError, match=r"error in a step: KeyError\('x'\) \(test_sample"),
        confine_to_sample("a step"),
    ):
        raise KeyError("x")


def test_an_error_with_a_sentence_keeps_it() -> None:
    """Known errors of one sample have words of their own; what concerns all samples passes."""
    with pytest.raises(SampleError, match=r"^It has no file\.$"), confine_to_sample("a step"):
        raise SampleError("It has no file.")
    with pytest.raises(SampleError, match=r"^Late\.$"), confine_to_sample("it", TimeoutError):
        raise TimeoutError("Late.")
    with pytest.raises(TaskRefusedError), confine_to_sample("a step"):
        raise TaskRefusedError("No step fits.")


def test_a_row_that_crashes_its_reader_is_one_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows after it are read."""
    path = tmp_path / "s.jsonl"
    path.write_text("".join(f'{{"id": "s{i}", "text": "a"}}\n' for i in range(3)))
    read = sample_of

    def crashing(number: int, *others: Any) -> Sample:
        if number == 2:
            raise IndexError("unforeseen")
        return read(number, *others)

    monkeypatch.setattr(dataset, "sample_of", crashing)
    first, second, third = open_dataset("file:s.jsonl", path, tmp_path / "unpacked").first(None)
    assert isinstance(second, UnreadableSample)
    assert second.id == "s1"
    assert "IndexError" in second.message
    assert isinstance(first, Sample)
    assert isinstance(third, Sample)


def test_a_measure_that_crashes_fails_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted and named, and others are still measured."""
    evaluation = Evaluation(["Top1"], {})
    add = TopAccuracy.add

    def crashing(self: TopAccuracy, prediction: Any, label: Any) -> bool | None:
        if label == 7:
            raise ZeroDivisionError("unforeseen")
        return add(self, prediction, label)

    monkeypatch.setattr(TopAccuracy, "add", crashing)
    prediction = Classes((ScoredClass(1, 0.9),), 10)
    for index, label in enumerate((1, 7, 1)):
        evaluation.add(index, Sample(f"s{index}", b"", label), prediction)
    assert (evaluation.processed, evaluation.failed["output"]) == (2, 1)
    (failure,) = evaluation.failures
    assert failure.sample == "s1"
    assert "Internal error in a measure: ZeroDivisionError" in failure.message
