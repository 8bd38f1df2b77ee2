"""The steps of a manifest that a server runs: samples as they are, and predictions from replies."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from typing_extensions import override

from inferometer_api.manifest.input_steps import Tokenize
from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.manifest.output_steps import AnswerSpan
from inferometer_api.results.result import Tensor
from inferometer_tasks.assets import Assets
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.pipeline import TaskPipeline, Tensors, predicting_output, step_names
from inferometer_tasks.prediction_forms import prediction_form
from inferometer_tasks.sample import Array, Classes, Content, Prediction, Sample

SAMPLE, CONTEXT = "sample", "context"


def sample_tensors(manifest: ModelManifest) -> list[Tensor]:
    """Return the inputs of a server that runs the steps: one element of BYTES per sample.

    Requests may omit the context.

    Raises TaskRefusedError if there is no step, or if samples of several kinds would be needed.
    """
    if not step_names(manifest):
        raise TaskRefusedError(
            f"The manifest of {manifest.name} has no steps that a server could run: add steps, or "
            "leave pipeline out."
        )
    kinds = sorted({each.modality for each in manifest.inputs})
    if len(kinds) > 1:
        raise TaskRefusedError(
            f"The inputs of {manifest.name} are of the modalities {kinds}, but a sample is of one."
        )
    names = [SAMPLE, CONTEXT] if _takes_context(manifest) else [SAMPLE]
    return [Tensor(name=name, datatype="BYTES", shape=[-1]) for name in names]


def _takes_context(manifest: ModelManifest) -> bool:
    """Return whether a step reads the context of a sample."""
    before = (step.setting for each in manifest.inputs for step in each.steps)
    after = (step.setting for step in predicting_output(manifest).steps)
    return any(isinstance(each, Tokenize | AnswerSpan) for each in (*before, *after))


def received_sample(
    manifest: ModelManifest, content: bytes | str, context: bytes | str | None = None
) -> Sample:
    """Return the sample in the elements of a request; raises SampleError."""
    return Sample(
        "", _content(manifest, content), context=None if context is None else _decoded(context)
    )


def _content(manifest: ModelManifest, content: bytes | str) -> Content:
    match manifest.inputs[0].modality:
        case "Text":
            return _decoded(content)
        case "Values":
            try:
                values = np.asarray(json.loads(content))
            except ValueError as error:
                raise SampleError(f"Its values are not JSON: {error}.") from error
            if values.dtype.kind not in "biuf":
                raise SampleError("Its values are not a list of numbers, all of the same length.")
            return values
        case _:
            return content.encode() if isinstance(content, str) else content


def _decoded(content: bytes | str) -> str:
    try:
        return content.decode() if isinstance(content, bytes) else content
    except UnicodeDecodeError as error:
        raise SampleError(f"Its text is not UTF-8: {error.reason}.") from error


class ServedSteps(TaskPipeline):
    """Steps that run in the server: here a sample is only written down, and a reply read."""

    def __init__(self, manifest: ModelManifest, assets: Assets, outputs: Sequence[Tensor]) -> None:
        """Take the outputs of the server, which are those of the form."""
        super().__init__(manifest, assets)
        self._takes_context = _takes_context(manifest)
        # Only values keep the output's own name; the form of all others follows from the steps.
        named = Tensor(name=self.prediction_output, datatype="FP64", shape=[-1])
        self._form = prediction_form(manifest, [*outputs, named])

    @override
    def inputs(self, sample: Sample) -> Tensors:
        if sample.context is not None and not self._takes_context:
            raise SampleError(
                "The sample has a context, which the steps in the server do not take: run them in "
                "the load generator (pipeline: Client)."
            )
        found = {SAMPLE: _element(sample.content)}
        if sample.context is not None:
            found[CONTEXT] = _element(sample.context)
        return found

    @override
    def prediction(self, outputs: Mapping[str, Array], sample: Sample) -> Prediction:
        try:
            found = self._form.decode(outputs)
        except (LookupError, ValueError) as error:
            raise SampleError(f"The reply is no prediction: {error!r}.") from error
        # A reply has the labels of the best classes only.
        return replace(found, names=self.class_names) if isinstance(found, Classes) else found


def _element(content: Content) -> Array:
    """Return a content as one element of BYTES."""
    found = np.empty((), np.object_)
    match content:
        case bytes():
            found[()] = content
        case str():
            found[()] = content.encode()
        case _:
            found[()] = json.dumps(content.tolist()).encode()
    return found
