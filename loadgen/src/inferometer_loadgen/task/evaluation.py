"""Evaluation of a data set: counts, failures and measures, in bounded memory."""

from bisect import insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from inferometer_api.results.accuracy import (
    AccuracyFigure,
    AccuracyResult,
    EvaluatedDataset,
    SampleFailure,
    StepTime,
    WrongSample,
)
from inferometer_api.spec.scenario import AccuracyDataset
from inferometer_loadgen.wire.contract import printable_line
from inferometer_tasks.datasets.dataset import Dataset
from inferometer_tasks.errors import SampleError, confine_to_sample
from inferometer_tasks.metrics.metric import AccuracyMeasure
from inferometer_tasks.metrics.table import METRICS
from inferometer_tasks.sample import Prediction, Sample, best_answer

MOST_NAMED = 20
_LONGEST = 200
Stage = Literal["Input", "Request", "Output"]


@dataclass(order=True, frozen=True, slots=True)
class _Named:
    """An entry of a list that keeps those of the first samples, whatever their order."""

    index: int
    entry: Any = field(compare=False)


class Evaluation:
    """Counts the samples of one scenario and applies its measures to their predictions."""

    def __init__(self, metrics: Sequence[str], expected: Mapping[str, str]) -> None:
        self._metrics: dict[str, AccuracyMeasure] = {name: METRICS[name]() for name in metrics}
        self._expected = expected
        self._failures: list[_Named] = []
        self._wrong: list[_Named] = []
        self._unexpected: list[_Named] = []
        self.processed = 0
        self.failed: Counter[str] = Counter()
        """Failed samples by stage, or by the kind of the request's error."""
        self.expected_checked = 0
        self._deviations = 0
        self._unseen = dict.fromkeys(expected)
        """Samples of the expected predictions that were not evaluated yet."""

    def fail(self, index: int, sample: str, stage: Stage, message: str, kind: str = "") -> None:
        """Count a sample that cannot be processed."""
        self._unseen.pop(sample, None)
        self.failed[kind or stage.lower()] += 1
        text = printable_line(message)
        _keep(self._failures, index, SampleFailure(sample=_cut(sample), stage=stage, message=text))

    def add(self, index: int, sample: Sample, prediction: Prediction) -> None:
        """Apply the measures to a prediction.

        A label that does not fit makes the sample failed. Raises TaskRefusedError if a measure
        does not fit the steps of the manifest.
        """
        try:
            with confine_to_sample("a measure"):
                right = [each.add(prediction, sample.label) for each in self._metrics.values()]
        except SampleError as error:
            self.fail(index, sample.id, "Output", str(error))
            return
        self.processed += 1
        self._unseen.pop(sample.id, None)
        found = best_answer(prediction)
        if next((each for each in right if each is not None), True) is False:
            _keep(self._wrong, index, _wrong(sample.id, str(sample.label), found))
        known = self._expected.get(sample.id)
        if known is not None:
            self.expected_checked += 1
            if known != found:
                self._deviations += 1
                _keep(self._unexpected, index, _wrong(sample.id, known, found))

    def result(
        self,
        dataset: Dataset,
        source: AccuracyDataset,
        requested: int,
        samples_sha256: str,
        steps: Sequence[StepTime] = (),
    ) -> AccuracyResult:
        """Return what was found, as the result document has it.

        `samples_sha256` is the value of a SampleDigest over the samples that were read.
        """
        return AccuracyResult(
            dataset=EvaluatedDataset(
                name=dataset.name,
                version=dataset.version,
                license=dataset.license,
                uri=source.uri,
                sha256=source.sha256,
                samples=dataset.count,
                samples_sha256=samples_sha256,
            ),
            requested=requested,
            processed=self.processed,
            failed=self.failed.total(),
            figures=self.figures(),
            failures=self.failures,
            wrong=self.wrong,
            unexpected=self.unexpected,
            expected_checked=self.expected_checked,
            steps=list(steps),
        )

    def expectation_broken(self) -> str:
        """Return how the predictions differ from the expected ones; empty if they do not."""
        clauses = []
        if self._unexpected:
            first = self.unexpected[0]
            clauses.append(
                f"{self._deviations:,} of {self.expected_checked:,} predictions differ from the "
                f"manifest's expectedOutputs (sample {first.sample}: {first.predicted!r} instead "
                f"of {first.expected!r})"
            )
        if self._unseen:
            names = ", ".join(map(_cut, list(self._unseen)[:3]))
            are = "1 entry of expectedOutputs names a sample that was"
            if len(self._unseen) > 1:
                are = f"{len(self._unseen):,} entries of expectedOutputs name samples that were"
            more = ", ..." if len(self._unseen) > 3 else ""
            clauses.append(f"{are} not evaluated ({names}{more})")
        return "; ".join(clauses)

    def figures(self) -> list[AccuracyFigure]:
        """Return the value of each measure that has one."""
        values = {name: each.result() for name, each in self._metrics.items()}
        return [
            AccuracyFigure(
                metric=name,
                value=value.value,
                samples=value.samples,
                correct=value.correct,
                low=value.low,
                high=value.high,
            )
            for name, value in values.items()
            if value is not None
        ]

    @property
    def failures(self) -> list[SampleFailure]:
        """The failures of the first samples."""
        return [each.entry for each in self._failures]

    @property
    def wrong(self) -> list[WrongSample]:
        """The first wrong samples."""
        return [each.entry for each in self._wrong]

    @property
    def unexpected(self) -> list[WrongSample]:
        """The first samples that differ from the manifest's expected outputs."""
        return [each.entry for each in self._unexpected]


def _wrong(sample: str, expected: str, predicted: str) -> WrongSample:
    return WrongSample(sample=_cut(sample), expected=_cut(expected), predicted=_cut(predicted))


def _cut(text: str) -> str:
    return printable_line(text, _LONGEST)


def _keep(kept: list[_Named], index: int, entry: Any) -> None:
    insort(kept, _Named(index, entry))
    del kept[MOST_NAMED:]
