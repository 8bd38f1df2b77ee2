"""Did all workers of a fleet do their share, and at the same time?

One function for each rule of `rules.RULES` that speaks of workers.
"""

from heapq import nlargest, nsmallest

from inferometer_api.results.result import WorkerShare
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.verdict.breaches import Breach, Broken, Conditions, Measurement, in_ms

START_LIMIT_NS = 5_000_000


def worker_lost(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where a worker was lost, and with it its share of the load."""
    workers = measurement.step.workers
    lost = [each for each in workers if each.lost]
    if not lost and measurement.end is not End.WORKER_LOST:
        return
    who = " and ".join(f"Worker {each.worker}" for each in lost) or "A worker"
    loss_reasons = ", ".join(dict.fromkeys(each.loss_reason for each in lost if each.loss_reason))
    was, it = ("were", "them") if len(lost) > 1 else ("was", "it")
    why = f": {loss_reasons}. With {it}" if loss_reasons else f", and with {it}"
    yield Breach(
        f"{who} of the fleet {was} lost{why} a part of the load{' was gone' if loss_reasons else ''}.",
        f"{max(1, len(lost))} lost",
        "0 lost",
    )


def worker_start(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where workers may have begun the schedule at different times.

    A worker begins by its own clock. What is wrong in the offset of that clock from ours is in no
    difference that we see, so that all of its uncertainty is added to it.
    """
    workers = [each for each in measurement.step.workers if each.queries]  # who had a part
    firsts, lasts = nsmallest(2, workers, _earliest_ns), nlargest(2, workers, _latest_ns)
    pairs = [(first, last) for first in firsts for last in lasts if first is not last]
    if not pairs:
        return
    first, last = max(pairs, key=lambda pair: _latest_ns(pair[1]) - _earliest_ns(pair[0]))
    apart = _latest_ns(last) - _earliest_ns(first)
    if apart > START_LIMIT_NS:
        unsure = first.clock_uncertainty_nanoseconds + last.clock_uncertainty_nanoseconds
        began = "may have begun" if unsure else "began"
        known = f": their clocks are known to {in_ms(unsure)}" if unsure else ""
        yield Breach(
            f"Worker {last.worker} {began} the schedule {in_ms(apart)} later than worker "
            f"{first.worker}{known}.",
            in_ms(apart),
            in_ms(START_LIMIT_NS),
        )


def _earliest_ns(worker: WorkerShare) -> int:
    return worker.start_offset_nanoseconds - worker.clock_uncertainty_nanoseconds


def _latest_ns(worker: WorkerShare) -> int:
    return worker.start_offset_nanoseconds + worker.clock_uncertainty_nanoseconds
