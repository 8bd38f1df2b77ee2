"""How do inference requests come to a loaded model, and who counts what came of them?"""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any, TypeVar

from inferometer_serving.batching.batcher import Batcher
from inferometer_serving.batching.joining import key_of, samples_of
from inferometer_serving.described import model_config, model_metadata
from inferometer_serving.errors import Refusal, RequestRefusedError, invalid
from inferometer_serving.infer.ask import Ask, Read
from inferometer_serving.infer.request import RequestReader
from inferometer_serving.infer.tensors import Array
from inferometer_serving.instances import Instances
from inferometer_serving.metrics import Metrics
from inferometer_serving.model.engine import Engine, Execution
from inferometer_serving.model.loading import LoadedModel, WarmUp, load, warm_up
from inferometer_serving.model.session import Interrupt
from inferometer_serving.options import ServeOptions
from inferometer_serving.statistics import Statistics
from inferometer_serving.tally import Tally

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that is open and warm."""

    model: LoadedModel
    warm: WarmUp


@dataclass(frozen=True, slots=True)
class Accounts:
    """Where it is counted what came of requests."""

    metrics: Metrics
    statistics: Statistics
    tally: Tally


def load_and_warm(options: ServeOptions, interrupt: Interrupt) -> Loaded:
    """Return the model, ready to serve. Raises ModelRefusedError; takes a while."""
    model = load(options, interrupt)
    return Loaded(model, warm_up(model, options))


class Served:
    """A loaded model that answers. Everything here belongs to the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: ServeOptions,
        loaded: Loaded,
        accounts: Accounts,
        server_version: str,
    ) -> None:
        self.name = options.model_name
        self.signature = loaded.model.session.signature
        self.reader = RequestReader(self.signature)
        self.metadata = model_metadata(options, loaded.model)
        self.config = model_config(options, loaded.model, loaded.warm, server_version)
        self._accounts = accounts
        self._inline_body_bytes = loaded.warm.inline_body_bytes
        self._max_batch_size = options.max_batch_size
        batched = [each.name for each in self.signature.inputs if each.has_open_batch]
        self._batched = batched[0] if batched else None
        joins = max(options.max_batch_size, 1)
        engines = [Engine(each, joins) for each in loaded.model.sessions]
        self._inline = engines[0]
        batcher: Batcher[Ask[Any]] = Batcher(joins, options.max_delay_microseconds * 1000)
        self.instances = Instances(loop, engines, batcher, self._told)

    def ask(
        self,
        protocol: str,
        began_ns: int,
        read: Read[T],
    ) -> Ask[T]:
        """Return a request that was read. Raises RequestRefusedError where it cannot be joined."""
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
        return Ask(
            protocol=protocol,
            began_ns=began_ns,
            inputs=inputs,
            output_names=output_names,
            samples=samples,
            key=key,
            write=write,
        )

    def runs_inline(self, body_bytes: int) -> bool:
        """Say whether a request of this size is computed in the event loop: first come first."""
        return body_bytes <= self._inline_body_bytes and not self.instances.asks

    def compute_now(self, protocol: str, began_ns: int, read: Read[T]) -> T:
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
                self._computed(self._samples(inputs), 1, computed_ns - started_ns)
            self.refused(protocol, began_ns)
            raise
        note = self._accounts.tally.note
        note(protocol, self._samples(inputs), began_ns, started_ns, computed_ns, monotonic_ns())
        return answer

    def put(self, ask: Ask[Any]) -> None:
        """Let an instance compute a request; `ask.done` is called afterwards.

        Raises RequestRefusedError where the model was unloaded since the request began.
        """
        if self.instances.is_retired:
            raise RequestRefusedError(Refusal.UNAVAILABLE, "The model was unloaded.")
        self.instances.put(ask)

    def refused(self, protocol: str, began_ns: int) -> None:
        """Count a request that was refused as it was read."""
        taken_ns = monotonic_ns() - began_ns
        self._accounts.statistics.failed(taken_ns)
        self._accounts.metrics.request_seconds[protocol].observe(taken_ns / 1e9)

    def give_up(self, error: RequestRefusedError) -> None:
        """Answer all that waits or is computed by an error."""
        for ask in self.instances.asks.copy():
            done, ask.done = ask.done, None
            if done is not None:
                done(None, error)

    def _told(self, executions: list[Execution]) -> None:
        now_ns = monotonic_ns()
        queue_seconds = self._accounts.metrics.queue_seconds
        for execution in executions:
            for ask in execution.asks:
                queue_seconds.observe((execution.started_ns - ask.waits_since_ns) / 1e9)
            self._count(execution, now_ns)
            for ask, answer in zip(execution.asks, execution.answers, strict=True):
                done, ask.done = ask.done, None
                if done is None:
                    continue
                if isinstance(answer, Exception):
                    done(None, answer)
                else:
                    done(answer, None)

    def _count(self, execution: Execution, now_ns: int) -> None:
        metrics = self._accounts.metrics
        self._accounts.statistics.executed(execution, now_ns)
        for ask in execution.asks:
            metrics.request_seconds[ask.protocol].observe((now_ns - ask.began_ns) / 1e9)
        if execution.is_computed:
            infer_ns = execution.computed_ns - execution.joined_ns
            self._computed(execution.samples, len(execution.asks), infer_ns)

    def _computed(self, samples: int, requests: int, infer_ns: int) -> None:
        metrics = self._accounts.metrics
        metrics.compute_seconds.observe(infer_ns / 1e9)
        metrics.batches[samples] += 1
        metrics.joined[requests] += 1

    def _samples(self, inputs: dict[str, Array]) -> int:
        return 1 if self._batched is None else len(inputs[self._batched])
