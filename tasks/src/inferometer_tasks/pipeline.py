"""The steps of a manifest, checked once and applied to each sample."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from inferometer_api.document import Document
from inferometer_api.manifest.input_steps import (
    Cast,
    Crop,
    Decode,
    FileBytes,
    Layout,
    Normalize,
    Reshape,
    Resize,
    Tokenize,
)
from inferometer_api.manifest.model_manifest import ManifestInput, ManifestOutput, ModelManifest
from inferometer_api.manifest.output_steps import (
    AnswerSpan,
    ArgmaxMask,
    Boxes,
    ClassMask,
    Ctc,
    OutputStep,
    Softmax,
    TopK,
)
from inferometer_tasks.assets import Assets
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.sample import Array, Prediction, Sample
from inferometer_tasks.step_order import check_steps, name_of
from inferometer_tasks.steps import boxes, classes, image, tensor, text

Tensors = dict[str, Array]
Clock = Callable[[], int]


@dataclass(slots=True)
class StepTimes:
    """Time spent in each step, in nanoseconds, over all samples and threads.

    It is the time on a CPU: threads that run the steps of several samples wait for each other.
    """

    clock: Clock = time.thread_time_ns
    totals: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    """How often each step was run to its end."""
    current: str = ""
    """The step that was begun last, if one thread runs all of them."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, name: str, since_ns: int) -> int:
        """Add the time since then to a step; return the time now."""
        now = self.clock()
        with self._lock:
            self.totals[name] = self.totals.get(name, 0) + now - since_ns
            self.counts[name] += 1
        return now


_Apply = Callable[[Any, Any, Sample, Assets], Any]
_STEPS: Mapping[type[Document], _Apply] = MappingProxyType(
    {
        Decode: lambda step, value, _, __: image.decode(step, _bytes(value)),
        FileBytes: lambda step, value, _, __: tensor.file_bytes(step, _bytes(value)),
        Tokenize: lambda step, _, sample, assets: text.tokenize(
            step, sample, assets.tokenizer(step.tokenizer)
        ),
        Resize: lambda step, value, _, __: image.resize(step, value),
        Crop: lambda step, value, _, __: image.crop(step, value),
        Normalize: lambda step, value, _, __: tensor.normalize(step, _numbers(value)),
        Layout: lambda step, value, _, __: tensor.layout(step, _numbers(value)),
        Cast: lambda step, value, _, __: tensor.cast(step, _numbers(value)),
        Reshape: lambda step, value, _, __: tensor.reshape(step, _numbers(value)),
    }
)
"""How each step is applied to a value, with the whole sample and the assets."""


def predicting_output(manifest: ModelManifest) -> ManifestOutput:
    """Return the output that makes the prediction."""
    return next((each for each in manifest.outputs if each.steps), manifest.outputs[0])


def step_names(manifest: ModelManifest) -> tuple[str, ...]:
    """Return the names of all steps that are run, in their order, each once."""
    return tuple(_runs_per_sample(manifest))


def _runs_per_sample(manifest: ModelManifest) -> Counter[str]:
    """Return how often each step is run on a sample, in the order of the steps."""
    before = [name_of(step) for each in manifest.inputs for step in each.steps]
    after = [name_of(step) for step in predicting_output(manifest).steps]
    if manifest.preprocess is not None:
        before = ["preprocess"]
    if manifest.postprocess is not None:
        after = ["postprocess"]
    return Counter((*before, *after))


