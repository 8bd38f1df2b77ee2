"""Costs of the calls that start work: kernels, graphs, synchronisation, and a kernel's own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.gpu.device import GpuDevice, GpuFunction, call, compile_kernels
from inferometer_serving.node.gpu.clock import gpu_clock
from inferometer_serving.node.gpu.driver_calls import (
    CALL_REPEATS,
    CALLS,
    DriverCaller,
    call_cost,
)

LAUNCH_FIGURES = (
    *("cudart_kernel", "cudaDeviceSynchronize", "cudart_cudaGraphLaunch_kernel"),
    *("cudart_cudaGraphInstantiate_kernel", "gpu/kernelRoundTrip", "gpu/graphKernel"),
)
_NOTHING = 'extern "C" __global__ void nothing() {}'
_GRAPH_CALLS = 20
_NODES = (1, 16, 256)


def launch_costs(gpu: GpuDevice, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure calls of the driver by a thread on the NUMA node on which this runs."""
    caller = DriverCaller()
    at = {**setting, "calls": caller.how}
    with gpu_clock(gpu) as clock, compile_kernels(gpu, _NOTHING, ["nothing"]) as kernels:
        on, kernel = clock.streams[0], kernels["nothing"]
        launch = caller.launch(kernel, on)
        synchronize = partial(caller.run, "cuStreamSynchronize", int(on))
        found = [
            call_cost("cudart_kernel", partial(launch, CALLS), synchronize, CALLS, at),
            call_cost(
                "cudaDeviceSynchronize",
                partial(caller.run, "cuCtxSynchronize", times=CALLS),
                synchronize,
                CALLS,
                at,
            ),
        ]

        def round_trip() -> None:
            launch(1)
            synchronize()

        found.append(call_cost("gpu/kernelRoundTrip", round_trip, synchronize, 1, at))
        for nodes in _NODES:
            with _graph_of(kernel, on, nodes) as (graph, instance):
                of_nodes = {**at, "nodes": nodes}
                graph_launch = partial(
                    caller.run, "cuGraphLaunch", int(instance), int(on), times=_GRAPH_CALLS
                )
                found.append(
                    call_cost(
                        "cudart_cudaGraphLaunch_kernel",
                        graph_launch,
                        synchronize,
                        _GRAPH_CALLS,
                        of_nodes,
                    )
                )
                samples = [caller.instantiation_ns(graph) for _ in range(CALL_REPEATS + 1)][1:]
                found.append(figure("cudart_cudaGraphInstantiate_kernel", "ns", samples, of_nodes))
                seconds = partial(clock.seconds, lambda each: _graph_launch(instance, each))
                samples = [seconds() * 1e9 / nodes for _ in range(CALL_REPEATS)]
                found.append(figure("gpu/graphKernel", "ns", samples, {**setting, "nodes": nodes}))
    return found


@contextmanager
def _graph_of(kernel: GpuFunction, on: Any, nodes: int) -> Iterator[tuple[Any, Any]]:
    """Yield a graph of so many kernels, one after another, and its instance."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    def launch(each: Any) -> None:
        for _ in range(nodes):
            kernel.launch((1, 1, 1), (1, 1, 1), [], each)

    with capture(launch, on) as graph:
        instance = call(driver.cuGraphInstantiate, graph, 0)
        try:
            yield graph, instance
        finally:
            call(driver.cuGraphExecDestroy, instance)


@contextmanager
def capture(work: Callable[[Any], object], on: Any) -> Iterator[Any]:
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
