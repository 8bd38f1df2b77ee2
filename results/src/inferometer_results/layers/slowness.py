"""Finds when a machine was slower than it can be, by the matrix product of each measurement.

A CPU of a virtual machine can be slower for minutes, without a process that would show: what the
host runs on the other half of its core is not seen from within.
"""

from inferometer_api.layers.timings import LayerTimings
from inferometer_results.quantity import percent

SLOW = 0.1
"""How much longer the product may take than in the fastest measurement that is known."""


def slowdown(timings: LayerTimings, known: LayerTimings | None) -> float:
    """Return by which share the machine was slower than at its fastest known; 0 if not known."""
    fastest = 0 if known is None else known.reference_nanoseconds
    if not fastest or not timings.reference_nanoseconds:
        return 0.0
    return max(timings.reference_nanoseconds / fastest - 1, 0.0)


def slow_sentence(share: float) -> str:
    """Return a warning if the machine was slower by a share that matters, else nothing."""
    if share <= SLOW:
        return ""
    return (
        f"The machine was slow: the same matrix product took {percent(share)} longer than in the "
        "fastest measurement that the database has."
    )
