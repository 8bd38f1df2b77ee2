"""Steps of a manifest in the server: around the model, for each sample of a request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic_ns

import numpy as np
from typing_extensions import override

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.results.result import Tensor
from inferometer_models.errors import ModelRefusedError
from inferometer_serving.errors import RefusalReason, RequestRefusedError, invalid
from inferometer_serving.infer.datatypes import DATATYPES, FILE_BYTES
from inferometer_serving.infer.signature import Signature, TensorSpec
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.loading import LoadedModel
from inferometer_serving.model.session import Session, StepsOfRun
from inferometer_tasks.assets import Assets
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.manifest_file import read_manifest_file
from inferometer_tasks.model_check import check_labels, check_tensors
from inferometer_tasks.model_inputs import fit_inputs, is_batched
from inferometer_tasks.packages import check_packages, import_packages
from inferometer_tasks.pipeline import StepTimes, TaskPipeline, step_names
from inferometer_tasks.prediction_forms import PredictionForm, prediction_form
from inferometer_tasks.python_steps import PythonSteps, check_allowed
from inferometer_tasks.sample import Sample
from inferometer_tasks.served_steps import CONTEXT, SAMPLE, received_sample, sample_tensors

_FIT = "fit"
"""The name of what follows the steps before the model: their results become its inputs."""


@dataclass(slots=True)
class StepSpans(StepTimes):
    """Times of steps, each with its begin and end."""

    spans: list[tuple[str, int, int]] = field(default_factory=list)

    @override
    def add(self, name: str, since_ns: int) -> int:
        """Note a step that began then, and return the time now."""
        now = self.clock()
        self.spans.append((name, since_ns, now))
        return now


def with_steps(model: LoadedModel, manifest_file: Path, *, allow_python: bool) -> LoadedModel:
    """Return the model with the steps of its manifest around it.

    Raises ModelRefusedError if the manifest does not fit the model, or if it has Python steps that
    are not allowed.
    """
    try:
        return _with_steps(model, manifest_file, allow_python=allow_python)
    except TaskRefusedError as error:
        raise ModelRefusedError(str(error)) from error


def _with_steps(model: LoadedModel, manifest_file: Path, *, allow_python: bool) -> LoadedModel:
    file = read_manifest_file(manifest_file)
    manifest = file.manifest
    check_allowed(file, is_allowed=allow_python)
    check_packages(manifest, ())
    import_packages(manifest)
    signature = model.session.signature
    inputs, outputs = _tensors(signature.inputs), _tensors(signature.outputs)
    check_tensors(manifest, inputs, outputs)
    form = prediction_form(manifest, outputs)
    served = Signature(
        tuple(
            TensorSpec(each.name, FILE_BYTES, (-1,), is_optional=each.name == CONTEXT)
            for each in sample_tensors(manifest)
        ),
        tuple(
            TensorSpec(each.name, DATATYPES[each.datatype], tuple(each.shape))
            for each in form.tensors
        ),
    )
    sessions = []
    for session in model.sessions:
        # Each instance has its own: a tokenizer keeps settings between two calls.
        assets = Assets(manifest, manifest_file.parent)
        assets.check()
        times = StepSpans(clock=monotonic_ns)
        make = PythonSteps if manifest.has_python else TaskPipeline
        pipeline = make(manifest, assets, times)
        check_labels(manifest, pipeline, outputs)
        runner = PipelineRunner(session, manifest, pipeline, form)
        sessions.append(_wrapped(session, served, runner))
    return replace(
        model,
        sessions=tuple(sessions),
        steps=step_names(manifest),
        manifest_sha256=file.sha256,
    )


def _wrapped(session: Session, served: Signature, runner: "PipelineRunner") -> Session:
    return replace(
        session,
        runner=runner,
        signature=served,
        # How long the steps take is not known from shapes either.
        work_depends_on_values=True,
        last_steps=lambda: runner.steps,
    )


def _tensors(specs: Sequence[TensorSpec]) -> list[Tensor]:
    return [
        Tensor(name=each.name, datatype=each.datatype.name, shape=list(each.shape))
        for each in specs
    ]


class PipelineRunner:
    """Runs the steps before the model, the model once, and the steps after it; see Runner."""

    def __init__(
        self,
        session: Session,
        manifest: ModelManifest,
        pipeline: TaskPipeline,
        form: PredictionForm,
    ) -> None:
        self._run_model = session.runner.run
        self._inputs = _tensors(session.signature.inputs)
        self._output_names = [each.name for each in session.signature.outputs]
        self._manifest = manifest
        self._pipeline = pipeline
        self._form = form
        self.steps = StepsOfRun()
        """Those of the run that ended last."""

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> list[Array]:
        """Return the predictions of the samples in a request.

        Raises RequestRefusedError that names the step if one fails, and what the model raises.
        """
        times = self._pipeline.times
        self.steps = steps = StepsOfRun()
        if isinstance(times, StepSpans):
            times.spans = steps.spans
        times.current = SAMPLE
        try:
            samples = self._samples(inputs)
            arrays = [self._pipeline.inputs(each) for each in samples]
            times.current = _FIT
            rows = [fit_inputs(self._inputs, each) for each in arrays]
            batched = is_batched(self._inputs, arrays[0])
            joined = self._joined(rows, batched=batched)
        except Exception as error:
            raise self._failure(error) from error
        steps.model_began_ns = monotonic_ns()
        results = self._run_model(self._output_names, joined)
        steps.model_ended_ns = monotonic_ns()
        try:
            found = [
                self._pipeline.prediction(each, sample)
                for each, sample in zip(
                    self._split(results, len(samples), batched=batched), samples, strict=True
                )
            ]
            encoded = self._form.encode(found)
        except Exception as error:
            raise self._failure(error) from error
        return [encoded[name] for name in output_names]

    def _samples(self, inputs: Mapping[str, Array]) -> list[Sample]:
        contents = inputs[SAMPLE].tolist()
        contexts = inputs[CONTEXT].tolist() if CONTEXT in inputs else [None] * len(contents)
        if not contents or len(contexts) != len(contents):
            raise invalid(
                f"The request has {len(contents)} samples and {len(contexts)} contexts: send at "
                "least one sample, and as many contexts."
            )
        return [
            received_sample(self._manifest, content, context)
            for content, context in zip(contents, contexts, strict=True)
        ]

    def _joined(self, rows: Sequence[Mapping[str, Array]], *, batched: bool) -> dict[str, Array]:
        """Return the inputs of the model for all samples."""
        if len(rows) == 1:
            return {name: _model_text(each) for name, each in rows[0].items()}
        fixed = [each.name for each in self._inputs if not each.shape or each.shape[0] != -1]
        if fixed or not batched:
            raise invalid(
                f"The request has {len(rows)} samples, but the model takes one at a time: send "
                "one in each request."
            )
        shapes = {tuple(each.shape for each in row.values()) for row in rows}
        if len(shapes) > 1:
            raise invalid(
                "The samples of the request differ in shape after their steps: send each alone, "
                "or resize or pad them."
            )
        return {
            name: _model_text(np.concatenate([each[name] for each in rows])) for name in rows[0]
        }

    def _split(
        self, results: Sequence[Array], count: int, *, batched: bool
    ) -> list[dict[str, Array]]:
        """Return the outputs of each sample, without their batch axis."""
        named = dict(zip(self._output_names, results, strict=True))
        if count == 1:
            return [
                {
                    name: each[0] if batched and each.ndim and len(each) == 1 else each
                    for name, each in named.items()
                }
            ]
        for name, each in named.items():
            if not each.ndim or len(each) != count:
                raise invalid(
                    f"The output {name!r} has the shape {list(each.shape)} for {count} samples, so "
                    "it cannot be split between them: send each alone."
                )
        return [{name: each[row] for name, each in named.items()} for row in range(count)]

    def _failure(self, error: Exception) -> RequestRefusedError:
        """Return the refusal of a request, and note the step in which it failed."""
        name = self._pipeline.times.current
        self.steps.failed = name
        if isinstance(error, RequestRefusedError):
            return error
        reason = RefusalReason.FAILED
        message = repr(error)
        if isinstance(error, SampleError | TaskRefusedError):
            message = str(error)
            reason = RefusalReason.INVALID if isinstance(error, SampleError) else reason
        return RequestRefusedError(reason, f"The step {name} failed on this request: {message}")


def _model_text(array: Array) -> Array:
    """Return texts as the engines take them: str, not bytes."""
    if array.dtype != np.object_:
        return array
    texts = [each.decode() if isinstance(each, bytes) else each for each in array.ravel().tolist()]
    found = np.empty(len(texts), np.object_)
    found[:] = texts
    return found.reshape(array.shape)
