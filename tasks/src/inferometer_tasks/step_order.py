"""Checks that the steps of a manifest follow from each other, as far as no sample is needed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from inferometer_api.manifest.input_steps import (
    Crop,
    Decode,
    InputStep,
    Layout,
    Normalize,
    Reshape,
    Resize,
)
from inferometer_api.manifest.model_manifest import ManifestInput, ManifestOutput, ModelManifest
from inferometer_api.manifest.output_steps import Boxes, OutputStep, Softmax
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.step_shapes import KnownShape, can_reshape, next_shape, sizes_text

# What a step takes, and what it makes of it.
_ORDER: Mapping[str, tuple[frozenset[str], str]] = {
    "decode": (frozenset({"bytes"}), "image"),
    "fileBytes": (frozenset({"bytes"}), "values"),
    "tokenize": (frozenset({"text"}), "values"),
    "resize": (frozenset({"image"}), "image"),
    "crop": (frozenset({"image"}), "image"),
    "normalize": (frozenset({"image", "values"}), "values"),
    "layout": (frozenset({"image", "values"}), "values"),
    "cast": (frozenset({"image", "values"}), "values"),
    "reshape": (frozenset({"image", "values"}), "values"),
}
_CONTENT = {"Image": "bytes", "File": "bytes", "Text": "text", "Values": "values"}
_LAST = frozenset({"topK", "boxes", "ctc", "argmaxMask", "mask", "span"})


def name_of(step: InputStep | OutputStep) -> str:
    """Return the wire name of a step's member."""
    fields = type(step).model_fields
    return next(
        each.alias or name for name, each in fields.items() if getattr(step, name) is not None
    )


def check_steps(manifest: ModelManifest) -> None:
    """Raise TaskRefusedError if steps do not follow from each other, or if one has no effect."""
    for index, each in enumerate(manifest.inputs):
        _check_input(f"inputs[{index}]", each)
    for index, output in enumerate(manifest.outputs):
        _check_output(f"outputs[{index}]", output, manifest)
    predicting = [index for index, each in enumerate(manifest.outputs) if each.steps]
    if len(predicting) > 1:
        raise TaskRefusedError(
            f"outputs[{predicting[1]}] has steps, but outputs[{predicting[0]}] makes the "
            "prediction: leave steps to one of them."
        )
    samples: set[str] = set()
    for index, expected in enumerate(manifest.expected_outputs):
        if expected.sample in samples:
            raise TaskRefusedError(
                f"expectedOutputs[{index}] is another one of sample {expected.sample!r}: remove "
                "one of the two."
            )
        samples.add(expected.sample)


def _check_input(where: str, given: ManifestInput) -> None:
    kind = _CONTENT[given.modality]
    image = _KnownImage()
    shape: KnownShape | None = None
    for place, step in enumerate(given.steps):
        name = name_of(step)
        takes, makes = _ORDER[name]
        if kind not in takes:
            raise TaskRefusedError(
                f"{where}.steps[{place}].{name} takes {_words(takes)}, but gets {kind}: "
                f"{_advice(kind, given.modality, takes)}."
            )
        kind = makes
        for problem in image.problems(step):
            raise TaskRefusedError(f"{where}.steps[{place}].{name}{problem}")
        if isinstance(step.setting, Reshape) and not can_reshape(shape, step.setting.shape):
            raise TaskRefusedError(
                f"{where}.steps[{place}].reshape cannot give values of the shape "
                f"{sizes_text(shape or ())} the shape {step.setting.shape}: their number differs."
            )
        shape = next_shape(step, shape)
    if kind in {"bytes", "text"} and given.steps:
        raise TaskRefusedError(f"{where}.steps end with {kind}: a model takes numbers.")


