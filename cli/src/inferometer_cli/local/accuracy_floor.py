"""The accuracy that every engine of a search must have: a measure over a data set, and a limit."""

from dataclasses import dataclass
from typing import Any, get_args

from inferometer_api.results.accuracy import AccuracyFigure
from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.scenario import AccuracyMetric
from inferometer_cli.exits import RefusedError
from inferometer_cli.quick_run import model_uri
from inferometer_results.compare.accuracy import valid_figures
from inferometer_results.wording.accuracy import figure_text

_ERRORS = frozenset({"WER", "CER", "MSE"})
"""Measures of which less is better."""


@dataclass(frozen=True, slots=True)
class AccuracyFloor:
    """A measure over a data set, and the worst value of it that is accepted."""

    dataset: str
    metric: str
    limit: float
    """The least value; of WER, CER and MSE the largest."""

    @classmethod
    def parse(cls, text: str | None, dataset: str | None) -> "AccuracyFloor | None":
        """Return the floor of `--least-accuracy` and `--dataset`; None if neither is given.

        Raises RefusedError.
        """
        if text is None and dataset is None:
            return None
        if text is None or dataset is None:
            raise RefusedError(
                "--least-accuracy and --dataset belong together: the one is the limit of a "
                "measure, such as Top1=97%, the other its data set, such as builtin://digits."
            )
        metric, _, value = map(str.strip, text.partition("="))
        try:
            limit = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
        except ValueError:
            limit = -1.0
        if metric not in get_args(AccuracyMetric) or not limit >= 0:
            raise RefusedError(
                f'--least-accuracy expects a measure and its limit, such as Top1=97%, but got "'
                f'{text}". Measures are {", ".join(get_args(AccuracyMetric))}.'
            )
        return cls(model_uri(dataset), metric, limit)

    def fields(self, runtime: str, precision: str) -> dict[str, Any]:
        """Return the fields of a specification that measure an engine in a precision."""
        accuracy = {"dataset": {"uri": self.dataset}, "metrics": [self.metric]}
        return {
            "server": {"runtime": runtime, "precision": precision},
            "scenarios": [{"name": "accuracy", "accuracy": accuracy}],
        }

    def figure(self, document: ResultDocument) -> AccuracyFigure | None:
        """Return the measure of a result; None if it has none that is VALID."""
        return next(valid_figures(document), None)

    def problem(self, document: ResultDocument) -> str:
        """Return why the engine of a result is out; empty if it keeps the limit."""
        found = self.figure(document)
        if found is None:
            reasons = [each.message for one in document.scenarios for each in one.verdict.reasons]
            return next(iter(reasons), document.outcome.message or "nothing was measured")
        is_error = self.metric in _ERRORS
        if found.value <= self.limit if is_error else found.value >= self.limit:
            return ""
        limit = f"{'at most' if is_error else 'at least'} {self.limit:g}"
        return f"{figure_text(found)}, and --least-accuracy wants {limit}"
