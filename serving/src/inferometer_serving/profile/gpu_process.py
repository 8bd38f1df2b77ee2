"""Profiled sessions on a GPU, each in a process of its own.

CUPTI stays in a process once it was used, and CUDA reads CUDA_LAUNCH_BLOCKING when it starts: so
each level has its own process, and the server's has no profiler at all.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from time import perf_counter_ns
from typing import Any

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.session import EngineSettings, Interrupt, reason_of
from inferometer_serving.profile.gpu_kernels import kernels_of
from inferometer_serving.profile.layer_times import EngineProfile
from inferometer_serving.profile.onnx_events import profile_of
from inferometer_serving.profile.onnx_runtime import OnnxProfiledSession
from inferometer_serving.profile.run_recorder import (
    RunRecorder,
    engine_clock,
    read_candidates,
    read_gpu,
)

_END_SECONDS = 10.0
_SERIALIZED = (
    "The layers are measured in serialized runs: each call waits for its kernel "
    "(CUDA_LAUNCH_BLOCKING), so that a layer's time includes its work on the GPU. Without that, "
    "kernels run while later layers are launched, so the layers sum to more than an inference."
)


class GpuProfiledSession:
    """A session in another process, which has the layers or the kernels."""

    def __init__(
        self, path: str, settings: EngineSettings, interrupt: Interrupt, *, has_kernels: bool
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=run_session, args=(theirs, path, settings, has_kernels), daemon=True
        )
        self._process.start()
        theirs.close()
        self._interrupt = interrupt
        interrupt.add(self._process.terminate)
        self._sent: dict[str, Array] | None = None
        self._answer()

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> int:
        """Infer once; return how many ns it took there."""
        sends = self._sent is not inputs
        took: int = self._answer(("run", (output_names, inputs if sends else None)))
        self._sent = inputs
        return took

    def finish(self, runs: int) -> EngineProfile:
        """Return the layers or the kernels of the last `runs` runs, and end the process."""
        found: EngineProfile = self._answer(("finish", (runs,)))
        self.close()
        return found

    def close(self) -> None:
        """End the process, which ends by itself once nothing more can be requested."""
        if self._connection.closed:
            return
        self._interrupt.remove(self._process.terminate)
        self._connection.close()
        self._process.join(_END_SECONDS)
        self._process.kill()
        self._process.join()

    def _answer(self, request: tuple[str, tuple[Any, ...]] | None = None) -> Any:
        """Send a request if there is one, and return the next answer."""
        try:
            if request is not None:
                self._connection.send(request)
            succeeded, found = self._connection.recv()
        except (EOFError, OSError) as error:
            self.close()
            raise ModelRefusedError(
                "The process that profiles the GPU ended before its time: it may have run out of "
                "memory."
            ) from error
        if not succeeded:
            self.close()
            raise ModelRefusedError(str(found))
        return found


def run_session(
    connection: Connection,
    path: str,
    settings: EngineSettings,
    has_kernels: bool,  # noqa: FBT001 - as a process passes its arguments
) -> None:
    """Answer what the other end of the connection requests until it is closed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # temporary files are removed
    try:
        session: _Layers | _Kernels = (_Kernels if has_kernels else _Layers)(path, settings)
    except Exception as error:  # noqa: BLE001 - the other process reports it
        connection.send((False, _sentence(error)))
        return
    connection.send((True, None))
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = (True, getattr(session, name)(*arguments))
        except Exception as error:  # noqa: BLE001 - the same
            answer = (False, _sentence(error))
        connection.send(answer)


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, ModelRefusedError) else reason_of(error)


class _Layers:
    """The layers, in serialized runs."""

    def __init__(self, path: str, settings: EngineSettings) -> None:
        os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
        self._session = OnnxProfiledSession(path, settings)
        self._inputs: dict[str, Array] = {}

    def run(self, output_names: list[str], inputs: dict[str, Array] | None) -> int:
        self._inputs = self._inputs if inputs is None else inputs
        began = perf_counter_ns()
        self._session.run(output_names, self._inputs)
        return perf_counter_ns() - began

    def finish(self, runs: int) -> EngineProfile:
        found = self._session.finish(runs)
        return replace(found, notes=(_SERIALIZED, *found.notes), kernels_missing="")


class _Kernels:
    """The kernels, in runs as they are served."""

    def __init__(self, path: str, settings: EngineSettings) -> None:
        before = read_candidates()
        self._session = OnnxProfiledSession(path, settings)
        self._clock: Callable[[], int] = engine_clock(
            self._session.start_ns, before, read_candidates()
        )
        self._recorder = RunRecorder()
        self._before = self._recorder.read_clocks(self._clock)
        self._inputs: dict[str, Array] = {}

    def run(self, output_names: list[str], inputs: dict[str, Array] | None) -> int:
        self._inputs = self._inputs if inputs is None else inputs
        began = perf_counter_ns()
        self._session.run(output_names, self._inputs)
        took = perf_counter_ns() - began
        self._recorder.end_run()
        return took

    def finish(self, runs: int) -> EngineProfile:
        after = self._recorder.read_clocks(self._clock)
        self._recorder.stop()
        events = self._session.events()
        kept = min(runs, self._recorder.runs)
        trace = self._recorder.trace(self._before, after, self._session.start_ns)
        kernels, notes = kernels_of(events, kept, trace)
        return replace(
            profile_of(events, kept), kernels=kernels, notes=notes, kernels_missing="",
            gpu=read_gpu()[1],
        )  # fmt: skip
