"""Leveled runs of a model: without a profiler, and with the engine's."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic, perf_counter_ns
from typing import Any

import numpy as np

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile, read_graph
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.engines import open_session
from inferometer_serving.model.loading import warm_shapes
from inferometer_serving.model.session import EngineSettings, Interrupt, Session, reason_of
from inferometer_serving.model.warm_up import warm_up_inputs
from inferometer_serving.options import Device, EngineName, ServeOptions
from inferometer_serving.profile.layer_times import (
    EngineProfile,
    ProfiledSession,
    identity,
    merged,
    thinned,
)
from inferometer_serving.tracing import clock_offset_ns

_WARM_RUNS = 3
_MOST_ITERATIONS = 10_000
_MOST_EVENTS = 900_000
"""ONNX Runtime drops events beyond a million."""
_SEED = 42
_CLOCK_SET_NS = 1_000_000
"""A clock that is only slowed or sped up differs less from the one that is never set."""
_OPENINGS = 5
"""Sessions are opened so often: where their memory lies changes how long they take."""
_OPENING_SECONDS = 20.0
"""Sessions that take long to open are opened less often: all together may take so long."""


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What is to be profiled."""

    batch_size: int = 1
    iterations: int = 30
    """Runs of each level."""
    is_layered: bool = True
    """False: the model alone, without any profiler."""
    has_kernels: bool = True
    """Whether a GPU's kernels are recorded, in runs of their own."""