@dataclass(slots=True)
class _KnownImage:
    """What is known of an image before a sample is read."""

    channels: int | None = None
    rows: int | None = None
    columns: int | None = None
    may_exceed: bool = False
    """Whether one of the sides may be longer: both are the shortest then."""
    has_layout: bool = False
    channels_first: bool = False

    def problems(self, step: InputStep) -> Iterator[str]:
        """Yield what is wrong with the next step, as the end of a sentence, and apply it."""
        match step.setting:
            case Decode(color_mode=color_mode):
                self.channels = 1 if color_mode == "Gray" else 3
            case Resize() as resize:
                self.rows, self.columns = resize.height, resize.width
                self.may_exceed = resize.fit == "Cover"
            case Crop() as crop:
                yield from self._crop_problems(crop)
                self.rows, self.columns, self.may_exceed = crop.height, crop.width, False
            case Normalize() as normalize:
                yield from self._normalize_problems(normalize)
            case Layout(order=order):
                if self.has_layout:
                    yield " is the second one: layout reorders the axes of rows, columns, channels."
                self.has_layout, self.channels_first = True, order == "CHW"
            case Reshape():
                self.channels, self.has_layout, self.channels_first = None, False, False
            case _:
                pass

    def _crop_problems(self, crop: Crop) -> Iterator[str]:
        tall = self.rows is not None and crop.height > self.rows
        wide = self.columns is not None and crop.width > self.columns
        if (tall and wide) or ((tall or wide) and not self.may_exceed):
            sides = [each if each is not None else "?" for each in (self.rows, self.columns)]
            yield (
                f" cuts out {crop.height} x {crop.width} pixels of {sides[0]} x {sides[1]}: resize "
                "to more, or crop to fewer."
            )

    def _normalize_problems(self, normalize: Normalize) -> Iterator[str]:
        for name, values, wanted in (
            ("divideBy", [normalize.divide_by], "finite and above 0"),
            ("mean", normalize.mean, "finite"),
            ("std", normalize.std, "finite and above 0"),
        ):
            with np.errstate(over="ignore"):
                numbers = np.array(values, np.float32)
            is_divisor = name != "mean"
            if not np.isfinite(numbers).all() or (is_divisor and (numbers <= 0).any()):
                yield f".{name} is {_one_or_all(values)}: not {wanted} in 32-bit floats."
        counts = {len(each) for each in (normalize.mean, normalize.std)} - {1}
        if counts and self.channels_first:
            yield " works by channel, the last axis: put it before layout CHW."
        wrong = sorted(counts - {self.channels})
        if self.channels is not None and wrong:
            yield (
                f" has {wrong[0]} values of mean or std, but the image has {self.channels} "
                "channels: give one, or one for each channel."
            )
        if len(counts) > 1:
            yield f" has {len(normalize.mean)} values of mean and {len(normalize.std)} of std."


def _one_or_all(values: list[float]) -> str:
    return str(values[0] if len(values) == 1 else values)


def _words(kinds: frozenset[str]) -> str:
    return " or ".join(sorted(kinds))


def _advice(kind: str, modality: str, takes: frozenset[str]) -> str:
    if kind == "bytes":
        return "decode first, or use fileBytes"
    if modality == "Values" and not takes & {"image", "values"}:
        return f"set modality: {'Text' if 'text' in takes else 'Image or File'}"
    if kind == "values":
        return "image steps come before normalize, layout, cast and reshape"
    return f"modality {modality} begins with {kind}"


def _check_output(where: str, given: ManifestOutput, manifest: ModelManifest) -> None:
    softmaxes = 0
    for place, step in enumerate(given.steps):
        name = name_of(step)
        if place < len(given.steps) - 1 and name in _LAST:
            raise TaskRefusedError(
                f"{where}.steps[{place}].{name} makes the prediction: no step follows it."
            )
        softmaxes += isinstance(step.setting, Softmax)
        if softmaxes > 1:
            raise TaskRefusedError(
                f"{where}.steps[{place}].softmax is the second one: they are probabilities already."
            )
        if isinstance(step.setting, Boxes) and any(
            isinstance(each.setting, Crop) for one in manifest.inputs for each in one.steps
        ):
            raise TaskRefusedError(
                f"{where}.steps[{place}].boxes cannot map boxes back through crop: use resize "
                "alone."
            )
