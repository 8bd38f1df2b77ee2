"""Costs of the calls that start work: kernels, graphs, synchronisation, and a kernel's own.

The calls repeat in machine code: an interpreter takes longer than the driver. Where the kernel of
the operating system allows none, or the CPU is not x86-64, ctypes calls, and the setting says so.
"""

import ctypes
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.gpu.device import CudaError, GpuDevice, GpuFunction, call, compiled
from inferometer_serving.node.gpu.clock import gpu_clock
from inferometer_serving.node.machine_code import executable
from inferometer_serving.node.samples import NotMeasurableError, seconds_of

LAUNCH_FIGURES = (
    *("cudart_kernel", "cudaDeviceSynchronize", "cudart_cudaGraphLaunch_kernel"),
    *("cudart_cudaGraphInstantiate_kernel", "gpu/kernelRoundTrip", "gpu/graphKernel"),
)
_NOTHING = 'extern "C" __global__ void nothing() {}'
_CALLS, _GRAPH_CALLS, _REPEATS = 200, 20, 7
_NODES = (1, 16, 256)
_LOOP = bytes.fromhex(
    "53 55 4154 4155 4156 4157"  # push rbx, rbp, r12 to r15
    "4883ec18"  # sub rsp, 24: the stack stays aligned
    "4889fb 4889f5 4989d4 4989cd 4d89c6 4d89cf"  # mov rbx, rbp, r12 to r15 from the arguments
    "c7042400000000"  # mov dword [rsp], 0
    "4889ef 4c89e6 4c89ea 4c89f1"  # mov rdi, rsi, rdx, rcx from rbp, r12, r13, r14
    "ffd3"  # call rbx
    "090424"  # or [rsp], eax
    "49ffcf 75ea"  # dec r15; jnz
    "8b0424"  # mov eax, [rsp]
    "4883c418 415f 415e 415d 415c 5d 5b c3"
)
"""int repeat(function, a, b, c, d, long times): calls function(a, b, c, d), ORs what it returns."""

Repeat = Callable[..., int]


