"""Rules about a fleet: all workers did their share, and at the same time."""

from heapq import nlargest, nsmallest

from inferometer_api.results.result import WorkerShare
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.verdict.measurement import (
    Measurement,
    ScenarioConditions,
    Violation,
    Violations,
    format_milliseconds,
)

START_LIMIT_NS = 5_000_000


def worker_lost(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if a worker was lost, and its share of the load with it."""
    workers = measurement.step.workers
    lost = [each for each in workers if each.lost]
    if not lost and measurement.end is not End.WORKER_LOST:
        return
    who = " and ".join(f"Worker {each.worker}" for each in lost) or "A worker"
    loss_reasons = ", ".join(dict.fromkeys(each.loss_reason for each in lost if each.loss_reason))
    was = "were" if len(lost) > 1 else "was"
    why = f": {loss_reasons}" if loss_reasons else ""
    yield Violation(f"{who} of the fleet {was} lost{why}.", f"{max(1, len(lost))} lost", "0 lost")


def worker_start(measurement: Measurement, _: ScenarioConditions) -> Violations:
    """Yield a violation if workers may have started the schedule at different times.

    A worker starts by its own clock. An error in the offset of that clock from ours does not show
    in any difference that we see, so its whole uncertainty is added.
    """
    workers = [each for each in measurement.step.workers if each.queries]  # those with a share
    firsts, lasts = nsmallest(2, workers, _earliest_ns), nlargest(2, workers, _latest_ns)
    pairs = [(first, last) for first in firsts for last in lasts if first is not last]
    if not pairs:
        return
    first, last = max(pairs, key=lambda pair: _latest_ns(pair[1]) - _earliest_ns(pair[0]))
    apart = _latest_ns(last) - _earliest_ns(first)
    if apart > START_LIMIT_NS:
        uncertain = first.clock_uncertainty_nanoseconds + last.clock_uncertainty_nanoseconds
        started = "may have started" if uncertain else "started"
        known = (
            f", because their clocks are known to {format_milliseconds(uncertain)}"
            if uncertain
            else ""
        )
        yield Violation(
            f"Worker {last.worker} {started} the schedule {format_milliseconds(apart)} later than "
            f"worker {first.worker}{known}; the limit is {format_milliseconds(START_LIMIT_NS)}.",
            format_milliseconds(apart),
            format_milliseconds(START_LIMIT_NS),
        )


def _earliest_ns(worker: WorkerShare) -> int:
    return worker.start_offset_nanoseconds - worker.clock_uncertainty_nanoseconds


def _latest_ns(worker: WorkerShare) -> int:
    return worker.start_offset_nanoseconds + worker.clock_uncertainty_nanoseconds
