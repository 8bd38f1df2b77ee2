"""The peaks of a node, for rooflines."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inferometer_api.layers.timings import MachineState
from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure


@dataclass(frozen=True, slots=True)
class NodePeak:
    """The highest rate of a node, and the day on which it was measured."""

    rate: float
    day: str


def product_peak(
    documents: Sequence[NodeCharacteristics], precision: str, machine: MachineState
) -> NodePeak | None:
    """Return the highest operations per second of a matrix product on a machine.

    On a CPU it is that of as many threads.
    """
    return _highest(
        NodePeak(figure.best, document.started_at[:10])
        for document in documents
        for figure in document.figures
        if figure.setting.get("precision") == precision
        and _is_product_of(machine, figure, document)
    )


def bandwidth_peak(
    documents: Sequence[NodeCharacteristics], machine: MachineState
) -> NodePeak | None:
    """Return the highest rate at which a machine reads and writes bytes, in any cache.

    On a CPU it is that of a loop of STREAM by as many threads, or of a copy by one thread, times
    the number of threads. A copy reads and writes each byte.
    """
    return _highest(
        NodePeak(factor * figure.best, document.started_at[:10])
        for document in documents
        for figure in document.figures
        if (factor := _factor(machine, figure, document))
    )


def measurements_like(
    documents: Iterable[NodeCharacteristics], machine: MachineState
) -> list[NodeCharacteristics]:
    """Return the measurements of machines that are equal as far as timings know them."""
    return [each for each in documents if _is_equal(machine, each)]


def _is_equal(machine: MachineState, document: NodeCharacteristics) -> bool:
    if machine.device == "GPU":
        return bool(_gpus_like(machine, document))
    identity = document.machine
    kernel = ".".join(identity.kernel.split(".")[:2])
    cpu = f"{identity.cpu_model or identity.architecture}, {identity.cpu_count} CPUs, "
    return machine.name.startswith(cpu) and machine.name.endswith(f", Linux {kernel}")


def _gpus_like(machine: MachineState, document: NodeCharacteristics) -> set[str]:
    """Return the indices of a node's GPUs that are of the machine's model."""
    return {
        str(each.index)
        for each in document.machine.gpus
        if machine.name.startswith(f"{each.name}, ")
    }


def _is_product_of(
    machine: MachineState, figure: NodeFigure, document: NodeCharacteristics
) -> bool:
    setting = figure.setting
    if machine.device == "GPU":
        return figure.name == "gpu/gemm" and setting.get("gpu") in _gpus_like(machine, document)
    return figure.name == "gemm" and setting.get("threads") == str(machine.threads)


def _factor(machine: MachineState, figure: NodeFigure, document: NodeCharacteristics) -> int:
    """Return what turns a figure into bytes per second of all threads; 0 if nothing does."""
    setting = figure.setting
    if machine.device == "GPU":
        is_stream = figure.name.startswith("gpu/stream/")
        return int(is_stream and setting.get("gpu") in _gpus_like(machine, document))
    if figure.name.startswith("stream/"):
        return int(setting.get("threads") == str(machine.threads) and "node" not in setting)
    is_copy = figure.name == "memcpy" and setting.get("source") == setting.get("destination")
    return 2 * machine.threads if is_copy else 0


def _highest(peaks: Iterable[NodePeak]) -> NodePeak | None:
    return max(peaks, key=lambda each: each.rate, default=None)
