"""Table of measures by their names in a run."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from inferometer_tasks.metrics.arrays import MeanIou, MeanSquaredError
from inferometer_tasks.metrics.classification import TopAccuracy
from inferometer_tasks.metrics.detection import MeanAveragePrecision
from inferometer_tasks.metrics.metric import AccuracyMeasure
from inferometer_tasks.metrics.texts import F1, ErrorRate, ExactMatch

METRICS: Mapping[str, Callable[[], AccuracyMeasure]] = MappingProxyType(
    {
        "Top1": partial(TopAccuracy, 1),
        "Top5": partial(TopAccuracy, 5),
        "MAP": MeanAveragePrecision,
        "MeanIoU": MeanIou,
        "ExactMatch": ExactMatch,
        "F1": F1,
        "WER": partial(ErrorRate, "word"),
        "CER": partial(ErrorRate, "character"),
        "MSE": MeanSquaredError,
    }
)
