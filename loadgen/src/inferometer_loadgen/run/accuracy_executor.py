"""Executor of accuracy: sends each sample of a data set once, and compares the predictions."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from inferometer_api.results.accuracy import AccuracyResult, StepTime
from inferometer_api.results.result import (
    Counts,
    Energy,
    ErrorExample,
    ScenarioResult,
    ServerTime,
    Step,
)
from inferometer_api.spec.scenario import Accuracy
from inferometer_api.timestamps import format_time
from inferometer_loadgen.requests.encode import Encoder, uses_binary
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.requests.replies import UnreadableReplyError
from inferometer_loadgen.run.environment import fell_back, not_obtained, unchecked_constraint
from inferometer_loadgen.run.executor import RunContext, ScenarioRepeat, StepEnd
from inferometer_loadgen.run.server_sampling import ServerSampling
from inferometer_loadgen.schedule.steps import SECOND_NS, End, StepPlan
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_loadgen.task.evaluation import Evaluation
from inferometer_loadgen.task.model_task import ModelTask, load_task
from inferometer_loadgen.task.reply_arrays import reply_arrays
from inferometer_loadgen.task.sample_sender import (
    SampleConnection,
    SenderTimeouts,
    ServerLostError,
    SharedIterator,
)
from inferometer_loadgen.verdict.judge import judge
from inferometer_loadgen.verdict.measurement import Measurement, ScenarioConditions
from inferometer_loadgen.verdict.rule_table import OF_ACCURACY
from inferometer_loadgen.wire import RequestTarget
from inferometer_loadgen.wire.connection import open_connection, prepare
from inferometer_tasks.datasets.dataset import Dataset, UnreadableSample, open_dataset
from inferometer_tasks.datasets.digest import SampleDigest
from inferometer_tasks.errors import SampleError, confine_to_sample
from inferometer_tasks.model_inputs import fit_inputs, is_batched
from inferometer_tasks.pipeline import StepTimes
from inferometer_tasks.sample import Sample

_NO_ENERGY = "scenarios of kind accuracy do not measure energy"


@dataclass(frozen=True, slots=True)
class PreparedAccuracy:
    """What one accuracy scenario needs: checked before anything is sent."""

    spec: Accuracy
    dataset: Dataset
    task: ModelTask
    description: ServerDescription
    unchecked_constraint: str
    """The versions of an engine that the manifest needs, if the server does not report its own."""

    @property
    def requested(self) -> int:
        """How many samples are to be sent."""
        return min(self.dataset.count, self.spec.samples or self.dataset.count)


def _notes(name: str, prepared: PreparedAccuracy) -> Iterator[str]:
    dataset, wanted = prepared.dataset, prepared.spec.samples
    yield (
        f"The data set of {name} is {dataset.name}, version {dataset.version}, licence "
        f"{dataset.license}."
    )
    if wanted is not None and wanted > dataset.count:
        yield (
            f"The data set of {name} has {dataset.count:,} samples, fewer than the {wanted:,} in "
            "accuracy.samples: all are sent."
        )


@asynccontextmanager
async def open_accuracy_executor(run: RunContext) -> AsyncIterator["AccuracyExecutor"]:
    """Open the executor, with a folder for unpacked data sets that goes with it."""
    with tempfile.TemporaryDirectory(prefix="inferometer-data-") as folder:
        executor = AccuracyExecutor(run, Path(folder))
        try:
            yield executor
        finally:
            await executor.close()


class AccuracyExecutor:
    """Evaluates data sets on the first of the servers' models; see Executor."""

    def __init__(self, run: RunContext, folder: Path) -> None:
        self._run = run
        self._folder = folder
        self._datasets: dict[str, Dataset] = {}
        self._prepared: dict[str, PreparedAccuracy] = {}
        self._sampling: ServerSampling | None = None
        """If the server runs the steps."""

    async def close(self) -> None:
        """Close the connection to the server's statistics."""
        if self._sampling is not None:
            await self._sampling.close()
            self._sampling = None

    async def prepare(
        self,
        run: RunContext,
        descriptions: Sequence[ServerDescription],
        repeats: Sequence[ScenarioRepeat],
    ) -> Sequence[str]:
        """Read manifest and data sets. Raises TaskRefusedError if they do not fit the model."""
        await self.close()
        self._run = run
        if "steps" in descriptions[0].settings:
            self._sampling = ServerSampling(run.servers, descriptions)
        for repeat in repeats:
            spec = repeat.scenario.accuracy
            if spec is None:
                raise RuntimeError("A scenario of another kind came to the accuracy executor.")
            name = repeat.scenario.name
            self._prepared[name] = PreparedAccuracy(
                spec,
                await self._dataset(name, spec, repeat.trace_file),
                load_task(run.plan, descriptions[0], spec.metrics),
                descriptions[0],
                unchecked_constraint(run.plan, descriptions[0]),
            )
        return [note for name, each in self._prepared.items() for note in _notes(name, each)]

    async def _dataset(self, name: str, spec: Accuracy, file: str) -> Dataset:
        if name not in self._datasets:
            path = Path(file) if file else None
            unpacked = self._folder / name
            unpacked.mkdir()
            self._datasets[name] = await asyncio.to_thread(
                open_dataset, spec.dataset.uri, path, unpacked
            )
        return self._datasets[name]

    def start(self, repeat: ScenarioRepeat) -> "AccuracyRepeat":
        """Begin one repeat of a scenario; raises KeyError before `prepare`."""
        prepared = self._prepared[repeat.scenario.name]
        return AccuracyRepeat(self._run, repeat, prepared, self._sampling)