class TaskPipeline:
    """Turns samples into the inputs of one model, and its outputs into predictions."""

    def __init__(
        self, manifest: ModelManifest, assets: Assets, times: StepTimes | None = None
    ) -> None:
        check_steps(manifest)
        self._manifest = manifest
        self._assets = assets
        self.times = times or StepTimes()
        self._predicting = predicting_output(manifest)

    def mean_times(self) -> dict[str, int]:
        """Return the time of each step in nanoseconds, a mean over the samples that passed it."""
        counts = self.times.counts
        return {
            name: self.times.totals[name] * runs // counts[name]
            for name, runs in _runs_per_sample(self._manifest).items()
            if counts[name]
        }

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The labels of the classes; None if there are none."""
        file = self._label_file
        return None if file is None else self._assets.lines(file)

    @property
    def class_names(self) -> frozenset[str]:
        """The labels of the classes, without blanks around them."""
        file = self._label_file
        return frozenset() if file is None else self._assets.names(file)

    @property
    def _label_file(self) -> str | None:
        step = self._predicting.steps[-1].setting if self._predicting.steps else None
        return step.labels if isinstance(step, TopK) else None

    @property
    def prediction_output(self) -> str:
        """The name of the output that makes the prediction."""
        return self._predicting.name

    def inputs(self, sample: Sample) -> Tensors:
        """Return the model's inputs without a batch axis; raises SampleError."""
        return {each.name: self._input(each, sample) for each in self._manifest.inputs}

    def _input(self, given: ManifestInput, sample: Sample) -> Array:
        value: Any = sample.content
        since = self.times.clock()
        for step in given.steps:
            self.times.current = name = name_of(step)
            value = _STEPS[type(step.setting)](step.setting, value, sample, self._assets)
            since = self.times.add(name, since)
        if isinstance(value, bytes | str):
            try:
                content = value.encode() if isinstance(value, str) else value
            except UnicodeEncodeError as error:
                raise SampleError(f"Its text cannot be written as UTF-8: {error}.") from error
            return np.array([content], object)
        found: Array = value
        return found

    def prediction(self, outputs: Mapping[str, Array], sample: Sample) -> Prediction:
        """Return what the model predicts; outputs have no batch axis.

        Raises TaskRefusedError if labels do not fit the model, and SampleError.
        """
        value: Any = _output(outputs, self._predicting.name)
        if self._predicting.steps and value.dtype.kind in "OSU":
            raise TaskRefusedError(
                f"The step {name_of(self._predicting.steps[0])} takes numbers, but the output "
                f"{self._predicting.name!r} has texts: leave out the output's steps."
            )
        since = self.times.clock()
        for step in self._predicting.steps:
            self.times.current = name = name_of(step)
            value = self._finish(step, value, outputs, sample)
            since = self.times.add(name, since)
        found: Prediction = value
        return found

    def _finish(
        self, step: OutputStep, value: Any, outputs: Mapping[str, Array], sample: Sample
    ) -> Any:
        if isinstance(step.setting, Softmax | TopK | Ctc | ArgmaxMask | AnswerSpan):
            _check_comparable(self._predicting.name, value)
        match step.setting:
            case Softmax():
                return classes.softmax(value)
            case TopK() as setting:
                return replace(classes.top_k(setting, value, self.labels), names=self.class_names)
            case Ctc() as setting:
                return classes.ctc(setting, value, self._assets.lines(setting.vocabulary))
            case ArgmaxMask() | ClassMask() as setting:
                return (
                    classes.argmax_mask(setting, value)
                    if isinstance(setting, ArgmaxMask)
                    else classes.mask(value)
                )
            case Boxes() as setting:
                return boxes.detections(
                    setting,
                    value,
                    None if setting.scores is None else _output(outputs, setting.scores),
                    None if setting.classes is None else _output(outputs, setting.classes),
                    self._scale(sample),
                )
            case AnswerSpan() as setting:
                tokenizer = self._assets.tokenizer(setting.tokenizer)
                ends = _output(outputs, setting.end)
                _check_comparable(setting.end, ends)
                return text.span(setting, value, ends, sample, tokenizer)
            case setting:
                raise TaskRefusedError(f"The step {type(setting).__name__} is not known here.")

    def _scale(self, sample: Sample) -> boxes.Scale | None:
        """Return how the first image input of a sample is resized; None without an image."""
        for given in self._manifest.inputs:
            settings = [each.setting for each in given.steps]
            if not settings or not isinstance(settings[0], Decode):
                continue
            decoded = image.decode(settings[0], _bytes(sample.content))
            size = (decoded.shape[0], decoded.shape[1])
            step = next((each for each in settings if isinstance(each, Resize)), None)
            if step is None:
                return boxes.Scale(size, size, size)
            scaled = image.target_size(step, *size)
            padded = (step.height or scaled[0], step.width or scaled[1])
            return boxes.Scale(size, scaled, padded if step.fit == "Pad" else scaled)
        return None


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise SampleError("The sample has no file, but the first step reads one.")
    return value


def _numbers(value: Any) -> Array:
    if not isinstance(value, np.ndarray):
        raise SampleError("The sample has no values, but the first step takes numbers.")
    return value


def _check_comparable(name: str, scores: Array) -> None:
    """Raise SampleError if a score is NaN: none is the highest then."""
    is_float = scores.dtype.kind == "f" or scores.dtype == tensor.DTYPES["BF16"]
    if is_float and np.isnan(scores).any():
        raise SampleError(
            f"The model's output {name!r} has {int(np.isnan(scores).sum()):,} NaN among "
            f"{scores.size:,} scores: they cannot be compared."
        )


def _output(outputs: Mapping[str, Array], name: str) -> Array:
    found = outputs.get(name)
    if found is None:
        raise TaskRefusedError(
            f"The manifest reads the output {name!r}, but the model has {sorted(outputs)}."
        )
    return found
