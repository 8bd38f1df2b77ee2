"""Measures are compared with the steps of a manifest before anything is measured."""

import pytest
import yaml

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.metrics.requirements import check_metrics
from inferometer_tasks.metrics.table import METRICS
from support.digits import MANIFEST

_TEXTS = {"ExactMatch", "F1", "WER", "CER"}
FITTING = {
    "topK": {"Top1", "Top5"},
    "boxes": {"MAP"},
    "argmaxMask": {"MeanIoU"},
    "mask": {"MeanIoU"},
    "ctc": _TEXTS,
    "span": _TEXTS,
    "softmax": {"MSE"},
}
SETTINGS = {
    "ctc": {"vocabulary": "v.txt"},
    "span": {"end": "ends", "tokenizer": "t.json", "maxLength": 8},
}


def a_manifest(*steps: str, **more: str) -> ModelManifest:
    """Return a manifest whose output has these steps."""
    output = {"name": "scores", "steps": [{each: SETTINGS.get(each, {})} for each in steps]}
    return ModelManifest.model_validate(yaml.safe_load(MANIFEST) | {"outputs": [output]} | more)


def fitting(manifest: ModelManifest | None) -> set[str]:
    """Return the measures that fit a manifest."""
    found = set()
    for metric in METRICS:
        try:
            check_metrics([metric], manifest)
        except TaskRefusedError:
            continue
        found.add(metric)
    return found


@pytest.mark.parametrize("last", FITTING)
def test_the_last_step_decides_which_measures_fit(last: str) -> None:
    """Each measure takes one kind of prediction."""
    assert fitting(a_manifest(last)) == FITTING[last]


def test_a_model_without_steps_may_reply_numbers_or_texts() -> None:
    """Its metadata are known once it runs; without a manifest it may have its best classes, too."""
    assert fitting(a_manifest()) == {"MSE", *_TEXTS}
    assert fitting(None) == {"MSE", "Top1", "Top5", *_TEXTS}
    with pytest.raises(TaskRefusedError, match=r"MSE needs .* but they end with topK"):
        check_metrics(["MSE", "Top1"], None)


def test_what_python_makes_is_not_known() -> None:
    """It may be any prediction."""
    assert fitting(a_manifest(postprocess="def postprocess(c, o): ...")) == set(METRICS)
