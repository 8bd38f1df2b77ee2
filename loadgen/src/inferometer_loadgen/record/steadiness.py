"""Decides whether a warm-up is steady: its last three seconds are alike."""

import math
from collections.abc import Sequence

from inferometer_loadgen.record.windows import STEADY_WINDOWS, SecondStatistics

STEADY_WITHIN = 0.1
_SECOND_NS = 1_000_000_000
_BY_CHANCE = 3.0
"""Standard deviations by which two numbers of random arrivals may differ by chance."""


def is_steady(seconds: Sequence[SecondStatistics], *, open_loop: bool, clients: int = 0) -> bool:
    """Return whether the last three whole seconds of a warm-up differ by less than 10 %.

    In closed loops the number of answers counts; it may also differ by one per client, if only the
    position of a second within a query differs. In open loops the median latency counts, and the
    number of answers; the latter follows the schedule and may differ by chance.
    """
    if len(seconds) < STEADY_WINDOWS:
        return False
    last = seconds[-STEADY_WINDOWS:]
    answers = [each.latencies.total for each in last]
    medians = [median for each in last if (median := each.latencies.at_percentile(50)) is not None]
    if not open_loop:
        return _alike(answers) or _explain_answers(clients, answers, medians)
    by_chance = _BY_CHANCE * math.sqrt(2 * max(answers))
    return (
        len(medians) == len(last)
        and _alike(medians)
        and (_alike(answers) or max(answers) - min(answers) <= by_chance)
    )


def _explain_answers(clients: int, answers: Sequence[int], medians: Sequence[int]) -> bool:
    """Return whether latencies are alike and explain the answers, within one per client."""
    if not medians or not _alike(medians):
        return False
    expected = clients * _SECOND_NS / max(1, *medians)
    return all(abs(each - expected) <= clients for each in answers)


def _alike(values: Sequence[int]) -> bool:
    return min(values) > 0 and max(values) - min(values) < STEADY_WITHIN * min(values)