class _LaunchConfig(ctypes.Structure):
    _fields_ = (
        *((f"{what}{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


def launch_costs(gpu: GpuDevice, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure calls of the driver by a thread on the NUMA node on which this runs."""
    caller = _Caller()
    at = {**setting, "calls": caller.how}
    with gpu_clock(gpu) as clock, compiled(gpu, _NOTHING, ["nothing"]) as kernels:
        on, kernel = clock.streams[0], kernels["nothing"]
        launch = caller.launch(kernel, on)
        synchronize = partial(caller.run, "cuStreamSynchronize", int(on))
        found = [
            _cost("cudart_kernel", partial(launch, _CALLS), synchronize, _CALLS, at),
            _cost(
                "cudaDeviceSynchronize",
                partial(caller.run, "cuCtxSynchronize", times=_CALLS),
                synchronize,
                _CALLS,
                at,
            ),
        ]

        def round_trip() -> None:
            launch(1)
            synchronize()

        found.append(_cost("gpu/kernelRoundTrip", round_trip, synchronize, 1, at))
        for nodes in _NODES:
            with _graph_of(kernel, on, nodes) as (graph, instance):
                of_nodes = {**at, "nodes": nodes}
                graph_launch = partial(
                    caller.run, "cuGraphLaunch", int(instance), int(on), times=_GRAPH_CALLS
                )
                found.append(
                    _cost(
                        "cudart_cudaGraphLaunch_kernel",
                        graph_launch,
                        synchronize,
                        _GRAPH_CALLS,
                        of_nodes,
                    )
                )
                samples = [caller.instantiation_ns(graph) for _ in range(_REPEATS + 1)][1:]
                found.append(figure("cudart_cudaGraphInstantiate_kernel", "ns", samples, of_nodes))
                seconds = partial(clock.seconds, lambda each: _graph_launch(instance, each))
                samples = [seconds() * 1e9 / nodes for _ in range(_REPEATS)]
                found.append(figure("gpu/graphKernel", "ns", samples, {**setting, "nodes": nodes}))
    return found


class _Caller:
    """Calls functions of the driver, many times in a row."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._repeat = repeated_calls()
        self.how = "ctypes" if self._repeat is None else "machine code"

    def run(self, name: str, *words: int, times: int = 1) -> None:
        """Call a function whose arguments are at most four addresses. Raises CudaError."""
        function = getattr(self._library, name)
        if self._repeat is None:
            given = [ctypes.c_void_p(each) for each in words]
            errors = 0
            for _ in range(times):
                errors |= function(*given)
        else:
            address = ctypes.cast(function, ctypes.c_void_p).value
            filled = [*words, *[0] * (4 - len(words))]
            errors = self._repeat(address, *filled, times)
        if errors:
            raise CudaError(f"{name} failed with {errors}")

    def instantiation_ns(self, graph: Any) -> float:
        """Return how long it takes to make a graph ready to launch. Raises CudaError."""
        instance = ctypes.c_void_p()
        words = (ctypes.addressof(instance), int(graph), 0)
        seconds = seconds_of(partial(self.run, "cuGraphInstantiateWithFlags", *words))
        self.run("cuGraphExecDestroy", instance.value or 0)
        return seconds * 1e9

    def launch(self, kernel: GpuFunction, on: Any) -> Callable[[int], None]:
        """Return what launches a kernel of one thread so many times."""
        config = _LaunchConfig(1, 1, 1, 1, 1, 1, 0, int(on), None, 0)
        self._kept = config
        where = ctypes.addressof(config)
        return lambda times: self.run(
            "cuLaunchKernelEx", where, int(kernel.function), 0, 0, times=times
        )


def repeated_calls() -> Repeat | None:
    """Return the loop of calls in machine code; None if there is none for this machine."""
    if platform.machine() != "x86_64":
        return None
    word = ctypes.c_void_p
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, word, word, word, word, word, ctypes.c_long)
    try:
        return prototype(executable(_LOOP))
    except NotMeasurableError:
        return None


def _cost(
    name: str,
    calls: Callable[[], object],
    synchronize: Callable[[], object],
    count: int,
    setting: Mapping[str, object],
) -> NodeFigure:
    samples = []
    for _ in range(_REPEATS + 1):
        synchronize()
        samples.append(seconds_of(calls) * 1e9 / count)
    synchronize()
    return figure(name, "ns", samples[1:], setting)


@contextmanager
def _graph_of(kernel: GpuFunction, on: Any, nodes: int) -> Iterator[tuple[Any, Any]]:
    """Yield a graph of so many kernels, one after another, and its instance."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    def launch(each: Any) -> None:
        for _ in range(nodes):
            kernel.launch((1, 1, 1), (1, 1, 1), [], each)

    with captured(launch, on) as graph:
        instance = call(driver.cuGraphInstantiate, graph, 0)
        try:
            yield graph, instance
        finally:
            call(driver.cuGraphExecDestroy, instance)


@contextmanager
def captured(work: Callable[[Any], object], on: Any) -> Iterator[Any]:
    """Yield the graph of what `work` puts in a stream, which does not run. Raises CudaError."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    call(driver.cuStreamBeginCapture, on, mode)
    try:
        work(on)
    finally:
        graph = call(driver.cuStreamEndCapture, on)
    try:
        yield graph
    finally:
        call(driver.cuGraphDestroy, graph)


def kernel_names(graph: Any) -> Sequence[str]:
    """Return the names of the kernels in a graph. Raises CudaError."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    _, count = call(driver.cuGraphGetNodes, graph, 0)
    nodes, _ = call(driver.cuGraphGetNodes, graph, count)
    found = []
    for node in nodes:
        kind = call(driver.cuGraphNodeGetType, node)
        if kind == driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
            parameters = call(driver.cuGraphKernelNodeGetParams, node)
            name: bytes = (
                call(driver.cuFuncGetName, parameters.func)
                if int(parameters.func)
                else call(driver.cuKernelGetName, parameters.kern)
            )
            found.append(name.decode())
    return found


def _graph_launch(instance: Any, on: Any) -> None:
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    call(driver.cuGraphLaunch, instance, on)
