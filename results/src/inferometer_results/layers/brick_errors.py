"""Computes how far the predictions of models from their bricks are off."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferometer_analysis.bricks.interpolate import Interpolation
from inferometer_analysis.bricks.predict import (
    Prediction,
    engine_speed_up,
    geometric_mean_error,
    predict,
    speed_up,
)
from inferometer_api.layers.graph import LayerGraph
from inferometer_api.layers.split import split
from inferometer_api.layers.timings import LayerTimings, Timing
from inferometer_results.layers.slowness import slow_sentence, slowdown
from inferometer_results.quantity import DASH, percent, spread_percent

BUSY = 0.05
"""The share of the machine's CPU time from which other processes make times doubtful."""
STEADY = 0.03
"""The largest spread of a model with which its error counts."""
_RUNS = 23
"""Runs of a model in the speed-up by the engine's time."""


@dataclass(frozen=True, slots=True)
class ModelError:
    """The prediction of a model next to its measured latency."""

    prediction: Prediction
    measured: Timing | None
    """None if it was not measured."""
    keys: frozenset[str]
    """Of its bricks."""

    @property
    def ratio(self) -> float | None:
        """Predicted over measured; None if one of them is missing."""
        if self.measured is None or not self.prediction.is_complete:
            return None
        return self.prediction.sequential_nanoseconds / self.measured.nanoseconds


def model_errors(
    graphs: Sequence[LayerGraph],
    known: LayerTimings,
    measured: Mapping[str, Timing],
    granularity: int,
    interpolation: Interpolation | None = None,
) -> list[ModelError]:
    """Return the error of each model."""
    return [
        ModelError(
            predict(graph, known, granularity, interpolation),
            measured.get(graph.model),
            frozenset(use.key for use in split(graph, granularity)),
        )
        for graph in graphs
    ]


def error_document(found: ModelError) -> dict[str, Any]:
    """Return an error as JSON."""
    measured = found.measured
    return {
        "model": found.prediction.model,
        "layers": found.prediction.layers,
        "layersKnown": found.prediction.layers_known,
        "layersInterpolated": found.prediction.layers_interpolated,
        "uncertainty": found.prediction.uncertainty,
        "predictedNanoseconds": round(found.prediction.sequential_nanoseconds),
        "criticalPathNanoseconds": round(found.prediction.critical_path_nanoseconds),
        "measuredNanoseconds": None if measured is None else measured.nanoseconds,
        "spread": None if measured is None else measured.spread,
        "rounds": None if measured is None else measured.rounds,
        "sessionNanoseconds": None if measured is None else measured.session_nanoseconds,
        "ratio": found.ratio,
        "bricks": sorted(found.keys),
    }


def uncertainty_words(found: Prediction) -> str:
    """Return how far interpolated times put a prediction off; a dash if that is not known.

    "none" if no time is interpolated: the noise of measured times is no part of it.
    """
    if found.uncertainty is None:
        return DASH
    return spread_percent(found.uncertainty) if found.layers_interpolated else "none"


def busy_sentence(
    timings: LayerTimings, known: LayerTimings | None, remedy: str = "Time them again with --again."
) -> str:
    """Return a warning if the machine was busy or slow while bricks were timed, else nothing."""
    if timings.other_cpu_share > BUSY:
        share = percent(timings.other_cpu_share)
        return (
            f"The machine was not quiet: other processes took {share} of its CPU time meanwhile, "
            f"which makes layers slower. {remedy}"
        )
    slow = slow_sentence(slowdown(timings, known))
    return f"{slow} {remedy}" if slow else ""


def error_sentences(errors: Sequence[ModelError], timings: LayerTimings) -> Iterator[str]:
    """Yield a table of the models, and what it shows; `timings` has their bricks and themselves."""
    width = max(len(each.prediction.model) for each in errors)
    yield f"{'MODEL':{width}}  MEASURED ms   SPREAD  PREDICTED ms   ERROR"
    ratios, unsteady = [], []
    for each in errors:
        name, measured = each.prediction.model, each.measured
        if measured is None or each.ratio is None:
            yield f"{name:{width}}  not compared: not every brick has a time"
            continue
        ratios.append(each.ratio)
        predicted_ms = each.prediction.sequential_nanoseconds / 1e6
        if measured.spread > STEADY:
            unsteady.append(name)
        yield (
            f"{name:{width}}  {measured.nanoseconds / 1e6:11.2f}  "
            f"{spread_percent(measured.spread):>7}  "
            f"{predicted_ms:12.2f}  {100 * (each.ratio - 1):+4.0f} %"
        )
    if ratios:
        yield ""
        yield (
            f"Geometric-mean error {spread_percent(geometric_mean_error(ratios))}. Speed-up by the "
            f"paper's definition {speed_up(timings):.1f}, by the engine's time with sessions at "
            f"{_RUNS} runs a model {engine_speed_up(timings, _RUNS):.1f}."
        )
    if unsteady:
        yield (
            f"The machine was not quiet: the middle half of the rounds of {', '.join(unsteady)} "
            f"differs by more than {100 * STEADY:.0f} %. The errors show nothing; repeat it."
        )
