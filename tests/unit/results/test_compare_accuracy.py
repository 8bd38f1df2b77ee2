"""A comparison prints the accuracy of both sides where both have it."""

from io import StringIO

import pytest
from rich.console import Console

from inferometer_api.results.accuracy import AccuracyFigure, AccuracyResult, EvaluatedDataset
from inferometer_api.results.result import ResultDocument
from inferometer_cli.tables.comparison import print_comparison
from inferometer_results.compare.accuracy import accuracy_differences
from inferometer_results.compare.comparison import compare
from support.results import a_result


def with_accuracy(
    correct: int,
    low: float | None,
    high: float | None,
    samples: int = 100,
    sha256: str | None = None,
) -> ResultDocument:
    """Return a result whose first scenario has a Top1 with these bounds."""
    figure = AccuracyFigure(
        metric="Top1", value=correct / 100, samples=100, correct=correct, low=low, high=high
    )
    accuracy = AccuracyResult(
        dataset=EvaluatedDataset(
            name="digits",
            version="1",
            license="CC",
            uri="builtin://digits",
            samples=1797,
            samples_sha256=sha256,
        ),
        requested=samples,
        processed=100,
        failed=0,
        figures=[figure],
    )
    document = a_result()
    first = document.scenarios[0].model_copy(update={"accuracy": accuracy})
    return document.model_copy(update={"scenarios": [first, *document.scenarios[1:]]})


A = with_accuracy(96, 0.9, 0.98)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (with_accuracy(95, 0.89, 0.97), "the bounds overlap."),
        (with_accuracy(40, 0.3, 0.5), "the bounds do not overlap."),
        (with_accuracy(96, 0.9, 0.98), ": equal."),
        (with_accuracy(95, None, None), "95 of 100)."),
        (with_accuracy(95, 0.89, 0.97, samples=450), "overlap. The samples differ."),
    ],
)
def test_both_figures_stand_side_by_side(after: ResultDocument, words: str) -> None:
    """The sentence has both values with bounds, whether these overlap, and what else differs."""
    (sentence,) = accuracy_differences(A, after)
    assert sentence.startswith(
        "latency: Top1 A 96.00 % (95 % bounds 90.00 to 98.00 %; 96 of 100), B "
    )
    assert sentence.endswith(words)


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [("a", "a", False), ("a", "b", True), ("a", None, False), (None, None, False)],
)
def test_the_content_of_the_samples_decides_whether_they_differ(
    first: str | None, second: str | None, *, differ: bool
) -> None:
    """Not the name of their file; results of earlier versions do not know it."""
    before = with_accuracy(96, 0.9, 0.98, sha256=first)
    (sentence,) = accuracy_differences(before, with_accuracy(95, 0.9, 0.98, sha256=second))
    assert sentence.endswith("The samples differ.") == differ


def test_a_result_without_accuracy_has_no_sentence() -> None:
    """Nothing is printed unless both have the measure."""
    assert not list(accuracy_differences(A, a_result()))
    assert not list(accuracy_differences(a_result(), A))


def test_compare_prints_them() -> None:
    """`inferometer compare` prints the measures below the figures."""
    after = with_accuracy(40, 0.3, 0.5)
    console = Console(file=StringIO(), width=200)
    print_comparison(("a", A), ("b", after), compare(A, after), console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert "Accuracy:\n  latency: Top1 A 96.00 %" in printed
