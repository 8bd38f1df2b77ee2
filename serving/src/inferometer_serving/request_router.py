"""Routes inference requests to a loaded model and counts the outcomes."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from time import monotonic_ns
from typing import Any, TypeVar

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.batching.batcher import Batcher
from inferometer_serving.batching.joining import key_of, samples_of
from inferometer_serving.errors import RefusalReason, RequestRefusedError, invalid
from inferometer_serving.infer.pending_request import PendingRequest, Read
from inferometer_serving.infer.request import RequestReader
from inferometer_serving.infer.tensors import Array
from inferometer_serving.inference_pool import InferencePool
from inferometer_serving.inference_stats import InferenceStats
from inferometer_serving.metadata import model_config, model_metadata
from inferometer_serving.metrics import ServerMetrics
from inferometer_serving.model.engine import Engine, Execution
from inferometer_serving.model.loading import LoadedModel, WarmUp, load, warm_up
from inferometer_serving.model.session import Interrupt
from inferometer_serving.model.warm_up import fits
from inferometer_serving.options import ServeOptions
from inferometer_serving.start_up import StartUp
from inferometer_serving.statistics import Statistics
from inferometer_serving.tracing import RequestTrace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that is open and warm."""

    model: LoadedModel
    warm: WarmUp


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of request outcomes."""

    metrics: ServerMetrics
    statistics: Statistics
    inference_stats: InferenceStats


def load_and_warm(options: ServeOptions, interrupt: Interrupt, start_up: StartUp) -> Loaded:
    """Return the model, ready to serve. Raises ModelRefusedError; takes a while."""
    model = load(options, interrupt, start_up)
    if options.other_models:  # the shapes are those of all models' inputs
        inputs = model.session.signature.input_by_name
        shapes = {
            name: shape
            for name, shape in options.warm_up_shapes.items()
            if name in inputs and fits(inputs[name], shape)
        }
        options = replace(options, warm_up_shapes=shapes)
    warm = warm_up(model, options)
    start_up.end("warmUp")
    if options.manifest is not None:
        with_steps = _import_steps()
        model = with_steps(model, options.manifest, allow_python=options.allow_python_steps)
        warm = replace(warm, inline_body_bytes=0)
    return Loaded(model, warm)


def _import_steps() -> Callable[..., LoadedModel]:
    """Return what puts steps around a model. Raises ModelRefusedError if they are not installed."""
    try:
        # Few servers run steps, and they take a while to import.
        from inferometer_serving.model.pipeline import with_steps  # noqa: PLC0415
    except ImportError as error:
        raise ModelRefusedError(
            f"--manifest was given, but the steps cannot be imported: {error}. Install "
            "inferometer[tasks]."
        ) from error
    return with_steps


class RequestRouter:
    """Routes the requests of a loaded model. Only the event loop's thread uses it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: ServeOptions,
        loaded: Loaded,
        counters: Counters,
        server_version: str,
    ) -> None:
        self.name = options.model_name
        self.model = loaded.model
        self.signature = loaded.model.session.signature
        self.reader = RequestReader(self.signature)
        self.metadata = model_metadata(options, loaded.model)
        self.config = model_config(options, loaded.model, loaded.warm, server_version)
        self._counters = counters
        self._inline_body_bytes = loaded.warm.inline_body_bytes
        self._max_batch_size = options.max_batch_size
        batched = [each.name for each in self.signature.inputs if each.has_open_batch]
        self._batched = batched[0] if batched else None
        joins = max(options.max_batch_size, 1)
        engines = [Engine(each, joins) for each in loaded.model.sessions]
        self._inline = engines[0]
        batcher: Batcher[PendingRequest[Any]] = Batcher(
            joins, options.max_delay_microseconds * 1000
        )
        self.pool = InferencePool(loop, engines, batcher, self._on_executed)

    def report_start_up(self, phases: str) -> None:
        """Add the phases of the server's start, as JSON, to the configuration."""
        self.config["parameters"]["inferometer.start_up"] = {"string_value": phases}

    def prepare(
        self,
        protocol: str,
        began_ns: int,
        read: Read[T],
        trace: RequestTrace | None = None,
    ) -> PendingRequest[T]:
        """Return a pending request. Raises RequestRefusedError if it has too many samples."""
        inputs, output_names, parameters, write = read
        key: Hashable = None
        if self._max_batch_size:
            samples = samples_of(inputs)
            if samples > self._max_batch_size:
                raise invalid(
                    f"The request has {samples} samples, but this server takes "
                    f"{self._max_batch_size} at most (--max-batch-size): send fewer."
                )
            key = key_of(inputs, output_names, parameters)
        else:
            samples = self._samples(inputs)
        return PendingRequest(
            protocol=protocol,
            began_ns=began_ns,
            inputs=inputs,
            output_names=output_names,
            samples=samples,
            key=key,
            write=write,
            trace=trace,
        )

    def runs_inline(self, body_bytes: int) -> bool:
        """Return whether a request of this size is computed in the event loop: first come first."""
        return body_bytes <= self._inline_body_bytes and not self.pool.requests

    def compute_now(
        self, protocol: str, began_ns: int, read: Read[T], trace: RequestTrace | None = None
    ) -> T:
        """Return the answer, computed in the event loop. Raises what went wrong."""
        # The same as for an instance, step by step: a tiny inference is over sooner than those.
        inputs, output_names, _, write = read
        computed_ns = 0
        started_ns = monotonic_ns()
        try:
            results = self._inline.run(output_names, inputs)
            computed_ns = monotonic_ns()
            answer = write(results)
        except Exception:
            if computed_ns:
                self._count_computation(self._samples(inputs), 1, computed_ns - started_ns)
            self.count_refusal(protocol, began_ns)
            raise
        note = self._counters.inference_stats.note
        written_ns = monotonic_ns()
        note(protocol, self._samples(inputs), began_ns, started_ns, computed_ns, written_ns)
        if trace is not None:
            trace.add("decode", began_ns, started_ns)
            trace.add("compute", started_ns, computed_ns)
            trace.add("encode", computed_ns, written_ns)
        return answer

    def put(self, pending: PendingRequest[Any]) -> None:
        """Let an instance compute a request; `pending.done` is called afterwards.

        Raises RequestRefusedError if the model was unloaded since the request began.
        """
        if self.pool.is_retired:
            raise RequestRefusedError(RefusalReason.UNAVAILABLE, "The model was unloaded.")
        self.pool.put(pending)

    def count_refusal(self, protocol: str, began_ns: int) -> None:
        """Count a request that was refused while it was read."""
        taken_ns = monotonic_ns() - began_ns
        self._counters.statistics.count_failure(taken_ns)
        self._counters.metrics.request_seconds[protocol].observe(taken_ns / 1e9)

    def give_up(self, error: RequestRefusedError) -> None:
        """Answer all waiting and running requests with an error."""
        for pending in self.pool.requests.copy():
            done, pending.done = pending.done, None
            if done is not None:
                done(None, error)

    def _on_executed(self, executions: list[Execution]) -> None:
        now_ns = monotonic_ns()
        queue_seconds = self._counters.metrics.queue_seconds
        for execution in executions:
            for pending in execution.requests:
                queue_seconds.observe((execution.started_ns - pending.waits_since_ns) / 1e9)
            self._count(execution, now_ns)
            for pending in execution.requests:
                if pending.trace is not None:
                    add_parts(pending.trace, pending, execution)
            for pending, answer in zip(execution.requests, execution.answers, strict=True):
                done, pending.done = pending.done, None
                if done is None:
                    continue
                if isinstance(answer, Exception):
                    done(None, answer)
                else:
                    done(answer, None)

    def _count(self, execution: Execution, now_ns: int) -> None:
        metrics = self._counters.metrics
        self._counters.statistics.count_execution(execution, now_ns)
        for pending in execution.requests:
            metrics.request_seconds[pending.protocol].observe((now_ns - pending.began_ns) / 1e9)
        if execution.is_computed:
            self._count_computation(execution.samples, len(execution.requests), execution.infer_ns)

    def _count_computation(self, samples: int, requests: int, infer_ns: int) -> None:
        metrics = self._counters.metrics
        metrics.compute_seconds.observe(infer_ns / 1e9)
        metrics.batches[samples] += 1
        metrics.joined[requests] += 1

    def _samples(self, inputs: dict[str, Array]) -> int:
        return 1 if self._batched is None else len(inputs[self._batched])


def add_parts(trace: RequestTrace, pending: PendingRequest[Any], execution: Execution) -> None:
    """Add the parts of a traced request that its run of the model determines.

    It has the part `encode` already, unless the model failed.
    """
    encoded = [(began, ended) for name, began, ended in trace.parts if name == "encode"]
    trace.add("decode", pending.began_ns, pending.waits_since_ns)
    trace.add("batch", pending.waits_since_ns, pending.ready_ns)
    trace.add("queue", pending.ready_ns, execution.started_ns)
    trace.add("input", execution.started_ns, execution.joined_ns)
    steps = execution.steps
    if steps is None:
        trace.add("compute", execution.joined_ns, execution.computed_ns)
    else:
        for name, began_ns, ended_ns in steps.spans:
            trace.add(f"step {name}", began_ns, ended_ns)
        if steps.model_ended_ns:
            trace.add("compute", steps.model_began_ns, steps.model_ended_ns)
    for began_ns, ended_ns in encoded:
        trace.add("output", execution.computed_ns, began_ns)
        trace.add("handover", ended_ns, monotonic_ns())
