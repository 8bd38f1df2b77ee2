"""Times of what a GPU does, by events; what is timed waits in its streams until all of it is there.

A kernel that only waits goes first: without it, the time of the calls would be part of the figure.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from inferometer_serving.gpu.device import GpuDevice, GpuFunction, call, compile_kernels, stream
from inferometer_serving.node.gpu.contexts import current, opened_in, primary_context

_WAIT = """
extern "C" __global__ void wait(unsigned long long nanoseconds) {
    unsigned long long began, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - began < nanoseconds);
}
"""
_WAIT_NS = 300_000
"""Longer than it takes to put a few operations into a stream."""

Work = Callable[[Any], object]
"""Puts operations into a stream."""


@dataclass(frozen=True, slots=True)
class GpuClock:
    """Times operations of one GPU."""

    streams: tuple[Any, Any]
    waiting: GpuFunction

    def seconds(self, work: Work) -> float:
        """Return how long operations take that run in one stream."""
        return self.seconds_together([work])

    def seconds_together(self, works: Sequence[Work]) -> float:
        """Return the time from the first start to the last end of works, each in a stream."""
        from cuda.bindings import driver  # noqa: PLC0415 - optional

        with ExitStack() as stack:
            gate = _event(stack)
            pairs = [(_event(stack), _event(stack)) for _ in works]
            first, *others = self.streams[: len(works)]
            self.wait(first)
            call(driver.cuEventRecord, gate, first)
            for other in others:
                call(driver.cuStreamWaitEvent, other, gate, 0)
            for work, on, (start, end) in zip(works, self.streams, pairs, strict=False):
                call(driver.cuEventRecord, start, on)
                work(on)
                call(driver.cuEventRecord, end, on)
            for _, end in pairs:
                call(driver.cuEventSynchronize, end)
            milliseconds = (
                float(call(driver.cuEventElapsedTime, start, end))
                for start, _ in pairs
                for _, end in pairs
            )
            return max(1e-9, max(milliseconds) / 1e3)

    def wait(self, on: Any) -> None:
        """Put the kernel that only waits into a stream."""
        one = (1, 1, 1)
        self.waiting.launch(one, one, [(_WAIT_NS, ctypes.c_ulonglong)], on)


@dataclass(frozen=True, slots=True)
class PairClock:
    """Times operations of two GPUs that run at once, each in a stream of its own GPU."""

    clock: GpuClock
    """Of the GPU whose context is current."""
    context: Any
    """Of the other GPU."""
    stream: Any
    """Of the other GPU."""

    def seconds_together(self, work: Work, other: Work) -> float:
        """Return the time until both have ended, by events of the first GPU.

        CUDA compares no events of two GPUs: the first waits for the end on the other one.
        """
        from cuda.bindings import driver  # noqa: PLC0415 - optional

        on = self.clock.streams[0]
        with ExitStack() as stack:
            start, end = _event(stack), _event(stack)
            self.clock.wait(on)
            call(driver.cuEventRecord, start, on)
            with current(self.context):
                other_end = _event(stack)
                call(driver.cuStreamWaitEvent, self.stream, start, 0)
                other(self.stream)
                call(driver.cuEventRecord, other_end, self.stream)
            work(on)
            call(driver.cuStreamWaitEvent, on, other_end, 0)
            call(driver.cuEventRecord, end, on)
            call(driver.cuEventSynchronize, end)
            return max(1e-9, float(call(driver.cuEventElapsedTime, start, end)) / 1e3)


def _event(stack: ExitStack) -> Any:
    """Create an event that the stack destroys."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    created = call(driver.cuEventCreate, 0)
    stack.callback(call, driver.cuEventDestroy, created)
    return created


@contextmanager
def gpu_clock(gpu: GpuDevice) -> Iterator[GpuClock]:
    """Create two streams and compile the kernel that waits. Raises CudaError."""
    with stream() as first, stream() as second, compile_kernels(gpu, _WAIT, ["wait"]) as kernels:
        yield GpuClock((first, second), kernels["wait"])


@contextmanager
def pair_clock(gpu: GpuDevice, other: GpuDevice) -> Iterator[PairClock]:
    """Return the clock of the GPU whose context is current and another. Raises CudaError."""
    with (
        gpu_clock(gpu) as clock,
        primary_context(other) as context,
        opened_in(context, stream()) as on,
    ):
        yield PairClock(clock, context, on)
