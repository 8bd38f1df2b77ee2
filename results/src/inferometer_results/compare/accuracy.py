"""The accuracy of two results side by side."""

from collections.abc import Iterator

from inferometer_api.results.accuracy import AccuracyFigure, AccuracyResult
from inferometer_api.results.result import ResultDocument
from inferometer_results.wording.accuracy import figure_text


def accuracy_differences(before: ResultDocument, after: ResultDocument) -> Iterator[str]:
    """Yield a sentence for each measure that a scenario of the same name has in both results.

    Of repeats, the first counts: a model answers the same samples alike.
    """
    earlier, later = _by_name(before), _by_name(after)
    for name in (each for each in earlier if each in later):
        one, other = earlier[name], later[name]
        caveat = "" if _have_same_samples(one, other) else " The samples differ."
        measures = {each.metric: each for each in other.figures}
        for figure in one.figures:
            if figure.metric in measures:
                yield f"{name}: {_sentence(figure, measures[figure.metric])}{caveat}"


def valid_figures(document: ResultDocument) -> Iterator[AccuracyFigure]:
    """Yield the measures of each scenario that is VALID."""
    for each in document.scenarios:
        if each.accuracy is not None and each.verdict.state == "VALID":
            yield from each.accuracy.figures


def _sentence(before: AccuracyFigure, after: AccuracyFigure) -> str:
    first, second = figure_text(before), figure_text(after).removeprefix(f"{after.metric} ")
    values = f"{before.metric} A {first.removeprefix(f'{before.metric} ')}, B {second}"
    if before.value == after.value:
        return f"{values}: equal."
    if None in (before.low, before.high, after.low, after.high):
        return f"{values}."
    is_apart = (before.high or 0) < (after.low or 0) or (after.high or 0) < (before.low or 0)
    return f"{values}: the bounds {'do not overlap' if is_apart else 'overlap'}."


def _by_name(document: ResultDocument) -> dict[str, AccuracyResult]:
    found: dict[str, AccuracyResult] = {}
    for each in document.scenarios:
        if each.accuracy is not None:
            found.setdefault(each.name, each.accuracy)
    return found


def _have_same_samples(one: AccuracyResult, other: AccuracyResult) -> bool:
    digests = one.dataset.samples_sha256, other.dataset.samples_sha256
    if None not in digests:
        return digests[0] == digests[1]
    return _samples(one) == _samples(other)


def _samples(accuracy: AccuracyResult) -> tuple[object, ...]:
    dataset = accuracy.dataset
    return (dataset.name, dataset.version, dataset.sha256, accuracy.requested)
