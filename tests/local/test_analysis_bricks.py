"""The times of unique layers predict real models of the zoo, and models that never ran here."""

from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer_analysis.bricks.predict import geometric_mean_error, predict
from inferometer_api.layers.graph import LayerGraph
from inferometer_api.layers.split import compose_suite
from inferometer_api.layers.timings import LayerTimings
from inferometer_cli.local.layers import (
    LayerSettings,
    TimingRequest,
    describe_model,
    model_files,
    time_layers,
)
from support.quiet import INCONCLUSIVE

_SETTINGS = LayerSettings()
_MODELS = (
    "classification/densenet121",
    "classification/mobilenet_v2",
    "classification/resnet18",
    "classification/resnet34",
    "classification/squeezenet1_0",
    "classification/vgg11",
    "text/distilbert",
    "text/minilm_l6",
)


def _files(*names: str) -> list[Path]:
    return model_files([f"zoo://{name}" for name in names])


def _timed(graphs: list[LayerGraph], files: list[Path]) -> LayerTimings:
    request = TimingRequest(_SETTINGS, compose_suite(graphs, 1), files)
    return time_layers(request, lambda _done, _total: None)


def test_models_are_predicted_within_6_percent_and_those_of_10_ms_within_15(
    require_quiet: Callable[[], None],
) -> None:
    """Bricks and whole models take turns; one thread, one sample."""
    files = _files(*_MODELS)
    graphs = [describe_model(each, _SETTINGS) for each in files]
    timings = _timed(graphs, files)
    require_quiet()
    assert not timings.failed
    ratios = {}
    for graph in graphs:
        measured = timings.models[graph.model]
        if measured.spread > 0.03:
            pytest.skip(f"{INCONCLUSIVE}: rounds of {graph.model} differ by {measured.spread:.1%}")
        found = predict(graph, timings)
        assert found.is_complete
        ratios[graph.model] = found.sequential_nanoseconds / measured.nanoseconds
        if measured.nanoseconds >= 10e6:
            assert abs(ratios[graph.model] - 1) <= 0.15, ratios
    assert geometric_mean_error(ratios.values()) <= 0.06, ratios


def test_a_model_that_never_ran_is_known_by_its_siblings_layers() -> None:
    """ResNet-34 has no layer that ResNet-18 lacks."""
    files = _files("classification/resnet18", "classification/resnet34")
    small, large = (describe_model(each, _SETTINGS) for each in files)
    assert predict(large, _timed([small], [])).is_complete