class AccuracyRepeat:
    """Sends the samples of one repeat and judges them; see RepeatExecution."""

    def __init__(
        self,
        run: RunContext,
        repeat: ScenarioRepeat,
        prepared: PreparedAccuracy,
        sampling: ServerSampling | None,
    ) -> None:
        self._run = run
        self._sampling = sampling
        self._server_time: ServerTime | None = None
        self._repeat = repeat
        self._prepared = prepared
        self._planned = iter(repeat.steps)
        expected = {
            each.sample: each.prediction for each in prepared.task.manifest.expected_outputs
        }
        self._evaluation = Evaluation(prepared.spec.metrics, expected)
        self._digest = SampleDigest()
        self._plan: StepPlan | None = None
        self._started_at = ""
        self._duration_ns = 0
        self._end = End.DONE
        load, description = run.plan.run.spec.load, prepared.description
        self._encoder = Encoder(
            load.protocol,
            run.plan.model_name,
            run.plan.model_version,
            description.inputs,
            description.outputs,
            binary=uses_binary(load, description.extensions),
        )
        self._timeouts = SenderTimeouts(
            load.request_timeout_milliseconds / 1000, load.reconnect_deadline_seconds
        )

    def next_step(self) -> StepPlan | None:
        """Return the one step."""
        return next(self._planned, None)

    async def run_step(self, step: StepPlan) -> StepEnd:
        """Send every sample once. Raises TaskRefusedError if the steps do not fit the replies."""
        self._plan = step
        self._prepared.task.pipeline.times = StepTimes()  # of this repeat alone
        read = self._digest.read(self._prepared.dataset.first(self._prepared.spec.samples))
        samples = SharedIterator(read)
        before = None if self._sampling is None else await self._sampling.sample()
        began = time.monotonic_ns()
        self._started_at = format_time(datetime.now(UTC))
        self._run.on_first_query()
        self._run.progress.sending(self._prepared.requested)
        count = self._run.plan.run.spec.load.connections
        tasks = [
            asyncio.create_task(self._work(target, samples))
            for target in self._run.servers.targets()
            for _ in range(count)
        ]

        def interrupt() -> None:
            self._end = End.INTERRUPTED
            for task in tasks:
                task.cancel()

        self._run.interruption.end_step = interrupt
        trouble = ""
        try:
            await asyncio.gather(*tasks)
        except ServerLostError as lost:
            self._end, trouble = End.SERVER_LOST, str(lost)
        except asyncio.CancelledError:
            if self._end is not End.INTERRUPTED:
                raise
        finally:
            self._run.interruption.end_step = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._duration_ns = time.monotonic_ns() - began
        if self._sampling is not None and before is not None:
            after = await self._sampling.sample()
            self._server_time = self._sampling.time_between(before, after)
        return StepEnd(self._end, trouble)

    async def _work(
        self, target: RequestTarget, samples: SharedIterator[Sample | UnreadableSample]
    ) -> None:
        connection = SampleConnection(self._timeouts)
        await connection.open(partial(open_connection, target))
        try:
            while (taken := await samples.take()) is not None:
                index, sample = taken
                before = self._evaluation.failed.total()
                await self._send(connection, target, index, sample)
                failed = self._evaluation.failed.total()
                self._run.progress.report_samples(self._evaluation.processed + failed, failed)
                is_failed = failed > before
                if is_failed and self._prepared.spec.on_sample_error == "Stop":
                    samples.ended, self._end = True, End.SAMPLE_ERROR
        finally:
            await connection.close()

    async def _send(
        self,
        connection: SampleConnection,
        target: RequestTarget,
        index: int,
        sample: Sample | UnreadableSample,
    ) -> None:
        """Send one sample, and count its prediction or its failure; raises ServerLostError."""
        evaluation = self._evaluation
        if isinstance(sample, UnreadableSample):
            evaluation.fail(index, sample.id, "Input", sample.message)
            return
        pipeline, tensors = self._prepared.task.pipeline, self._prepared.description.inputs
        try:
            with confine_to_sample("the steps before the model", InputRefusedError):
                arrays = await asyncio.to_thread(pipeline.inputs, sample)
                request = prepare(target, self._encoder.encode(fit_inputs(tensors, arrays)))
        except SampleError as error:
            evaluation.fail(index, sample.id, "Input", str(error))
            return
        failure, reply = await connection.ask(request)
        if failure is not None or reply is None:
            message, kind = ("", "") if failure is None else (failure.message, failure.kind.value)
            evaluation.fail(index, sample.id, "Request", message, kind)
            return
        try:
            protocol = self._encoder.protocol
            with confine_to_sample("the steps after the model", UnreadableReplyError):
                outputs = reply_arrays(protocol, reply, batched=is_batched(tensors, arrays))
                prediction = await asyncio.to_thread(pipeline.prediction, outputs, sample)
        except SampleError as error:
            evaluation.fail(index, sample.id, "Output", str(error))
            return
        evaluation.add(index, sample, prediction)

    def judge(self, cut_short: End | None, *, server_restarted: bool) -> ScenarioResult | None:
        """Return the measures and the verdict; None if no sample was sent."""
        evaluation = self._evaluation
        if self._plan is None or not (evaluation.processed + evaluation.failed.total()):
            return None
        step = self._step()
        spec, description = self._run.plan.run.spec, self._prepared.description
        conditions = ScenarioConditions(
            kind=self._repeat.scenario.kind,
            cut_short=cut_short,
            server_restarted=server_restarted,
            compute_nodes_fell_back=fell_back(description) or 0,
            not_obtained=not_obtained(spec.server, [description]),
            unready_server=description.unready_server,
            expectation_broken=evaluation.expectation_broken(),
            unchecked_constraint=self._prepared.unchecked_constraint,
        )
        measured = Measurement(self._plan, step, self._end)
        return ScenarioResult(
            name=self._repeat.scenario.name,
            kind=self._repeat.scenario.kind,
            repeat=self._repeat.repeat,
            seed=self._repeat.seed,
            steps=[step],
            verdict=judge([measured], conditions, OF_ACCURACY),
            accuracy=self._accuracy(),
        )

    def _step(self) -> Step:
        evaluation = self._evaluation
        failed, seconds = evaluation.failed.total(), max(1, self._duration_ns) / SECOND_NS
        examples = {each.stage: each for each in reversed(evaluation.failures)}
        return Step(
            label="",
            started_at=self._started_at,
            warm_up_nanoseconds=0,
            duration_nanoseconds=self._duration_ns,
            ended_early=self._end is not End.DONE,
            counts=Counts(
                queries=evaluation.processed + failed,
                samples=evaluation.processed,
                succeeded=evaluation.processed,
                failed=failed,
                errors=dict(sorted(evaluation.failed.items())),
            ),
            achieved_qps=evaluation.processed / seconds,
            achieved_samples_per_second=evaluation.processed / seconds,
            error_examples=[
                ErrorExample(kind=stage.lower(), message=f"Sample {each.sample}: {each.message}")
                for stage, each in sorted(examples.items())
            ],
            server_time=self._server_time,
            energy=Energy(attribution="unavailable", reason=_NO_ENERGY),
            connections=self._run.plan.run.spec.load.connections,
        )

    def _accuracy(self) -> AccuracyResult:
        prepared = self._prepared
        return self._evaluation.result(
            prepared.dataset,
            prepared.spec.dataset,
            prepared.requested,
            self._digest.value,
            list(self._step_times()),
        )

    def _step_times(self) -> Iterator[StepTime]:
        """Yield the mean time of each step around the model, wherever it runs."""
        if self._server_time is not None:
            for each in self._server_time.steps:
                yield StepTime(step=each.step, nanoseconds=each.nanoseconds)
            return
        for name, mean in self._prepared.task.pipeline.mean_times().items():
            yield StepTime(step=name, nanoseconds=mean)
