"""Every scenario is measured on models of different families, over one of the protocols each.

Speed is not judged here: the machine may be busy, and then some verdicts are INVALID for it.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial

import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # has no types

from inferometer_api.results.result import Distribution, ResultDocument
from inferometer_models import zoo
from support.local_runs import Done, done, together

BATCH_SIZES = {
    "classification/squeezenet1_1": 2,
    "detection/ssdlite320_mobilenet_v3_large": 2,
    "text/minilm_l6": 2,
    "audio/wav2vec2_base": 1,
    "segmentation/lraspp_mobilenet_v3_large": 1,
}
"""The models, and how many samples the requests of the scenario `batch` have."""
PROTOCOLS = ("HTTP", "GRPC")
"""In turn. tests/local/test_smoke.py measures every kind of step over both."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Done]]]:
    """One run for each model, three at a time, with all three scenarios."""
    folder = tmp_path_factory.mktemp("zoo")
    with together(
        {
            model: partial(
                done,
                folder / f"{index}",
                {"singleStream": {}},
                {"server": {"targetQps": 2}},
                {"batch": {"batchSizes": [size]}},
                spec={
                    "model": {"uri": f"zoo://{model}"},
                    "load": {"protocol": PROTOCOLS[index % 2]},
                },
            )
            for index, (model, size) in enumerate(BATCH_SIZES.items())
        },
        at_once=3,
    ) as futures:
        yield futures


@pytest.mark.parametrize("model", BATCH_SIZES)
def test_every_scenario_is_measured(runs: dict[str, Future[Done]], model: str) -> None:
    """Each model answers each scenario without an error, and all is kept."""
    run = runs[model].result()
    assert run.result is not None, run.ended.stderr
    assert run.outcome == ("Complete", "Measured")
    assert run.ended.code == (0 if run.result.valid else 3)
    assert [scenario.kind for scenario in run.result.scenarios] == [
        "singleStream",
        "server",
        "batch",
    ]
    for scenario, size in zip(run.result.scenarios, (1, 1, BATCH_SIZES[model]), strict=True):
        (step,) = scenario.steps
        assert step.counts.failed == 0, step.error_examples
        assert step.counts.succeeded > 0
        assert step.counts.samples == step.counts.succeeded * size
        assert step.counts.checked_replies > 0
        assert step.achieved_qps > 0
        _decodes(step.latency)
        if scenario.kind == "server":
            _decodes(step.service_time)
            _decodes(step.dispatch_lag)
    _is_complete(run.result, model)
    assert run.files == ["report.html", "result.json"]
    assert run.left_behind == []
    assert run.temporary == []


def _decodes(distribution: Distribution | None) -> None:
    assert distribution is not None
    histogram = HdrHistogram.decode(distribution.histogram)
    assert histogram.get_total_count() == distribution.count
    assert distribution.max_nanoseconds == pytest.approx(histogram.get_max_value(), rel=0.002)
    assert distribution.min_nanoseconds == pytest.approx(histogram.get_min_value(), rel=0.002)


def _is_complete(result: ResultDocument, model: str) -> None:
    environment = result.environment
    assert environment is not None
    assert environment.server.launched
    assert sum(environment.server.graph_nodes_by_provider.values()) > 0
    assert environment.model.uri == f"zoo://{model}"
    assert environment.model.sha256 is not None
    entry = zoo.entry(model)
    (tensor,) = environment.model.inputs
    assert tensor.datatype == entry.input_datatype
