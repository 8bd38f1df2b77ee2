"""Accuracy of sampled replies to a load: the samples that it sends, and the measures over them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from typing_extensions import override

from inferometer_api.results.accuracy import AccuracyResult
from inferometer_api.spec.scenario import SampledAccuracy
from inferometer_loadgen.drive.prepare import LocalDriverFactory
from inferometer_loadgen.drive.sampled_requests import ReplyLog
from inferometer_loadgen.drive.sampling_factory import SamplingPart
from inferometer_loadgen.requests.inputs import InputRefusedError, InputSource, Tensors
from inferometer_loadgen.requests.pool import InputSources
from inferometer_loadgen.requests.replies import UnreadableReplyError
from inferometer_loadgen.run.executor import RunContext, ScenarioRepeat
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_loadgen.task.evaluation import Evaluation
from inferometer_loadgen.task.model_task import ModelTask, load_task
from inferometer_loadgen.task.reply_arrays import reply_arrays
from inferometer_tasks.datasets.dataset import Dataset, UnreadableSample, open_dataset
from inferometer_tasks.datasets.digest import SampleDigest
from inferometer_tasks.errors import SampleError, confine_to_sample
from inferometer_tasks.model_inputs import fit_inputs, is_batched
from inferometer_tasks.sample import Sample


@dataclass(frozen=True, slots=True)
class SentSample:
    """One sample, and its inputs."""

    index: int
    sample: Sample
    tensors: Tensors
    is_batched: bool


class SampleInputs(InputSources):
    """Sources of requests that carry one sample each."""

    def __init__(
        self, run: RunContext, found: ServerDescription, sent: Sequence[SentSample]
    ) -> None:
        super().__init__(run.plan.run.spec.load, None, found.inputs, files=run.files)
        self._sent = sent

    @property
    def count(self) -> int:
        """The number of different requests."""
        return len(self._sent)

    def request(self, index: int) -> Tensors:
        """Return the inputs of one request."""
        return self._sent[index].tensors

    @override
    def source(self, batch_size: int, seed: int | None = None) -> InputSource:
        """Return itself: every step sends the same samples."""
        del batch_size, seed
        return self


class AccuracySampling:
    """The samples of one scenario, and the evaluation of the replies that its repeats logged."""

    def __init__(
        self, run: RunContext, spec: SampledAccuracy, dataset: Dataset, task: ModelTask
    ) -> None:
        self._run = run
        self._spec = spec
        self._dataset = dataset
        self._task = task
        self._sent: list[SentSample] = []
        self._unsent: list[tuple[int, str, str]] = []
        self._digest = SampleDigest()
        self.log = ReplyLog()

    @classmethod
    async def prepare(
        cls, run: RunContext, repeat: ScenarioRepeat, found: ServerDescription, folder: Path
    ) -> "AccuracySampling | None":
        """Read the samples and run the steps before the model; None if the scenario has none.

        Raises TaskRefusedError, and InputRefusedError if no sample can be sent.
        """
        spec = repeat.scenario.sampled_accuracy
        if spec is None:
            return None
        unpacked = folder / repeat.scenario.name
        unpacked.mkdir(exist_ok=True)
        file = Path(repeat.trace_file) if repeat.trace_file else None
        dataset = await asyncio.to_thread(open_dataset, spec.dataset.uri, file, unpacked)
        task = load_task(run.plan, found, spec.metrics)
        sampling = cls(run, spec, dataset, task)
        await asyncio.to_thread(sampling._read, found)
        if not sampling._sent:
            why = sampling._unsent[0][2] if sampling._unsent else "It has no samples."
            raise InputRefusedError(
                f"No sample of the data set {dataset.name} of scenario {repeat.scenario.name!r} "
                f"can be sent: {why}"
            )
        return sampling

    def _read(self, found: ServerDescription) -> None:
        for index, sample in enumerate(self._digest.read(self._dataset.first(self._spec.samples))):
            if isinstance(sample, UnreadableSample):
                self._unsent.append((index, sample.id, sample.message))
                continue
            try:
                with confine_to_sample("the steps before the model"):
                    arrays = self._task.pipeline.inputs(sample)
                    tensors = fit_inputs(found.inputs, arrays)
            except SampleError as error:
                self._unsent.append((index, sample.id, str(error)))
                continue
            batched = is_batched(found.inputs, arrays)
            self._sent.append(SentSample(index, sample, tensors, batched))

    def part(self, drivers: LocalDriverFactory, found: ServerDescription) -> SamplingPart:
        """Return what makes the drivers of the scenario; `drivers` is that of the run."""
        inputs = SampleInputs(self._run, found, self._sent)
        return SamplingPart(replace(drivers, inputs=inputs), self._spec.sample_every, self.log)

    def result(self) -> AccuracyResult:
        """Return the measures over the replies since the last call.

        Raises TaskRefusedError if a measure does not fit the steps of the manifest.
        """
        expected = {each.sample: each.prediction for each in self._task.manifest.expected_outputs}
        evaluation = Evaluation(self._spec.metrics, expected)
        for index, name, message in self._unsent:
            evaluation.fail(index, name, "Input", message)
        replies, protocol = dict(self.log.replies), self._run.plan.run.spec.load.protocol
        for place in sorted(replies):
            sent = self._sent[place]
            try:
                with confine_to_sample("the steps after the model", UnreadableReplyError):
                    outputs = reply_arrays(protocol, replies[place], batched=sent.is_batched)
                    prediction = self._task.pipeline.prediction(outputs, sent.sample)
            except SampleError as error:
                evaluation.fail(sent.index, sent.sample.id, "Output", str(error))
                continue
            evaluation.add(sent.index, sent.sample, prediction)
        self.log.clear()
        requested = len(self._sent) + len(self._unsent)
        return evaluation.result(self._dataset, self._spec.dataset, requested, self._digest.value)
