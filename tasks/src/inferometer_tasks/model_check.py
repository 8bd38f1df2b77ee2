"""Checks of a manifest against the tensors of its model."""

from collections.abc import Mapping, Sequence

from inferometer_api.manifest.model_manifest import ManifestInput, ModelManifest
from inferometer_api.results.result import Tensor
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.pipeline import TaskPipeline
from inferometer_tasks.step_shapes import fits, shape_after, sizes_text


def check_tensors(
    manifest: ModelManifest, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> None:
    """Raise TaskRefusedError if a manifest names tensors that the model lacks, or too few inputs.

    An engine may compute with whatever is in the memory of an input that it was not given. The
    datatype of an input, if the manifest states it, must be the model's as well, and so must be the
    shape that its steps make of any sample.
    """
    for what, named, tensors in (
        ("inputs", [each.name for each in manifest.inputs], inputs),
        ("outputs", [each.name for each in manifest.outputs], outputs),
    ):
        known = [each.name for each in tensors]
        unknown = [name for name in named if name not in known]
        if unknown and known:
            raise TaskRefusedError(
                f"The manifest names the {what} {unknown}, but the model has {known}."
            )
    datatypes = {each.name: each.datatype for each in inputs}
    if left_out := sorted(datatypes.keys() - {each.name for each in manifest.inputs}):
        raise TaskRefusedError(
            f"The model also has the inputs {left_out}, which the manifest of {manifest.name} does "
            "not name: add them with their steps. Optional ones can be left out of "
            "spec.model.inputs."
        )
    for each in manifest.inputs:
        known_type = datatypes.get(each.name, each.datatype)
        if each.datatype is not None and each.datatype != known_type:
            raise TaskRefusedError(
                f"The manifest has the datatype {each.datatype} for the input {each.name!r}, but "
                f"the model takes {known_type}: correct it or leave it out, or use the model that "
                "the manifest describes."
            )
    if manifest.preprocess is None:
        _check_shapes(manifest.inputs, {each.name: each.shape for each in inputs})


def _check_shapes(inputs: Sequence[ManifestInput], taken: Mapping[str, Sequence[int]]) -> None:
    """Raise TaskRefusedError if the steps of an input make a shape that the model does not take."""
    for each in inputs:
        made, wanted = shape_after(each.steps), taken.get(each.name)
        if made is not None and wanted is not None and not fits(made, wanted):
            raise TaskRefusedError(
                f"The input {each.name!r} has the shape {sizes_text(made)} after its steps, but "
                f"the model takes {list(wanted)}: change resize, crop, layout, reshape or "
                "maxLength."
            )


def check_labels(
    manifest: ModelManifest, pipeline: TaskPipeline, outputs: Sequence[Tensor]
) -> None:
    """Raise TaskRefusedError if there are more or fewer labels than the output has classes."""
    labels = pipeline.labels
    shapes = {each.name: each.shape for each in outputs}
    shape = shapes.get(pipeline.prediction_output, [])
    if labels is None or not shape or shape[-1] < 0 or len(labels) == shape[-1]:
        return
    raise TaskRefusedError(
        f"The label file of {manifest.name} has {len(labels)} labels, but the output "
        f"{pipeline.prediction_output!r} distinguishes {shape[-1]} classes: use the labels that "
        "the model was trained with."
    )
