"""Packages of the extra `tasks` that a manifest and its measures need."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec

from inferometer_api.manifest.input_steps import Decode, Resize, Tokenize
from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.manifest.output_steps import AnswerSpan, Boxes
from inferometer_tasks.errors import TaskRefusedError

_OF_STEPS = {Resize: "PIL", Tokenize: "tokenizers", AnswerSpan: "tokenizers", Boxes: "PIL"}
_OF_METRICS = {"WER": "rapidfuzz", "CER": "rapidfuzz", "MAP": "pycocotools"}


def check_packages(manifest: ModelManifest, metrics: Sequence[str]) -> None:
    """Raise TaskRefusedError if a package that is needed is not installed."""
    missing = sorted({each for each in _needed(manifest, metrics) if find_spec(each) is None})
    if missing:
        raise TaskRefusedError(
            f"The steps or measures need the packages {missing}, which are not installed: install "
            "inferometer[tasks]."
        )


def import_packages(manifest: ModelManifest) -> None:
    """Import what the steps need, so that the first sample does not wait for that."""
    for each in set(_needed(manifest, ())):
        import_module("PIL.Image" if each == "PIL" else each)


def _needed(manifest: ModelManifest, metrics: Sequence[str]) -> Iterator[str]:
    steps = [step.setting for each in manifest.inputs for step in each.steps]
    steps += [step.setting for each in manifest.outputs for step in each.steps]
    for step in steps:
        if isinstance(step, Decode):
            yield "PIL" if step.library == "Pillow" else "simplejpeg"
        elif type(step) in _OF_STEPS:
            yield _OF_STEPS[type(step)]
    yield from (_OF_METRICS[each] for each in metrics if each in _OF_METRICS)
