"""Did all workers of a fleet do their share, and at the same time?

One function for each rule of `rules.RULES` that speaks of workers.
"""

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
    fates = ", ".join(dict.fromkeys(each.fate for each in lost if each.fate))
    why = f": {fates}. With it" if fates else ", and with it"
    yield Breach(
        f"{who} of the fleet was lost{why} a part of the load{' was gone' if fates else ''}.",
        f"{max(1, len(lost))} lost",
        "0 lost",
    )


def worker_start(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where workers began the schedule at different times."""
    offsets = {each.start_offset_nanoseconds: each for each in measurement.step.workers}
    if not offsets:
        return
    first, last = offsets[min(offsets)], offsets[max(offsets)]
    apart = last.start_offset_nanoseconds - first.start_offset_nanoseconds
    if apart > START_LIMIT_NS:
        yield Breach(
            f"Worker {last.worker} began the schedule {in_ms(apart)} later than worker "
            f"{first.worker}.",
            in_ms(apart),
            in_ms(START_LIMIT_NS),
        )
