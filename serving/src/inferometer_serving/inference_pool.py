"""The pool of a model's instances, which compute requests outside the event loop.

Each instance is a thread with a session of its own. Whichever is free takes the next batch by
itself: an instance never waits for the event loop between two batches.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic, monotonic_ns
from typing import Any

from inferometer_serving.batching.batcher import Batcher
from inferometer_serving.infer.pending_request import PendingRequest
from inferometer_serving.model.engine import Engine, Execution

OnExecuted = Callable[[list[Execution]], None]


class InferencePool:
    """The instances of one loaded model. Its methods belong to the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        engines: Sequence[Engine],
        batcher: Batcher[PendingRequest[Any]],
        on_executed: OnExecuted,
    ) -> None:
        self._loop = loop
        self._batcher = batcher
        self._on_executed = on_executed
        self._changed = threading.Condition()
        self.is_retired = False
        """Whether the pool refuses new requests."""
        self._then: Callable[[], None] | None = None
        self._running = len(engines)
        self.requests: set[PendingRequest[Any]] = set()
        """The requests that wait or are being computed."""
        self._threads = [
            threading.Thread(
                target=self._work, args=(engine,), name=f"instance-{number}", daemon=True
            )
            for number, engine in enumerate(engines)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, pending: PendingRequest[Any]) -> None:
        """Queue a request; its `done` is called in the event loop."""
        self.requests.add(pending)
        with self._changed:
            if self._batcher.put(pending, pending.key, pending.samples, monotonic_ns()):
                self._changed.notify()

    def drop(self, pending: PendingRequest[Any]) -> None:
        """Forget a request whose client has gone, unless it is already computed."""
        pending.done = None
        with self._changed:
            waited = self._batcher.drop(pending)
        if waited:
            self.requests.discard(pending)

    def stop_delaying(self) -> None:
        """Execute incomplete batches at once from now on."""
        with self._changed:
            self._batcher.stop_delaying()
            self._changed.notify_all()

    def retire(self, then: Callable[[], None] | None = None) -> None:
        """Stop the threads after the last request, then call `then`."""
        if then is not None and not self._running:
            then()
            return
        self._then = then
        self.is_retired = True
        self.stop_delaying()

    def stop(self, timeout_seconds: float) -> bool:
        """Retire, and say whether all threads ended in time."""
        self.retire()
        until = monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self, engine: Engine) -> None:
        with suppress(RuntimeError):  # the loop has ended
            while batch := self._next():
                done = engine.compute(batch)
                self._loop.call_soon_threadsafe(self._report, done)
                del batch, done  # no tensor is held while waiting
            self._loop.call_soon_threadsafe(self._end_instance)

    def _next(self) -> list[PendingRequest[Any]]:
        """Return the next batch once one is ready; nothing once retired."""
        with self._changed:
            while True:
                now_ns = monotonic_ns()
                batch = self._batcher.take(now_ns)
                due_ns = self._batcher.due_ns()
                if batch:
                    for each in batch:
                        if each.trace is not None:
                            each.ready_ns = max(each.waits_since_ns, self._batcher.ready_ns)
                    if due_ns is not None:
                        self._changed.notify()  # to whom is left: another instance may be free
                    return batch
                if self.is_retired and due_ns is None:
                    self._changed.notify_all()
                    return []
                self._changed.wait(None if due_ns is None else (due_ns - now_ns) / 1e9)

    def _end_instance(self) -> None:
        self._running -= 1
        if not self._running and self._then is not None:
            self._then()

    def _report(self, done: list[Execution]) -> None:
        for execution in done:
            self.requests.difference_update(execution.requests)
        self._on_executed(done)
