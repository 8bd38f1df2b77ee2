"""Analysis A1 of XSP: the model at each batch size, and which batch size is best."""

from collections.abc import Sequence
from dataclasses import dataclass

_KNEE_GAIN = 0.05


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model at one batch size."""

    batch_size: int
    latency_ns: float
    """Of the whole batch."""

    @property
    def samples_per_second(self) -> float:
        """The throughput of one batch after another."""
        return self.batch_size * 1e9 / self.latency_ns


def model_information(latency_ns: dict[int, float]) -> list[ModelRow]:
    """Return A1: latency and throughput by batch size."""
    return [ModelRow(size, latency_ns[size]) for size in sorted(latency_ns)]


def batch_of_maximum(rows: Sequence[ModelRow]) -> int:
    """Return the batch size with the highest throughput. Raises ValueError without rows."""
    return max(rows, key=lambda row: row.samples_per_second).batch_size


def batch_at_knee(rows: Sequence[ModelRow], gain: float = _KNEE_GAIN) -> int | None:
    """Return the smallest batch size whose doubling adds at most `gain` of throughput.

    None if no measured doubling adds so little. XSP states this rule, and reports the maximum.
    """
    by_size = {row.batch_size: row.samples_per_second for row in rows}
    for size in sorted(by_size):
        doubled = by_size.get(2 * size)
        if doubled is not None and doubled <= (1 + gain) * by_size[size]:
            return size
    return None


def batch_within(rows: Sequence[ModelRow], latency_ns: float) -> int | None:
    """Return the batch size of the highest throughput whose latency is at most `latency_ns`."""
    allowed = [row for row in rows if row.latency_ns <= latency_ns]
    return batch_of_maximum(allowed) if allowed else None
