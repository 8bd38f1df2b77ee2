"""The peaks of a node, for rooflines."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure


@dataclass(frozen=True, slots=True)
class NodePeak:
    """The highest rate of a node, and the day on which it was measured."""

    rate: float
    day: str


def product_peak(
    documents: Sequence[NodeCharacteristics], precision: str, threads: int
) -> NodePeak | None:
    """Return the highest operations per second of a matrix product with so many threads."""
    return _highest(
        NodePeak(figure.best, document.started_at[:10])
        for document in documents
        for figure in document.figures
        if figure.name == "gemm"
        and figure.setting.get("precision") == precision
        and figure.setting.get("threads") == str(threads)
    )


def bandwidth_peak(documents: Sequence[NodeCharacteristics], threads: int) -> NodePeak | None:
    """Return the highest rate at which so many threads read and write bytes, in any cache.

    It is that of a loop of STREAM, or of a copy by one thread, times the number of threads: a copy
    reads and writes each byte.
    """
    return _highest(
        NodePeak(factor * figure.best, document.started_at[:10])
        for document in documents
        for figure in document.figures
        if (factor := _factor(figure, threads))
    )


def _factor(figure: NodeFigure, threads: int) -> int:
    """Return what turns a figure into bytes per second of all threads; 0 if nothing does."""
    setting = figure.setting
    if figure.name.startswith("stream/"):
        return int(setting.get("threads") == str(threads) and "node" not in setting)
    is_copy = figure.name == "memcpy" and setting.get("source") == setting.get("destination")
    return 2 * threads if is_copy else 0


def _highest(peaks: Iterable[NodePeak]) -> NodePeak | None:
    return max(peaks, key=lambda each: each.rate, default=None)