def profile(options: ServeOptions, request: ProfileRequest, interrupt: Interrupt) -> dict[str, Any]:
    """Return the profile of a model as JSON. Raises ModelRefusedError if it cannot be profiled.

    Runs with and without the profiler alternate, on sessions of their own. On a CPU these are
    opened several times, and each opening makes its part of the runs.
    """
    graph = read_graph(options.model, max_bytes=options.max_model_bytes)
    settings = EngineSettings(
        options.device,
        options.threads,
        options.precision,
        onnx_runtime=options.onnx_runtime,
    )
    nodes = max(1, len(graph.model.graph.node))
    runs = max(1, min(request.iterations, _MOST_ITERATIONS, _MOST_EVENTS // nodes))
    most = min(_OPENINGS, runs) if options.device is Device.CPU else 1
    openings: list[_Opening] = []
    while (left := runs - sum(each.runs for each in openings)) > 0:
        with ExitStack() as opened:
            began = monotonic()
            plain = open_session(options.engine, graph, settings, interrupt)
            opened.callback(plain.unload)
            sessions, kernels_missing = _open_sessions(
                options.engine, graph, settings, request, interrupt
            )
            for each in sessions:
                opened.callback(each.close)
            seconds = monotonic() - began
            part = -(-left // openings_left([each.seconds for each in openings], seconds, most))
            inputs = model_inputs(plain, options, request.batch_size)
            names = [each.name for each in plain.signature.outputs]
            calls: list[Callable[[], object]] = [
                partial(run, names, inputs)
                for run in (plain.runner.run, *(each.run for each in sessions))
            ]
            clock_ns = clock_offset_ns()
            times = alternate(calls, part, interrupt)
            is_set = abs(clock_offset_ns() - clock_ns) > _CLOCK_SET_NS
            found, reason = None, ""
            if not is_set:
                try:
                    found = _joined(sessions, part, kernels_missing)
                except ModelRefusedError as error:
                    reason = str(error)
            openings.append(_Opening(times, found, seconds, reason))
    return _document(request, openings)


@dataclass(frozen=True, slots=True)
class _Opening:
    """The runs of sessions that were opened together."""

    times: list[list[int]]
    """In ns, by level."""
    found: EngineProfile | None
    """None if it cannot be read, or if the clock was set by which engines time their layers."""
    seconds: float
    """How long the sessions took to open."""
    reason: str = ""
    """Why its layers cannot be read."""

    @property
    def runs(self) -> int:
        """How many runs each level had."""
        return len(self.times[0])


def openings_left(before: Sequence[float], seconds: float, most: int) -> int:
    """Return how many openings remain, with the present one, which took `seconds`.

    `before` are the seconds of those before it. There are at most `most` together, and fewer if
    they would take longer than _OPENING_SECONDS.
    """
    spare = max(0.0, _OPENING_SECONDS - sum(before) - seconds)
    return 1 + min(most - len(before) - 1, int(spare / max(seconds, 1e-9)))


def model_inputs(session: Session, options: ServeOptions, batch_size: int) -> dict[str, Array]:
    """Return random floats, and zeros of the other types, in the shapes of the warm-up."""
    shapes = warm_shapes(session.signature, options, batch_size)
    random = np.random.default_rng(_SEED)
    return {
        name: random.random(array.shape).astype(array.dtype) if array.dtype.kind == "f" else array
        for name, array in warm_up_inputs(session.signature, batch_size, shapes).items()
    }


def alternate(
    calls: list[Callable[[], object]], rounds: int, interrupt: Interrupt
) -> list[list[int]]:
    """Return the durations in ns of each call, which take turns and begin rounds in turn.

    A call that returns a number has timed itself.
    """
    times: list[list[int]] = [[] for _ in calls]
    for number in range(_WARM_RUNS + rounds):
        for step in range(len(calls)):
            at = (number + step) % len(calls)
            started_ns = perf_counter_ns()
            try:
                found = calls[at]()
            except Exception as error:
                raise ModelRefusedError(
                    f"The model cannot be profiled: {reason_of(error)}"
                ) from error
            took_ns = perf_counter_ns() - started_ns
            times[at].append(found if isinstance(found, int) else took_ns)
            if interrupt.is_set:
                raise ModelRefusedError("The server ended while the model was profiled.")
    return [each[_WARM_RUNS:] for each in times]


def _open_sessions(
    engine: EngineName,
    graph: GraphFile,
    settings: EngineSettings,
    request: ProfileRequest,
    interrupt: Interrupt,
) -> tuple[list[ProfiledSession], str]:
    """Return a session for each level below the model, and why there is none of the kernels."""
    if not request.is_layered:
        return [], ""
    if engine is EngineName.OPENVINO:
        from inferometer_serving.profile.open_vino import (  # noqa: PLC0415 - the engine may be missing
            OpenVinoProfiledSession,
        )

        return [OpenVinoProfiledSession(graph, settings)], ""
    if settings.device is Device.CPU:
        from inferometer_serving.profile.onnx_runtime import (  # noqa: PLC0415 - the same
            OnnxProfiledSession,
        )

        return [OnnxProfiledSession(str(graph.path), settings)], ""
    from inferometer_serving.profile.gpu_process import (  # noqa: PLC0415 - the same
        GpuProfiledSession,
    )

    path = str(graph.path)
    layers = GpuProfiledSession(path, settings, interrupt, has_kernels=False)
    if not request.has_kernels:
        return [layers], "It was not requested."
    try:
        return [layers, GpuProfiledSession(path, settings, interrupt, has_kernels=True)], ""
    except ModelRefusedError as error:
        return [layers], (
            f"CUPTI cannot record the kernels of the GPU: {error} It needs inferometer[gpu] and "
            "the right to profile."
        )


def _joined(sessions: Sequence[ProfiledSession], runs: int, kernels_missing: str) -> EngineProfile:
    """Return the layers of the first session, with the kernels of the second if there is one."""
    if not sessions:
        return EngineProfile(())
    layers = sessions[0].finish(runs)
    if len(sessions) == 1:
        return replace(layers, kernels_missing=kernels_missing or layers.kernels_missing)
    try:
        kernels = sessions[1].finish(runs)
    except ModelRefusedError as error:
        return replace(layers, kernels_missing=f"The kernels' profile cannot be read: {error}")
    if [identity(each) for each in layers.layers] != [identity(each) for each in kernels.layers]:
        missing = "The runs of the kernels had other layers than those of the layers."
        return replace(layers, kernels_missing=missing)
    return replace(
        layers,
        kernels=kernels.kernels,
        gpu=kernels.gpu,
        notes=(*layers.notes, *kernels.notes),
    )


def _document(request: ProfileRequest, openings: Sequence[_Opening]) -> dict[str, Any]:
    profiles = [each.found for each in openings if each.found is not None]
    found = thinned(merged(profiles)) if profiles else EngineProfile(())
    times = [
        [took_ns for each in openings for took_ns in each.times[level]]
        for level in range(len(openings[0].times))
    ]
    runs = sum(each.runs for each in openings)
    notes = list(found.notes)
    clock_set = sum(each.found is None and not each.reason for each in openings)
    if clock_set:
        notes.append(
            "The machine's clock was set while layers were profiled: engines time them by it, so "
            f"those of {clock_set} of {len(openings)} openings are left out."
        )
    unread = [each.reason for each in openings if each.reason]
    if unread and profiles:
        notes.append(
            f"The layers of {len(unread)} of {len(openings)} openings are left out: {unread[0]}"
        )
    if runs < request.iterations:
        notes.append(
            f"{runs} of {request.iterations} iterations were run: the engine's profiler holds "
            f"{_MOST_EVENTS} events, and the graph is large."
        )
    return {
        "batchSize": request.batch_size,
        "modelNanoseconds": times[0],
        "profiledNanoseconds": times[1] if request.is_layered else [],
        "kernelProfiledNanoseconds": times[2] if found.kernels else [],
        "openingIterations": [each.runs for each in openings],
        "layers": [layer.to_json(with_tensors=bool(found.kernels)) for layer in found.layers],
        "kernels": [kernel.to_json() for kernel in found.kernels],
        "gpu": None if found.gpu is None else found.gpu.to_json(),
        "layersMissing": unread[0] if unread and not profiles else "",
        "kernelsMissing": found.kernels_missing,
        "notes": notes,
    }
