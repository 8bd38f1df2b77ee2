"""Accuracy in sentences."""

from collections.abc import Iterator

from inferometer_api.results.accuracy import AccuracyFigure, AccuracyResult, WrongSample
from inferometer_results.quantity import duration, significant

_PERCENT = frozenset({"Top1", "Top5", "ExactMatch", "F1", "MAP", "MeanIoU", "WER", "CER"})
_MOST_NAMED = 5


def accuracy_sentences(accuracy: AccuracyResult, *, has_steps: bool = True) -> Iterator[str]:
    """Yield the measures, the data set, and the samples that failed or are wrong.

    Without `has_steps`, the server runs the steps, and their times are said elsewhere.
    """
    if accuracy.figures:
        yield f"{'; '.join(map(figure_text, accuracy.figures))}."
    dataset = accuracy.dataset
    yield (
        f"{accuracy.processed:,} of {accuracy.requested:,} samples of {dataset.name} "
        f"(version {dataset.version}, licence {dataset.license})."
    )
    if accuracy.failed:
        named = "; ".join(
            f"{each.sample}: {each.message.rstrip('.')}" for each in accuracy.failures[:_MOST_NAMED]
        )
        not_counted = (
            "sample was not processed and counts in no measure"
            if accuracy.failed == 1
            else "samples were not processed and count in no measure"
        )
        yield f"{accuracy.failed:,} {not_counted} ({named})."
    if accuracy.wrong:
        yield f"The first wrong samples: {_named(accuracy.wrong)}."
    if accuracy.expected_checked:
        differ = len(accuracy.unexpected)
        have = "sample has an expected output"
        if accuracy.expected_checked > 1:
            have = "samples have expected outputs"
        yield (
            f"{accuracy.expected_checked:,} {have} in the manifest; "
            + (f"different: {_named(accuracy.unexpected)}." if differ else "none differs.")
        )
    if accuracy.steps and has_steps:
        times = ", ".join(f"{each.step} {duration(each.nanoseconds)}" for each in accuracy.steps)
        yield f"Steps around the model, mean time on a CPU per sample: {times}."


def figure_text(figure: AccuracyFigure) -> str:
    """Return a measure with its bounds: Top1 99.2 % (95 % bounds 97.9 to 99.7 %; 446 of 450)."""
    known = []
    if bounds := bounds_text(figure):
        known.append(f"95 % bounds {bounds}")
    if figure.correct is not None:
        known.append(f"{figure.correct:,} of {figure.samples:,}")
    details = f" ({'; '.join(known)})" if known else ""
    return f"{figure.metric} {value_text(figure)}{details}"


def value_text(figure: AccuracyFigure) -> str:
    """Return the value of a measure: 99.20 %."""
    return _value(figure, figure.value)


def bounds_text(figure: AccuracyFigure) -> str:
    """Return the 95 % bounds of a measure: 97.90 to 99.70 %; empty if they are not known."""
    if figure.low is None or figure.high is None:
        return ""
    low, high = _value(figure, figure.low), _value(figure, figure.high)
    return f"{low.removesuffix(' %')} to {high}"


def _value(figure: AccuracyFigure, value: float) -> str:
    return f"{100 * value:.2f} %" if figure.metric in _PERCENT else significant(value, 4)


def _named(wrong: list[WrongSample]) -> str:
    return "; ".join(
        f"{each.sample} is {each.expected!r}, predicted {each.predicted!r}"
        for each in wrong[:_MOST_NAMED]
    )
