"""Predictions that a manifest states are compared, and those that cannot be are named."""

import pytest

from inferometer_api.results.accuracy import AccuracyResult, EvaluatedDataset, WrongSample
from inferometer_loadgen.task.evaluation import MOST_NAMED, Evaluation
from inferometer_results.wording.accuracy import accuracy_sentences
from inferometer_tasks.sample import Sample


def evaluated(expected: dict[str, str], found: dict[str, str], failed: str = "") -> Evaluation:
    """Return the evaluation of these predictions, one of whose samples cannot be read."""
    evaluation = Evaluation([], expected)
    for index, (name, prediction) in enumerate(found.items()):
        if name == failed:
            evaluation.fail(index, name, "Input", "It cannot be read.")
        else:
            evaluation.add(index, Sample(name, ""), prediction)
    return evaluation


@pytest.mark.parametrize(
    ("expected", "wanted"),
    [
        ({}, ""),
        ({"a": "1", "b": "2"}, ""),
        (
            {"a": "9", "b": "2"},
            (
                "1 of 2 predictions differ from the manifest's expectedOutputs (sample a: '1' "
                "instead of '9')"
            ),
        ),
        ({"z": "1"}, "1 entry of expectedOutputs names a sample that was not evaluated (z)"),
        (
            {"b": "1", "v": "", "w": "", "x": "", "y": ""},
            (
                "1 of 1 predictions differ from the manifest's expectedOutputs (sample b: '2' "
                "instead of '1'); 4 entries of expectedOutputs name samples that were not "
                "evaluated (v, w, x, ...)"
            ),
        ),
    ],
)
def test_expected_predictions_that_do_not_come_true_are_named(
    expected: dict[str, str], wanted: str
) -> None:
    """The scenario gets a caution with this clause."""
    assert evaluated(expected, {"a": "1", "b": "2", "c": "3"}).expectation_broken() == wanted


def test_a_sample_that_fails_is_no_unknown_one() -> None:
    """It is among the failed samples already."""
    assert evaluated({"a": "1"}, {"a": "1", "b": "2"}, failed="a").expectation_broken() == ""


def test_all_deviations_count() -> None:
    """The list of the result ends with the first 20."""
    found = {str(number): "x" for number in range(30)}
    evaluation = evaluated(dict.fromkeys(found, "y"), found)
    assert len(evaluation.unexpected) == MOST_NAMED
    assert evaluation.expectation_broken().startswith("30 of 30 predictions differ")


@pytest.mark.parametrize(
    ("checked", "unexpected", "sentence"),
    [
        (1, [], "1 sample has an expected output in the manifest; none differs."),
        (
            2,
            [WrongSample(sample="a", expected="9", predicted="1")],
            "2 samples have expected outputs in the manifest; different: a is '9', predicted '1'.",
        ),
    ],
)
def test_the_report_counts_in_words(
    checked: int, unexpected: list[WrongSample], sentence: str
) -> None:
    """One sample has, two samples have."""
    dataset = EvaluatedDataset(name="d", version="1", license="MIT", uri="file:d", samples=2)
    result = AccuracyResult(
        dataset=dataset,
        requested=2,
        processed=2,
        failed=0,
        figures=[],
        unexpected=unexpected,
        expected_checked=checked,
    )
    assert sentence in list(accuracy_sentences(result))
