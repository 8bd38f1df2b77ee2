"""Advice on a model's reductions on a GPU: what sums on matrix units would save (Q3)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from inferometer_analysis.advice import Advice
from inferometer_analysis.samples import Interval

SUMS = frozenset({"ReduceMean", "ReduceSum"})
SCANS = frozenset({"CumSum"})
AROUND_SUMS = frozenset({"LayerNormalization", "LogSoftmax", "Softmax"})
"""Operators that reduce segments and then compute each element from it."""
_LEAST_GAIN = 0.01
Rates = Mapping[int, float]
"""Bytes read and written in a second by the length of segments, measured on the GPU."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """A layer that reduces segments, with its time on the GPU."""

    operator: str
    length: int
    """Elements of a segment."""
    moved_bytes: int
    """Its input and its output, once each."""
    nanoseconds: float


@dataclass(frozen=True, slots=True)
class MatrixUnitRates:
    """What the kernels of matrix units reach on a GPU."""

    sums: Rates
    scans: Rates
    copy_bytes_per_second: float
    """Bytes read and written in a second by a copy within the GPU's memory."""
    launch_ns: float
    """The time of a kernel that computes nothing."""


def predicted_ns(reduction: Reduction, rates: MatrixUnitRates) -> float | None:
    """Return the time of a reduction on matrix units; None for another operator.

    An operator that computes elements from its sums moves them in any case, so that matrix units
    can at best hide its sums behind a copy.
    """
    if reduction.operator in SUMS:
        rate = _rate(rates.sums, reduction.length)
    elif reduction.operator in SCANS:
        rate = _rate(rates.scans, reduction.length)
    elif reduction.operator in AROUND_SUMS:
        rate = rates.copy_bytes_per_second
    else:
        return None
    return rates.launch_ns + 1e9 * reduction.moved_bytes / rate


def advise_matrix_units(
    reductions: Iterable[Reduction], rates: MatrixUnitRates, inference_ns: float
) -> Advice | None:
    """Return what matrix units would save of an inference.

    None if it is at most 1 %.
    """
    faster: list[Reduction] = []
    then_ns = 0.0
    for each in reductions:
        there_ns = predicted_ns(each, rates)
        if there_ns is not None and there_ns < each.nanoseconds:
            faster.append(each)
            then_ns += there_ns
    now_ns = sum(each.nanoseconds for each in faster)
    gain = (now_ns - then_ns) / inference_ns
    if gain <= _LEAST_GAIN:
        return None
    names = ", ".join(sorted({each.operator for each in faster}))
    return Advice(
        "Q3",
        f"Reductions ({names}) take {now_ns / 1e6:.3f} ms; sums on matrix units need "
        f"{then_ns / 1e6:.3f} ms for the same segments.",
        Interval(gain),
        why_not="No engine has such kernels: a custom operator would call them.",
    )


def _rate(rates: Rates, length: int) -> float:
    """Return the rate at the next shorter length that was measured."""
    known = [each for each in rates if each <= length]
    return rates[max(known, default=min(rates))]
